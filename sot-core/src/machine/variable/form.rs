//! The form of a value, for kinds and for core code that must tell values apart.

/// Form of a value, where code must tell values apart by more than their behaviour. Most kinds, and nearly all of
/// plug-ins, have the form [`Form::Other`] and are told apart by the methods of [`Variable`](super::Variable).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A tensor of the backend.
    Tensor,
    /// A numpy array.
    Array,
    /// A lazy variable: a value from outside that the program has not looked at yet.
    Lazy,
    /// A module.
    Module,
    /// A class.
    Class,
    /// An object of a class written in Python, made in the trace or from outside.
    Instance,
    /// An object of which only attributes and methods are known.
    Object,
    /// An object of a class that extends a builtin type.
    Subclass,
    /// An exception.
    Exception,
    /// A function written in Python.
    Function,
    /// A function written in C.
    BuiltinFunction,
    /// A bound method.
    Method,
    /// A bound method written in C.
    BuiltinMethod,
    /// A `super` object.
    Super,
    /// A generator or coroutine.
    Generator,
    /// A cell.
    Cell,
    /// The globals of a module.
    Globals,
    /// The `__dict__` of an object.
    InstanceDict,
    /// A list.
    List,
    /// A tuple.
    Tuple,
    /// A dict.
    Dict,
    /// A `mappingproxy`.
    MappingProxy,
    /// A set or frozenset.
    Set,
    /// A `collections.deque`.
    Deque,
    /// A range.
    Range,
    /// A slice.
    Slice,
    /// Any other value.
    Other,
}
