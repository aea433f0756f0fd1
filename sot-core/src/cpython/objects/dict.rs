//! Reads of dicts with known keys. A key whose comparison raises counts as missing.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Returns the value under a key.
#[inline]
pub fn dict_get<'py>(dict: &Bound<'py, PyDict>, key: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let py = dict.py();
    // SAFETY: live objects; the borrowed answer is made owned before anything else can run.
    #[cfg(not(Py_3_13))]
    let found =
        unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyDict_GetItemWithError(dict.as_ptr(), key.as_ptr())) };
    // SAFETY: live objects; the answer is owned or null.
    #[cfg(Py_3_13)]
    let found = unsafe {
        let mut value = std::ptr::null_mut();
        ffi::PyDict_GetItemRef(dict.as_ptr(), key.as_ptr(), &raw mut value);
        Bound::from_owned_ptr_or_opt(py, value)
    };
    if found.is_none() {
        clear_error(py);
    }
    found
}

/// True if the dict certainly does not have the key.
#[inline]
pub fn dict_lacks<'py>(dict: &Bound<'py, PyDict>, key: &Bound<'py, PyAny>) -> bool {
    // SAFETY: live objects; the answer is 0, 1, or -1 with an exception.
    let answer = unsafe { ffi::PyDict_Contains(dict.as_ptr(), key.as_ptr()) };
    if answer < 0 {
        clear_error(dict.py());
    }
    answer == 0
}

extern "C" {
    #[link_name = "_PyDict_GetItem_KnownHash"]
    fn get_item_of_hash(dict: *mut ffi::PyObject, key: *mut ffi::PyObject, hash: ffi::Py_hash_t) -> *mut ffi::PyObject;
}

/// True if the dict has the key under this hash. Another key that the dict keeps under this hash is compared.
pub fn is_kept_under<'py>(dict: &Bound<'py, PyDict>, key: &Bound<'py, PyAny>, hash: isize) -> bool {
    // SAFETY: live objects; the answer is borrowed or null, and only compared with null.
    let is_found = unsafe { !get_item_of_hash(dict.as_ptr(), key.as_ptr(), hash).is_null() };
    clear_error(dict.py());
    is_found
}

/// True if all keys pass the test, which is asked in order, up to the first key that does not pass. The test runs no
/// code of the program.
#[inline]
pub fn all_keys<'py>(dict: &Bound<'py, PyDict>, mut test: impl FnMut(&Bound<'py, PyAny>) -> bool) -> bool {
    let (mut position, mut key) = (0, std::ptr::null_mut());
    // SAFETY: a live dict, which nothing changes meanwhile; each key is alive as long as it is in the dict.
    unsafe {
        while ffi::PyDict_Next(dict.as_ptr(), &raw mut position, &raw mut key, std::ptr::null_mut()) != 0 {
            if !test(&Borrowed::from_ptr(dict.py(), key)) {
                return false;
            }
        }
    }
    true
}

/// True if two strings have the same characters.
#[inline]
pub fn same_text(a: &Bound<'_, PyString>, b: &Bound<'_, PyString>) -> bool {
    // SAFETY: live strings: comparing them runs no code, and does not fail.
    a.is(b) || unsafe { ffi::PyUnicode_Compare(a.as_ptr(), b.as_ptr()) } == 0
}

#[inline]
fn clear_error(_py: Python<'_>) {
    // SAFETY: the token says the GIL is held.
    unsafe {
        if !ffi::PyErr_Occurred().is_null() {
            ffi::PyErr_Clear();
        }
    }
}

/// Layout of `mappingproxyobject`, equal in all versions.
#[repr(C)]
struct Proxy {
    head: ffi::PyObject,
    mapping: *mut ffi::PyObject,
}

extern "C" {
    /// The type `collections.OrderedDict`.
    static mut PyODict_Type: ffi::PyTypeObject;
}

/// Returns the dict or `OrderedDict` behind a `mappingproxy`; `None` for other objects, and if another mapping is
/// behind it.
pub fn proxied_dict<'py>(proxy: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
    // SAFETY: naming a static type reads nothing; an object of exactly this type is a `Proxy` that holds a live object.
    let mapping = unsafe {
        if proxy.get_type_ptr() != &raw mut ffi::PyDictProxy_Type {
            return None;
        }
        Bound::from_borrowed_ptr(proxy.py(), (*proxy.as_ptr().cast::<Proxy>()).mapping)
    };
    let is_ordered = mapping.get_type_ptr() == &raw mut PyODict_Type;
    let is_dict = is_ordered || mapping.is_exact_instance_of::<PyDict>();
    mapping.cast_into::<PyDict>().ok().filter(|_| is_dict)
}
