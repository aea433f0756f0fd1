//! Instance attributes read without running user code, and objects created from their parts.

use std::ffi::c_int;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule, PyString, PyType};

use crate::cpython::import;

extern "C" {
    #[link_name = "_PyObject_GenericGetAttrWithDict"]
    fn getattr_with_dict(
        object: *mut ffi::PyObject,
        name: *mut ffi::PyObject,
        dict: *mut ffi::PyObject,
        suppress: c_int,
    ) -> *mut ffi::PyObject;
    #[link_name = "_PyObject_GetDictPtr"]
    fn dict_pointer(object: *mut ffi::PyObject) -> *mut *mut ffi::PyObject;
}

/// Returns the dict of an object's own attributes, creating it if need be. `None` if objects of the type have no
/// dict, for types, whose dict must not be written to, and for modules that are not initialised and have none.
///
/// From 3.11 on, creating the dict moves the attributes out of the object, which makes later reads slower. To read
/// one attribute, use [`generic_getattr`].
pub fn instance_dict<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
    if object.is_instance_of::<PyType>() || !has_dict_slot(object) {
        return None;
    }
    if object.is_instance_of::<PyModule>() {
        return instance_dict_if_made(object);
    }
    // SAFETY: a live object; the answer is owned, or null with an exception, which is dropped.
    let dict =
        unsafe { Bound::from_owned_ptr_or_opt(object.py(), ffi::PyObject_GenericGetDict(object.as_ptr(), null_mut())) };
    if dict.is_none() {
        drop(PyErr::take(object.py()));
    }
    dict?.cast_into().ok()
}

/// Returns the object's own dict if it exists already. It is not created, because for some objects having a dict
/// makes a difference.
#[must_use]
pub fn instance_dict_if_made<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
    if object.is_instance_of::<PyType>() || !has_dict_slot(object) {
        return None;
    }
    // SAFETY: a live object; the answer is null or the place of a dict that may be null, which the object holds.
    let dict = unsafe {
        let place = dict_pointer(object.as_ptr());
        if place.is_null() {
            return None;
        }
        Bound::from_borrowed_ptr_or_opt(object.py(), *place)
    };
    dict?.cast_into().ok()
}

/// Reads an attribute as `object.__getattribute__` does, even if the type overrides it; `None` if it does not exist.
/// User code runs only if the type has a descriptor of this name.
#[inline]
pub fn generic_getattr<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    // SAFETY: live objects; the answer is owned, or null, with an exception only if something else went wrong.
    let found =
        unsafe { Bound::from_owned_ptr_or_opt(py, getattr_with_dict(object.as_ptr(), name.as_ptr(), null_mut(), 1)) };
    match found {
        Some(value) => Ok(Some(value)),
        None => PyErr::take(py).map_or(Ok(None), Err),
    }
}

/// `slice(start, stop, step)`
pub fn new_slice<'py>(py: Python<'py>, [start, end, step]: [&Bound<'py, PyAny>; 3]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: live objects; the answer is owned or null with an exception.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PySlice_New(start.as_ptr(), end.as_ptr(), step.as_ptr())) }
}

/// Number of references to the object.
pub fn refcount(object: &Bound<'_, PyAny>) -> isize {
    // SAFETY: a live object.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) }
}

/// Returns what an object holds by references that the garbage collector visits, as `gc.get_referents` does; at most
/// `most` of them.
pub fn held_objects<'py>(object: &Bound<'py, PyAny>, most: usize) -> Vec<Bound<'py, PyAny>> {
    /// What has been visited.
    struct Visited<'py> {
        py: Python<'py>,
        found: Vec<Bound<'py, PyAny>>,
        most: usize,
    }

    /// Keeps a referent. Ends the visit once there are enough.
    ///
    /// # Safety
    /// Called by `tp_traverse` with a live referent, and with the pointer that [`held_objects`] hands over.
    unsafe extern "C" fn visit(referent: *mut ffi::PyObject, visited: *mut std::ffi::c_void) -> std::ffi::c_int {
        // SAFETY: `held_objects` hands over a pointer to its own value, which no one else uses during the visit.
        let visited = unsafe { &mut *visited.cast::<Visited<'_>>() };
        if visited.found.len() == visited.most {
            return 1;
        }
        // SAFETY: the visited object holds a reference to this one.
        visited.found.push(unsafe { Bound::from_borrowed_ptr(visited.py, referent) });
        0
    }

    let mut visited = Visited { py: object.py(), found: Vec::new(), most };
    // SAFETY: a live object. `tp_traverse` is called only for objects that take part in garbage collection, as the
    // collector does, with the interpreter attached; it runs no Python code.
    unsafe {
        let ty = ffi::Py_TYPE(object.as_ptr());
        let takes_part = ffi::PyType_IS_GC(ty) != 0 && (*ty).tp_is_gc.is_none_or(|is_gc| is_gc(object.as_ptr()) != 0);
        if let Some(traverse) = (*ty).tp_traverse.filter(|_| takes_part) {
            traverse(object.as_ptr(), visit, std::ptr::from_mut(&mut visited).cast());
        }
    }
    visited.found
}

/// True if objects of this type have a place for a dict.
fn has_dict_slot(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a live object's type.
    let ty = unsafe { &*ffi::Py_TYPE(object.as_ptr()) };
    #[cfg(Py_3_12)]
    // SAFETY: a live type.
    if unsafe { ffi::PyType_HasFeature(std::ptr::from_ref(ty).cast_mut(), ffi::Py_TPFLAGS_MANAGED_DICT) } != 0 {
        return true;
    }
    ty.tp_dictoffset != 0
}

/// True if the object is exactly a `collections.deque`, and of no subclass.
pub fn is_deque(object: &Bound<'_, PyAny>) -> bool {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = object.py();
    let find = || PyResult::Ok(import(py, "collections")?.getattr("deque")?.cast_into()?.unbind());
    TYPE.get_or_try_init(py, find).is_ok_and(|ty| object.get_type().is(ty))
}
