//! Attributes that C types compute by a getter function (`tp_getset`), read without another attribute lookup.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use crate::cpython::objects::type_::type_lookup;

/// The getter of an attribute.
#[derive(Debug)]
pub struct Getter {
    descriptor: Py<PyAny>,
    /// Type in which the getter was found; instances of exactly this type need no type check.
    found_in: Py<PyType>,
}

impl Getter {
    /// Returns the getter for `name` of instances of `ty`; `None` if the attribute is not a getset descriptor.
    pub fn find(ty: &Bound<'_, PyType>, name: &Bound<'_, PyString>) -> Option<Getter> {
        let found = type_lookup(ty, name)?;
        // SAFETY: a live object; after the check it is a getset descriptor, whose definition lives as long as its type.
        let readable = unsafe {
            ffi::Py_IS_TYPE(found.as_ptr(), &raw mut ffi::PyGetSetDescr_Type) != 0
                && (*(*found.as_ptr().cast::<ffi::PyGetSetDescrObject>()).d_getset).get.is_some()
        };
        readable.then(|| Getter { descriptor: found.unbind(), found_in: ty.clone().unbind() })
    }

    /// Reads the attribute of `object`; `None` if `object` is no instance of the getter's type, or if the getter
    /// raises.
    #[inline]
    pub fn get<'py>(&self, object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        let py = object.py();
        // SAFETY: `find` has checked what the descriptor is; the getter is called on an instance of its type only.
        let value = unsafe {
            let descriptor = self.descriptor.as_ptr().cast::<ffi::PyGetSetDescrObject>();
            let known = object.get_type_ptr() == self.found_in.as_ptr().cast();
            if !known && ffi::PyObject_TypeCheck(object.as_ptr(), (*descriptor).d_common.d_type) == 0 {
                return None;
            }
            let definition = (*descriptor).d_getset;
            let get = (*definition).get?;
            Bound::from_owned_ptr_or_opt(py, get(object.as_ptr(), (*definition).closure))
        };
        if value.is_none() {
            drop(PyErr::take(py));
        }
        value
    }
}
