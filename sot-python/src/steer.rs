//! Functions by which users steer the tracer: errors instead of breaks and fallbacks, stances, progress, and calls
//! without the tracer.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyTuple, PyType};
use sot_core::error::{Forbidden, RecompileError};
use sot_core::stance::Stance;
use sot_core::{cpython, log, progress, translate};

use crate::face;
use crate::translated::code_of;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(forbid, module)?)?;
    module.add("RecompileError", module.py().get_type::<RecompileError>())?;
    module.add_function(wrap_pyfunction!(_take_stance, module)?)?;
    module.add_function(wrap_pyfunction!(_add_progress_callback, module)?)?;
    module.add_function(wrap_pyfunction!(_remove_progress_callback, module)?)?;
    module.add_function(wrap_pyfunction!(_ask_log_level_again, module)?)?;
    module.add_function(wrap_pyfunction!(call_untraced, module)?)
}

/// Turns graph breaks or fallbacks of a function into errors.
#[pyfunction]
fn forbid<'py>(function: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyAny>> {
    let (what, name) = match what {
        "breakgraph" => (Forbidden::Break, "check_no_breakgraph"),
        _ => (Forbidden::Fallback, "check_no_fallback"),
    };
    let code: Option<Bound<'_, PyCode>> = if function.is_instance_of::<PyType>() { None } else { code_of(function)? };
    match code.as_ref().and_then(translate::cache_of) {
        Some(cache) => cache.forbid(what),
        None => {
            let shown = sot_core::tracker::repr(function.py(), &function.clone().unbind());
            let package = &face::used()?.package;
            let text = format!("{package}.psdb.{name}() takes a Python function or method, not {shown}");
            return Err(PyTypeError::new_err(text));
        }
    }
    Ok(function.clone())
}

/// Sets the stance with this name, and returns the name of the former stance.
#[pyfunction]
fn _take_stance(name: &str) -> PyResult<&'static str> {
    let stance = Stance::named(name).ok_or_else(|| PyValueError::new_err(format!("there is no stance {name:?}")))?;
    Ok(stance.take())
}

/// Adds a callback that is told of long translations. Returns the number by which it is removed.
#[pyfunction]
fn _add_progress_callback(callback: Bound<'_, PyAny>) -> u32 {
    progress::add_callback(callback.unbind())
}

/// Removes a callback of long translations.
#[pyfunction]
fn _remove_progress_callback(number: u32) {
    progress::remove_callback(number);
}

/// Makes the next log message read `SOT_LOG_LEVEL` anew.
#[pyfunction]
fn _ask_log_level_again() {
    log::ask_again();
}

/// Calls `callable(*args)` with the frames of this thread left to CPython.
#[pyfunction]
#[pyo3(signature = (callable, *args, **kwargs))]
fn call_untraced<'py>(
    py: Python<'py>,
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _quiet = cpython::suspend(py);
    callable.call(args, kwargs)
}
