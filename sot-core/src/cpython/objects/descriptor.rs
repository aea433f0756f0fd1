//! Kinds of the objects that classes hold under a name.

use pyo3::prelude::*;

use super::type_::builtin_type_name;

/// What an object that a class holds is to attribute lookup. Only CPython's own types have a kind; a class of the
/// program with the name of such a type has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DescriptorKind {
    /// A function written in Python.
    Function,
    /// A method in C, such as `list.append`.
    Method,
    /// A special method in C (a "slot wrapper"), such as `list.__len__`.
    SlotWrapper,
    /// A class method in C, such as `dict.fromkeys`.
    CClassMethod,
    /// A function in C, such as `list.__new__`.
    BuiltinFunction,
    /// `staticmethod(...)`
    StaticMethod,
    /// `classmethod(...)`
    ClassMethod,
    /// `PyInstanceMethod_New(...)`, by which C code binds functions like methods.
    InstanceMethod,
    /// `property(...)`
    Property,
    /// A slot of `__slots__`, or a field of an object laid out in C.
    Member,
    /// An attribute that a getter in C computes, such as `type.__dict__`.
    Getset,
    /// Anything else: a value, or a descriptor of the program or of another library.
    Other,
}

impl DescriptorKind {
    /// The kind of an object.
    pub fn of(object: &Bound<'_, PyAny>) -> Self {
        match builtin_type_name(object) {
            "function" => DescriptorKind::Function,
            "method_descriptor" => DescriptorKind::Method,
            "wrapper_descriptor" => DescriptorKind::SlotWrapper,
            "classmethod_descriptor" => DescriptorKind::CClassMethod,
            "builtin_function_or_method" => DescriptorKind::BuiltinFunction,
            "staticmethod" => DescriptorKind::StaticMethod,
            "classmethod" => DescriptorKind::ClassMethod,
            "instancemethod" => DescriptorKind::InstanceMethod,
            "property" => DescriptorKind::Property,
            "member_descriptor" => DescriptorKind::Member,
            "getset_descriptor" => DescriptorKind::Getset,
            _ => DescriptorKind::Other,
        }
    }

    /// True for a method in C that takes its receiver as the first argument.
    pub fn is_c_method(self) -> bool {
        matches!(self, DescriptorKind::Method | DescriptorKind::SlotWrapper)
    }

    /// True for a method or attribute in C that belongs to a type: CPython's types of descriptors.
    pub fn is_c_descriptor(self) -> bool {
        self.is_c_method() || self.is_c_attribute() || self == DescriptorKind::CClassMethod
    }

    /// True for an attribute that C code keeps or computes.
    pub fn is_c_attribute(self) -> bool {
        matches!(self, DescriptorKind::Member | DescriptorKind::Getset)
    }
}
