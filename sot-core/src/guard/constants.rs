//! Equality of constants as guards see it: same type, equal value and equal parts. The comparison never runs the
//! program's code.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyRange, PyString, PyTuple};

use crate::cpython;

/// True if hashing or comparing the object may run the program's code.
pub(super) fn may_run_code(object: &Bound<'_, PyAny>) -> bool {
    match object.cast_exact::<PyTuple>() {
        Ok(tuple) => tuple.iter().any(|item| may_run_code(&item)),
        Err(_) => cpython::is_heap_type(&object.get_type()),
    }
}

/// Returns whether a dict, a set, or the dict behind a `mappingproxy` has a key. `None` if only code of the program
/// could tell, and for other objects.
#[inline]
pub fn has_key<'py>(container: &Bound<'py, PyAny>, key: &Bound<'py, PyAny>) -> Option<bool> {
    if may_run_code(key) {
        return None;
    }
    let same = |other: &Bound<'py, PyAny>| match other.is(key) {
        false if may_run_code(other) => None,
        false => other.eq(key).ok(),
        true => Some(true),
    };
    match container.cast::<PyDict>() {
        Ok(dict) => cpython::dict_has(dict, key, same),
        Err(_) => match cpython::proxied_dict(container) {
            Some(dict) => cpython::dict_has(&dict, key, same),
            None => cpython::set_has(container, key, same),
        },
    }
}

/// True if two constants have one type and the same value; floats are compared bit for bit.
#[inline]
pub fn same_constant(value: &Bound<'_, PyAny>, constant: &Bound<'_, PyAny>) -> bool {
    value.is(constant) || equal_constants(value, constant)
}

fn equal_constants(value: &Bound<'_, PyAny>, constant: &Bound<'_, PyAny>) -> bool {
    if !value.get_type().is(constant.get_type()) {
        return false;
    }
    if let (Ok(a), Ok(b)) = (value.cast_exact::<PyFloat>(), constant.cast_exact::<PyFloat>()) {
        return a.value().to_bits() == b.value().to_bits();
    }
    if let (Ok(a), Ok(b)) = (value.cast_exact::<PyTuple>(), constant.cast_exact::<PyTuple>()) {
        return a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same_constant(&a, &b));
    }
    // An equal frozenset may hold other (equal) elements, and iterate in another order.
    if let (Ok(a), Ok(b)) = (value.cast_exact::<PyFrozenSet>(), constant.cast_exact::<PyFrozenSet>()) {
        return a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same_constant(&a, &b));
    }
    // Equal code objects may still differ in their lines.
    if value.is_exact_instance_of::<pyo3::types::PyCode>() {
        return false;
    }
    if value.is_exact_instance_of::<pyo3::types::PyComplex>() {
        return value.repr().is_ok_and(|a| constant.repr().is_ok_and(|b| a.to_string() == b.to_string()));
    }
    value.eq(constant).unwrap_or(false)
        && (is_decided_by_equality(value) || look_alike(value, constant).unwrap_or(false))
}

fn is_decided_by_equality(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyBytes>()
}

/// True if two equal values of one type have the same parts. Equal ranges can have different ends, equal times
/// different zones, and equal numpy numbers different signs and units.
fn look_alike(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = a.py();
    let parts = if a.is_exact_instance_of::<PyRange>() {
        [intern!(py, "start"), intern!(py, "stop"), intern!(py, "step")]
    } else if a.hasattr(intern!(py, "fold"))? {
        [intern!(py, "tzinfo"), intern!(py, "fold"), intern!(py, "resolution")]
    } else if a.hasattr(intern!(py, "dtype"))? {
        let bytes = intern!(py, "tobytes");
        let same_bytes = a.call_method0(bytes)?.eq(b.call_method0(bytes)?)?;
        return Ok(same_bytes && a.getattr(intern!(py, "dtype"))?.eq(b.getattr(intern!(py, "dtype"))?)?);
    } else {
        return Ok(true);
    };
    for part in parts {
        if !same_constant(&a.getattr(part)?, &b.getattr(part)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if a key can stand for the expected one. Keys are compared as constants are, except that a key which is not
/// equal to itself (`nan`) has to be the same object.
pub(super) fn same_key(key: &Bound<'_, PyAny>, expected: &Bound<'_, PyAny>) -> bool {
    if let (Ok(text), Ok(other)) = (key.cast_exact::<PyString>(), expected.cast_exact::<PyString>()) {
        return cpython::same_text(text, other);
    }
    if let (Ok(items), Ok(others)) = (key.cast_exact::<PyTuple>(), expected.cast_exact::<PyTuple>()) {
        return items.len() == others.len() && items.iter().zip(others.iter()).all(|(a, b)| same_key(&a, &b));
    }
    if let (Ok(items), Ok(others)) = (key.cast_exact::<PyFrozenSet>(), expected.cast_exact::<PyFrozenSet>()) {
        return items.len() == others.len() && items.iter().zip(others.iter()).all(|(a, b)| same_key(&a, &b));
    }
    key.is(expected) || same_constant(key, expected) && key.eq(key).unwrap_or(false)
}
