//! Queries of types that must not run user code: lookups along the method resolution order, and slots of a type.

use std::ffi::CStr;

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple, PyType};

use super::modules::import;

extern "C" {
    #[link_name = "_PyType_Lookup"]
    fn lookup(ty: *mut ffi::PyTypeObject, name: *mut ffi::PyObject) -> *mut ffi::PyObject;
}

/// Returns the entry for `name` in the method resolution order of the type; no descriptor is run.
#[inline]
pub fn type_lookup<'py>(ty: &Bound<'py, PyType>, name: &Bound<'py, PyString>) -> Option<Bound<'py, PyAny>> {
    // SAFETY: both are live objects of their types; the answer is borrowed from a type in the MRO, or null without an
    // exception.
    unsafe { Bound::from_borrowed_ptr_or_opt(ty.py(), lookup(ty.as_type_ptr(), name.as_ptr())) }
}

/// True if the program's code runs when an object of the type dies (`__del__`).
pub fn has_finalizer(ty: &Bound<'_, PyType>) -> bool {
    type_lookup(ty, &PyString::intern(ty.py(), "__del__")).is_some()
}

/// The type's `__name__`, read without calling its metaclass.
pub fn type_name(ty: &Bound<'_, PyType>) -> String {
    if is_heap_type(ty) {
        // SAFETY: a heap type has the larger layout, and its name is a string that it owns.
        let name = unsafe {
            let name = (*ty.as_type_ptr().cast::<ffi::PyHeapTypeObject>()).ht_name;
            Bound::from_borrowed_ptr_or_opt(ty.py(), name)
        };
        return name.and_then(|name| name.extract().ok()).unwrap_or_else(|| "?".to_owned());
    }
    static_type_name(ty).to_owned()
}

/// The `__name__` of a type that is no heap type.
fn static_type_name(ty: &Bound<'_, PyType>) -> &'static str {
    // SAFETY: a type that is no heap type is never freed, nor is its name, a string of C.
    let name = unsafe { CStr::from_ptr((*ty.as_type_ptr()).tp_name) };
    name.to_str().unwrap_or("?").rsplit('.').next().unwrap_or_default()
}

/// The `__qualname__` of a class written in Python, read without calling its metaclass; `None` for static types.
pub fn qualified_name(ty: &Bound<'_, PyType>) -> Option<String> {
    if !is_heap_type(ty) {
        return None;
    }
    // SAFETY: a heap type has the larger layout, and its qualified name is a string that it owns.
    let name = unsafe {
        let name = (*ty.as_type_ptr().cast::<ffi::PyHeapTypeObject>()).ht_qualname;
        Bound::from_borrowed_ptr_or_opt(ty.py(), name)?
    };
    name.extract().ok()
}

/// The name of a type in error messages of C code; for static types this includes the module.
pub fn full_type_name(ty: &Bound<'_, PyType>) -> String {
    // SAFETY: a live type's name is a string of C that lives as long.
    let name = unsafe { CStr::from_ptr((*ty.as_type_ptr()).tp_name) };
    name.to_string_lossy().into_owned()
}

/// Name of the object's type if it is a static type, as CPython's own types are; empty for classes of the program,
/// whatever their names.
pub fn builtin_type_name(object: &Bound<'_, PyAny>) -> &'static str {
    let ty = object.get_type();
    if is_heap_type(&ty) {
        ""
    } else {
        static_type_name(&ty)
    }
}

/// How instances of a type answer attribute reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GetattrHook {
    /// As `object` does.
    Generic,
    /// As `object` does, and if that finds nothing, by the type's `__getattr__`.
    GetAttrHook,
    /// By a `__getattribute__` of their own.
    Custom,
}

/// Returns how instances of `ty` answer attribute reads.
pub fn getattr_hook(ty: &Bound<'_, PyType>) -> GetattrHook {
    if uses_generic_getattr(ty) {
        return GetattrHook::Generic;
    }
    let py = ty.py();
    let getattribute = intern!(py, "__getattribute__");
    // Each builtin type has its own wrapper around the same C function.
    let owner = type_lookup(ty, getattribute).and_then(|own| own.getattr(intern!(py, "__objclass__")).ok());
    let plain = owner.is_some_and(|owner| owner.cast::<PyType>().is_ok_and(uses_generic_getattr));
    if plain && is_heap_type(ty) && type_lookup(ty, intern!(py, "__getattr__")).is_some() {
        GetattrHook::GetAttrHook
    } else {
        GetattrHook::Custom
    }
}

/// Returns the special method that C code would call: the entry of the object's type, bound to the object if it is a
/// descriptor.
pub fn special_method<'py>(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let ty = object.get_type();
    match type_lookup(&ty, &PyString::intern(object.py(), name)) {
        Some(found) if is_descriptor(&found) => {
            found.get_type().getattr(intern!(object.py(), "__get__"))?.call1((found, object, ty)).map(Some)
        }
        found => Ok(found),
    }
}

/// Reads an attribute of a class as `type.__getattribute__` does, even if its metaclass overrides that.
pub fn class_attr<'py>(class: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let ty = class.py().get_type::<PyType>();
    if class.get_type().is(&ty) {
        return class.getattr(name);
    }
    ty.getattr(intern!(class.py(), "__getattribute__"))?.call1((class, name))
}

/// Returns the `__dict__` of a class, even if its metaclass overrides that attribute.
pub fn class_dict<'py>(class: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static DESCRIPTOR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = class.py();
    let own = || PyResult::Ok(py.get_type::<PyType>().getattr("__dict__")?.get_item("__dict__")?.unbind());
    DESCRIPTOR.get_or_try_init(py, own)?.bind(py).call_method1(intern!(py, "__get__"), (class,))
}

