//! Plain values, recognised by their exact type.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyCode, PyComplex, PyFloat, PyInt, PyString};

/// True if the object is exactly an `int` or `float`, and of no subclass.
#[must_use]
pub fn is_number(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyInt>() || object.is_exact_instance_of::<PyFloat>()
}

/// True if the object is of an immutable type whose instances are interchangeable if they are equal.
#[must_use]
pub fn is_atom(object: &Bound<'_, PyAny>) -> bool {
    object.is_none()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyBool>()
        || object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyBytes>()
        || object.is_exact_instance_of::<PyComplex>()
        || object.is(object.py().Ellipsis())
        || object.is(object.py().NotImplemented())
        || object.is_exact_instance_of::<PyCode>()
}

/// True if the object is exactly a `str`, and of no subclass.
#[must_use]
pub fn is_text(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyString>()
}
