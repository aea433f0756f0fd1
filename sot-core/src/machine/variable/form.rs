//! What a value is, as far as other kinds and the core have to tell values apart.

/// The forms of values that are told apart by more than what they do. Most kinds, and as a rule those of plug-ins, have
/// none: they answer the questions of [`Variable`](super::Variable).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A tensor of the backend.
    Tensor,
    /// A numpy array.
    Array,
    /// A value from outside that nobody has looked at yet.
    Lazy,
    /// A module.
    Module,
    /// A class.
    Class,
    /// An object of a class in Python, made in the trace or from outside.
    Instance,
    /// An object of which only attributes and methods are known.
    Object,
    /// An object of a class that extends one of the builtin types.
    Subclass,
    /// An exception.
    Exception,
    /// A function in Python.
    Function,
    /// A function in C.
    BuiltinFunction,
    /// A bound method.
    Method,
    /// A bound method of C's.
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
    /// None of these.
    Other,
}
