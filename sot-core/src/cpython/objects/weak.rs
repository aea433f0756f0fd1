//! Weak references that can call Rust code when their object dies.

use std::ffi::CStr;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::cpython::objects::callable::fastcall;

/// Callback for the death of an object.
pub type OnDeath = Box<dyn Fn(Python<'_>) + Send + Sync>;

/// A weak reference to an object.
#[derive(Debug)]
pub struct WeakRef {
    reference: Py<PyAny>,
    address: usize,
}

/// True for `P.args` and `P.kwargs` of a `ParamSpec`: CPython 3.12 and 3.13 free them without clearing their weak
/// references, which are left dangling.
fn dies_unseen(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a live object has a live type, whose name ends with zero.
    let name = unsafe { CStr::from_ptr((*ffi::Py_TYPE(object.as_ptr())).tp_name) };
    name == c"typing.ParamSpecArgs" || name == c"typing.ParamSpecKwargs"
}

impl WeakRef {
    /// Creates a weak reference. It calls `on_death` when the object dies, unless it is dropped before. Fails with a
    /// `TypeError` if objects of this type do not support weak references.
    pub fn new(object: &Bound<'_, PyAny>, on_death: Option<OnDeath>) -> PyResult<WeakRef> {
        let py = object.py();
        if dies_unseen(object) {
            let text = "objects of this type die without clearing their weak references";
            return Err(PyTypeError::new_err(text));
        }
        let callback = match on_death {
            Some(on_death) => Some(fastcall(py, "on_death", "", move |py, _| {
                on_death(py);
                Ok(py.None())
            })?),
            None => None,
        };
        // SAFETY: live objects, or null for no callback; the answer is owned or null with an exception.
        let reference = unsafe {
            let callback = callback.as_ref().map_or(std::ptr::null_mut(), Bound::as_ptr);
            Bound::from_owned_ptr_or_err(py, ffi::PyWeakref_NewRef(object.as_ptr(), callback))?
        };
        Ok(WeakRef { reference: reference.unbind(), address: object.as_ptr() as usize })
    }

    /// Returns the object, if it is alive.
    #[inline]
    pub fn get<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        // SAFETY: a live weak reference; the answer is made owned before anything else can run.
        #[cfg(not(Py_3_13))]
        unsafe {
            let object = ffi::PyWeakref_GetObject(self.reference.as_ptr());
            (object != ffi::Py_None()).then(|| Bound::from_borrowed_ptr(py, object))
        }
        // SAFETY: a live weak reference; the answer is owned or null, and cannot be an error for one.
        #[cfg(Py_3_13)]
        unsafe {
            let mut object = std::ptr::null_mut();
            ffi::PyWeakref_GetRef(self.reference.as_ptr(), &raw mut object);
            Bound::from_owned_ptr_or_opt(py, object)
        }
    }

    /// True if this refers to `object`. This is a single load, because a dead reference refers to `None`.
    #[inline]
    pub fn is(&self, object: &Bound<'_, PyAny>) -> bool {
        self.referent() == object.as_ptr()
    }

    /// True if this refers to the type of `object`.
    #[inline]
    pub fn is_type_of(&self, object: &Bound<'_, PyAny>) -> bool {
        self.referent() == object.get_type_ptr().cast()
    }

    /// True if the object is alive.
    #[inline]
    pub fn is_alive(&self, py: Python<'_>) -> bool {
        self.get(py).is_some()
    }

    /// The address in the weak reference, which is that of `None` once the object has died. Only for comparisons.
    #[inline]
    fn referent(&self) -> *mut ffi::PyObject {
        // SAFETY: a live object of exactly the weak reference type, as `PyWeakref_NewRef` makes it.
        unsafe { (*self.reference.as_ptr().cast::<ffi::PyWeakReference>()).wr_object }
    }

    /// The weak reference as a Python object.
    pub(in crate::cpython) fn as_object(&self) -> &Py<PyAny> {
        &self.reference
    }

    /// Address of the object, even if it has died.
    #[inline]
    pub fn address(&self) -> usize {
        self.address
    }
}

/// Returns the referents as a tuple; `None` if one of them has died.
pub fn referents<'py>(py: Python<'py>, references: &[WeakRef]) -> PyResult<Option<Bound<'py, PyTuple>>> {
    // SAFETY: a new tuple's places are null until each is filled once with an owned reference; a tuple with empty
    // places may be freed.
    unsafe {
        let tuple = Bound::from_owned_ptr_or_err(py, ffi::PyTuple_New(references.len() as isize))?;
        for (at, reference) in references.iter().enumerate() {
            let object = reference.referent();
            // A referent that is being destroyed is still referred to, with a reference count of 0.
            if object as usize != reference.address || ffi::Py_REFCNT(object) == 0 {
                return Ok(None);
            }
            ffi::Py_INCREF(object);
            ffi::PyTuple_SET_ITEM(tuple.as_ptr(), at as isize, object);
        }
        Ok(Some(tuple.cast_into_unchecked()))
    }
}

/// True if the object supports weak references.
#[inline]
pub fn supports_weakref(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a live object's type.
    let ty = unsafe { &*ffi::Py_TYPE(object.as_ptr()) };
    #[cfg(Py_3_12)]
    // SAFETY: a live type.
    if unsafe { ffi::PyType_HasFeature(std::ptr::from_ref(ty).cast_mut(), MANAGED_WEAKREF) } != 0 {
        return true;
    }
    ty.tp_weaklistoffset > 0
}

/// True if there are weak references to the object.
pub fn has_weakrefs(object: &Bound<'_, PyAny>) -> bool {
    if !supports_weakref(object) {
        return false;
    }
    // SAFETY: a live object. Its type supports weak references, so the first of them is noted at this offset, which is
    // negative where CPython manages it in front of the object.
    unsafe {
        let offset = (*ffi::Py_TYPE(object.as_ptr())).tp_weaklistoffset;
        let first = object.as_ptr().byte_offset(offset).cast::<*mut ffi::PyObject>();
        !first.read().is_null()
    }
}

/// `Py_TPFLAGS_MANAGED_WEAKREF`.
#[cfg(Py_3_12)]
const MANAGED_WEAKREF: std::ffi::c_ulong = 1 << 3;
