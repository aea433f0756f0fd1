//! CPython's object model for values whose kind has no special rules: attribute lookup through the type's method
//! resolution order and descriptors, special methods, truth, equality. Follows `Objects/object.c` and
//! `Objects/typeobject.c`. Python code is not run but simulated.

pub(in crate::machine::executor) mod attributes;
mod descriptors;
mod lookup;
mod operations;
mod special_methods;

pub use attributes::{
    assume_own_reads, found_below, generic_get_attr, generic_set_attr, get_attr, is_attribute_error, or_hook,
    own_get_attr, record_attribute, set_attr,
};
pub use descriptors::{bind_class_method, bind_descriptor};
pub use lookup::{
    guard_descriptor, guard_identity, has_own_class, inherits, is_callable, is_python_method, lookup, lookup_in_class,
    lookup_in_type, type_tracker, type_variable,
};
pub use operations::{
    binary, call, can_be_iterated, compare, contains, contains_among, equal, graph_argument, inplace, is_iterable,
    is_nan, is_sequence, iter, len, next, refuse_own_methods, truth,
};
pub(crate) use operations::{is_method_of_sequence, repeats};
pub use special_methods::{call_special, checked, convert, find_special, has_special};