/// True if `class` is in the method resolution order of `ty`. No `__subclasscheck__` is called.
#[inline]
pub fn is_subtype(ty: &Bound<'_, PyType>, class: &Bound<'_, PyType>) -> bool {
    // SAFETY: two live types.
    unsafe { ffi::PyType_IsSubtype(ty.as_type_ptr(), class.as_type_ptr()) != 0 }
}

/// Removes a class from its bases' lists of subclasses, which it would otherwise leave only when it is collected.
/// Later changes of the bases are not propagated to such a class.
pub fn forget_subclass(class: &Bound<'_, PyType>) {
    let py = class.py();
    let Ok(bases) = class.getattr("__bases__").and_then(|bases| Ok(bases.cast_into::<PyTuple>()?)) else { return };
    for base in bases.iter().filter_map(|base| base.cast_into::<PyType>().ok()).filter(is_heap_type) {
        // SAFETY: a heap type keeps its subclasses, if any, in a dict by their addresses. The error of a missing key
        // is cleared.
        unsafe {
            let subclasses = (*base.as_type_ptr()).tp_subclasses.cast::<ffi::PyObject>();
            if subclasses.is_null() || ffi::PyDict_CheckExact(subclasses) == 0 {
                continue;
            }
            let key = Bound::from_owned_ptr_or_opt(py, ffi::PyLong_FromVoidPtr(class.as_ptr().cast()));
            if key.is_none_or(|key| ffi::PyDict_DelItem(subclasses, key.as_ptr()) != 0) {
                ffi::PyErr_Clear();
            }
        }
    }
}

/// True if instances of the type read attributes as `object` does.
#[inline]
pub fn uses_generic_getattr(ty: &Bound<'_, PyType>) -> bool {
    // SAFETY: a live type.
    let slot = unsafe { (*ty.as_type_ptr()).tp_getattro };
    slot.is_some_and(|slot| slot as usize == ffi::PyObject_GenericGetAttr as *const () as usize)
}

/// True if instances of the type read and write attributes as `threading.local` does: as `object` does, in a dict of
/// the current thread.
pub fn has_thread_local_attributes(ty: &Bound<'_, PyType>) -> PyResult<bool> {
    if uses_generic_getattr(ty) {
        return Ok(false);
    }
    // Looked up once: this is asked for each read of classes that have hooks of their own.
    static LOCAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let local = || import(ty.py(), "_thread")?.getattr("_local")?.cast_into().map(Bound::unbind).map_err(PyErr::from);
    let base = LOCAL.get_or_try_init(ty.py(), local)?.bind(ty.py());
    // SAFETY: live types.
    let slots = |ty: &Bound<'_, PyType>| unsafe {
        let ty = &*ty.as_type_ptr();
        (ty.tp_getattro.map(|slot| slot as usize), ty.tp_setattro.map(|slot| slot as usize))
    };
    Ok(slots(ty) == slots(base))
}

/// True if instances of the type write attributes as `object` does.
#[inline]
pub fn uses_generic_setattr(ty: &Bound<'_, PyType>) -> bool {
    // SAFETY: a live type.
    let slot = unsafe { (*ty.as_type_ptr()).tp_setattro };
    slot.is_some_and(|slot| slot as usize == ffi::PyObject_GenericSetAttr as *const () as usize)
}

/// True if `object` is a data descriptor, which takes precedence over the instance's own attribute: its type defines
/// `__set__` or `__delete__`.
#[inline]
pub fn is_data_descriptor(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a live object's type.
    unsafe { (*ffi::Py_TYPE(object.as_ptr())).tp_descr_set.is_some() }
}

/// True if `object` is a descriptor, which computes the value of the attribute: its type defines `__get__`.
#[inline]
pub fn is_descriptor(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a live object's type.
    unsafe { (*ffi::Py_TYPE(object.as_ptr())).tp_descr_get.is_some() }
}

/// True if objects of the type have the buffer protocol, as bytes have.
pub fn has_buffer(ty: &Bound<'_, PyType>) -> bool {
    // SAFETY: a live type; its table of functions lives as long, if there is one.
    unsafe {
        let functions = (*ty.as_type_ptr()).tp_as_buffer;
        !functions.is_null() && (*functions).bf_getbuffer.is_some()
    }
}

/// `Py_TPFLAGS_IMMUTABLETYPE`
const IMMUTABLE: u64 = 1 << 8;

/// True if the type is written in C, also if it is a heap type.
pub fn is_made_by_c(ty: &Bound<'_, PyType>) -> PyResult<bool> {
    Ok(!is_heap_type(ty) || ty.getattr("__flags__")?.extract::<u64>()? & IMMUTABLE != 0)
}

/// True if objects of the type have items by number, as C code asks (`PySequence_Check`).
pub fn has_items_by_number(ty: &Bound<'_, PyType>) -> bool {
    // SAFETY: a live type; its table of methods lives as long, if there is one.
    unsafe {
        let methods = (*ty.as_type_ptr()).tp_as_sequence;
        !methods.is_null() && (*methods).sq_item.is_some()
    }
}

/// True if the type was created at run time, for example by a class statement.
#[inline]
pub fn is_heap_type(ty: &Bound<'_, PyType>) -> bool {
    // SAFETY: a live type.
    unsafe { ffi::PyType_HasFeature(ty.as_type_ptr(), ffi::Py_TPFLAGS_HEAPTYPE) != 0 }
}
