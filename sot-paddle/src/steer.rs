//! What users steer: the break list, what may not become of a function, and calls without the tracer.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyCode, PyDict, PyFunction, PyTuple, PyType};
use sot_core::error::{Forbidden, RecompileError};
use sot_core::stance::Stance;
use sot_core::{break_list, cpython, log, progress, translate};

use crate::backend::PaddleBackend;
use crate::translated::{code_of, Translated};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(break_list_add, module)?)?;
    module.add_function(wrap_pyfunction!(break_list_remove, module)?)?;
    module.add_function(wrap_pyfunction!(listable, module)?)?;
    module.add_function(wrap_pyfunction!(forbid, module)?)?;
    module.add("RecompileError", module.py().get_type::<RecompileError>())?;
    module.add_function(wrap_pyfunction!(_take_stance, module)?)?;
    module.add_function(wrap_pyfunction!(_add_progress_callback, module)?)?;
    module.add_function(wrap_pyfunction!(_remove_progress_callback, module)?)?;
    module.add_function(wrap_pyfunction!(_ask_log_level_again, module)?)?;
    module.add_function(wrap_pyfunction!(call_untraced, module)?)
}

/// The object that goes on the break list for `api`: of a bound method its function, of a translated function the
/// function.
#[pyfunction]
fn listable<'py>(api: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(translated) = api.cast::<Translated>() {
        return listable(&translated.borrow().target(api.py())?);
    }
    if let Some((function, _)) = cpython::bound_method(api) {
        return Ok(function);
    }
    let shown = sot_core::tracker::repr(api.py(), &api.clone().unbind());
    if !api.is_callable() {
        return Err(PyTypeError::new_err(format!("sot.break_on() takes callables; {shown} is not callable")));
    }
    if api.is_instance_of::<PyCFunction>() && !is_lasting(api)? {
        return Err(PyTypeError::new_err(format!(
            "sot.break_on() cannot know {shown} again, as each lookup makes a new one: give the function of its class \
             (list.append, not [].append)"
        )));
    }
    Ok(api.clone())
}

/// Whether a C function is a module's own, and not a method bound when it was looked up.
fn is_lasting(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    match function.getattr_opt("__self__")? {
        Some(receiver) => Ok(receiver.is_none() || receiver.is_instance_of::<PyModule>()),
        None => Ok(true),
    }
}

/// Puts what `listable` gave on the break list.
#[pyfunction]
fn break_list_add(api: &Bound<'_, PyAny>) -> PyResult<()> {
    if break_list::add(api) {
        leave_own_frame(api, true)?;
    }
    Ok(())
}

/// Takes it off again.
#[pyfunction]
fn break_list_remove(api: &Bound<'_, PyAny>) -> PyResult<()> {
    if break_list::remove(api) {
        leave_own_frame(api, false)?;
    }
    Ok(())
}

/// What is listed runs as it is: its own frame is not translated, what it calls is.
fn leave_own_frame(api: &Bound<'_, PyAny>, alone: bool) -> PyResult<()> {
    let py = api.py();
    let own = match api.cast::<PyType>() {
        Ok(class) if class.is_subclass(&PaddleBackend::installed(py)?.layer_type(py))? => {
            class.getattr("__dict__")?.call_method1("get", ("forward",))?
        }
        _ => api.clone(),
    };
    if let Ok(function) = own.cast::<PyFunction>() {
        translate::leave_alone(&cpython::function_code(function), alone);
    }
    Ok(())
}

/// Makes a graph break or a fallback of a function an error.
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
            return Err(PyTypeError::new_err(format!("psdb.{name}() takes a Python function or method, not {shown}")));
        }
    }
    Ok(function.clone())
}

/// Takes the stance of that name; the name of the one before.
#[pyfunction]
fn _take_stance(name: &str) -> PyResult<&'static str> {
    let stance = Stance::named(name).ok_or_else(|| PyValueError::new_err(format!("there is no stance {name:?}")))?;
    Ok(stance.take())
}

/// Has a callable be told of long translations; the number by which it is taken off again.
#[pyfunction]
fn _add_progress_callback(callback: Bound<'_, PyAny>) -> u32 {
    progress::add_callback(callback.unbind())
}

/// It is not told any more.
#[pyfunction]
fn _remove_progress_callback(number: u32) {
    progress::remove_callback(number);
}

/// Has the next message look at `SOT_LOG_LEVEL` anew.
#[pyfunction]
fn _ask_log_level_again() {
    log::ask_again();
}

/// `callable(*args)` with the frames of this thread left to CPython.
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
