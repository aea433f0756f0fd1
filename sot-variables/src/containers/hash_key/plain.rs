//! Objects that C code hashes and compares.

use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyCFunction, PyComplex, PyFloat, PyFrozenSet, PyInt, PyRange, PyString, PyTuple, PyType,
    PyWeakrefMethods, PyWeakrefReference,
};

use sot_core::cpython;

use crate::classes::object::is_c_value;

/// Maximum depth to which tuples and frozen sets are searched.
pub(super) const MAX_DEPTH: usize = 20;

/// True if hashing and comparing the object runs no code of the program, and its results never change.
pub(super) fn is_plain(object: &Bound<'_, PyAny>, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    if let Ok(tuple) = object.cast_exact::<PyTuple>() {
        return tuple.iter().all(|item| is_plain(&item, depth + 1));
    }
    if let Ok(set) = object.cast_exact::<PyFrozenSet>() {
        return set.iter().all(|item| is_plain(&item, depth + 1));
    }
    is_atom(object) || hashed_in_c(object)
}

pub(super) fn is_atom(object: &Bound<'_, PyAny>) -> bool {
    object.is_none()
        || object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyBool>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyBytes>()
        || object.is_exact_instance_of::<PyComplex>()
        || object.is_exact_instance_of::<PyRange>()
        || object.is(object.py().Ellipsis())
}

/// True if C code hashes and compares the object.
pub(super) fn hashed_in_c(object: &Bound<'_, PyAny>) -> bool {
    compares_by_identity(object)
        || is_c_value(object)
        || object.is_instance_of::<PyCFunction>()
        || refers_to_class(object)
}

/// True if the object is a weak reference to a class that compares by identity. The reference compares as the class
/// does.
fn refers_to_class(object: &Bound<'_, PyAny>) -> bool {
    let reference = object.cast_exact::<PyWeakrefReference>().ok().and_then(PyWeakrefMethods::upgrade);
    reference.is_some_and(|referent| referent.is_instance_of::<PyType>() && compares_by_identity(&referent))
}

fn compares_by_identity(object: &Bound<'_, PyAny>) -> bool {
    type_compares_by_identity(&object.get_type())
}

pub(super) fn type_compares_by_identity(ty: &Bound<'_, PyType>) -> bool {
    let py = ty.py();
    let base = py.get_type::<PyAny>();
    let is_default = |name: &str, default: PyResult<Bound<'_, PyAny>>| {
        let found = cpython::type_lookup(ty, &PyString::intern(py, name));
        matches!((found, default), (Some(found), Ok(default)) if found.is(&default))
    };
    // Members of an enumeration hash by their name.
    let of_enum = || cpython::import(py, "enum").and_then(|module| module.getattr("Enum")?.getattr("__hash__"));
    is_default("__eq__", base.getattr("__eq__"))
        && (is_default("__hash__", base.getattr("__hash__")) || is_default("__hash__", of_enum()))
}
