//! Resume functions that raise an exception instead of going on, so that the program's handlers around the place see
//! it. If functions were called there, the exception is raised in the innermost.

use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyFunction};

use super::code::build_raising;
use super::ResumeSource;
use crate::cache;
use crate::cpython;
use crate::error::Flow;

/// Returns code for a frame of the resume function with this code; `None` if it is no resume function.
pub fn code_raising(py: Python<'_>, code: &Bound<'_, PyCode>, error: PyErr) -> Flow<Option<Py<PyAny>>> {
    let Ok(unit) = cache::unit_of(code.as_any()) else { return Ok(None) };
    let source = ResumeSource::of(py, &unit)?;
    let Some(key) = source.key(py) else { return Ok(None) };
    let line = source.unit.code.instructions[key.at.index()].position;
    build_raising(py, &source.unit, &key, line, raiser(py, error)?).map(|built| Some(built.code))
}

/// Returns a callable that raises an exception once. The code that calls it does not keep the exception, whose
/// traceback keeps the code.
fn raiser(py: Python<'_>, error: PyErr) -> PyResult<Py<PyAny>> {
    let error = Mutex::new(Some(error));
    let raises = cpython::fastcall_taking(py, "__raise__", "Raises an exception once.", move |py, mut values| {
        let raised = error.lock().take();
        let raised = raised.unwrap_or_else(|| PyRuntimeError::new_err("the exception has been raised before"));
        if values.is_empty() {
            return Err(with_context(py, raised)?);
        }
        let called = values.remove(0);
        match raising_function(&called, raised.clone_ref(py)) {
            Ok(Some(raising)) => cpython::call_giving_arguments(&raising, values).map(Bound::unbind),
            _ => Err(with_context(py, raised)?),
        }
    })?;
    Ok(raises.unbind())
}

/// Returns a function that raises the exception in the place of a resume function.
fn raising_function<'py>(function: &Bound<'py, PyAny>, error: PyErr) -> Flow<Option<Bound<'py, PyAny>>> {
    let Ok(function) = function.cast::<PyFunction>() else { return Ok(None) };
    let Some(code) = code_raising(function.py(), &cpython::function_code(function), error)? else { return Ok(None) };
    let cells = cpython::function_closure(function).map(|cells| cells.iter().collect::<Vec<_>>()).unwrap_or_default();
    let code = cache::untranslated(code.bind(function.py()).cast::<PyCode>().map_err(PyErr::from)?)?;
    Ok(Some(cpython::new_function(&code, &cpython::function_globals(function), &cells)?))
}

/// Returns the exception with the one that is being handled as its context. CPython gives no context to an exception
/// that is passed on from Rust.
fn with_context(py: Python<'_>, error: PyErr) -> PyResult<PyErr> {
    let handled = cpython::import(py, "sys")?.call_method0("exc_info")?.get_item(1)?;
    if !handled.is_none() && !handled.is(error.value(py)) {
        error.value(py).setattr("__context__", handled)?;
    }
    Ok(error)
}
