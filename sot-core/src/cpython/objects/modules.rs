//! Modules that the tracer itself imports.

use std::ptr::null_mut;

use parking_lot::Mutex;
use pyo3::exceptions::{PyAttributeError, PyImportError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};
use rustc_hash::FxHashMap;

/// Imports a module, and keeps it from the first import on. A replaced `builtins.__import__`, or a changed
/// `sys.modules`, affects only the program's own imports.
pub fn import<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    static MODULES: Mutex<Option<FxHashMap<Box<str>, Py<PyModule>>>> = Mutex::new(None);
    // No Python code runs while the lock is held.
    let modules = || MODULES.lock();
    if let Some(module) = modules().as_ref().and_then(|modules| modules.get(name)) {
        return Ok(module.bind(py).clone());
    }
    let module = import_by_name(&PyString::new(py, name))?;
    modules().get_or_insert_default().insert(name.into(), module.clone().unbind());
    Ok(module)
}

/// Returns a builtin, as it was when [`keep_builtins`] was called. A builtin that the program replaces affects only
/// the program's own calls.
pub fn builtin<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let found = keep_builtins(py)?.get_item(name)?;
    found.ok_or_else(|| PyAttributeError::new_err(format!("no builtin '{name}'")))
}

/// Keeps the present builtins. Later calls change nothing.
pub fn keep_builtins(py: Python<'_>) -> PyResult<&Bound<'_, PyDict>> {
    static BUILTINS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let copy = || PyResult::Ok(import(py, "builtins")?.dict().copy()?.unbind());
    Ok(BUILTINS.get_or_try_init(py, copy)?.bind(py))
}

/// True if a module has been imported completely.
pub fn is_imported(name: &Bound<'_, PyString>) -> bool {
    // SAFETY: a live string; the answer is owned, or null with or without an exception.
    let found = unsafe { Bound::from_owned_ptr_or_opt(name.py(), ffi::PyImport_GetModule(name.as_ptr())) };
    let Some(module) = found else {
        PyErr::take(name.py());
        return false;
    };
    let begins = |spec: Bound<'_, PyAny>| spec.getattr("_initializing")?.is_truthy();
    module.is_instance_of::<PyModule>() && !module.getattr("__spec__").and_then(begins).unwrap_or(false)
}

/// Imports a module without calling `builtins.__import__`.
fn import_by_name<'py>(name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyModule>> {
    let py = name.py();
    // SAFETY: a live string. The first result, the outermost package, is owned, or null with an exception. The second
    // result is owned, or null with or without an exception.
    let found = unsafe {
        Bound::from_owned_ptr_or_err(
            py,
            ffi::PyImport_ImportModuleLevelObject(name.as_ptr(), null_mut(), null_mut(), null_mut(), 0),
        )?;
        Bound::from_owned_ptr_or_opt(py, ffi::PyImport_GetModule(name.as_ptr()))
    };
    match found {
        Some(module) => Ok(module.cast_into()?),
        None => Err(PyErr::take(py).unwrap_or_else(|| PyImportError::new_err(format!("no module '{name}'")))),
    }
}
