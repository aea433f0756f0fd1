//! Graphs as callables. No handler of a signal runs while one runs, and nothing is raised that another thread sets:
//! what a graph raises comes from its operations, and is known by that.

use std::cell::Cell;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::hook::signals::defer_signals;
use crate::cpython::hook::thread_exceptions::hold_exceptions;
use crate::cpython::objects::callable::{fastcall, is_fastcall};

thread_local! {
    /// The exception that a graph of this thread raised last; compared only.
    static RAISED: Cell<*mut ffi::PyObject> = const { Cell::new(null_mut()) };
}

/// What became of a graph that gave no results.
pub(crate) enum GraphFailure {
    /// It has raised: the frame runs again in CPython.
    Raised(PyErr),
    /// What it has done cannot be done again: this is an error of the program's.
    Final(PyErr),
}

impl From<PyErr> for GraphFailure {
    fn from(error: PyErr) -> Self {
        GraphFailure::Raised(error)
    }
}

/// The callable of a graph, which new code calls.
pub fn graph_function<F>(py: Python<'_>, run: F) -> PyResult<Py<PyAny>>
where
    F: for<'b> Fn(Python<'b>, &[Bound<'b, PyAny>]) -> PyResult<Py<PyAny>> + Send + Sync + 'static,
{
    graph_function_of(py, move |py, inputs| Ok(run(py, inputs)?))
}

/// The same of what may also fail for good.
pub(crate) fn graph_function_of<F>(py: Python<'_>, run: F) -> PyResult<Py<PyAny>>
where
    F: for<'b> Fn(Python<'b>, &[Bound<'b, PyAny>]) -> Result<Py<PyAny>, GraphFailure> + Send + Sync + 'static,
{
    let callable = fastcall(py, "graph", "", move |py, inputs| {
        let (_signals, _exceptions) = (defer_signals(py), hold_exceptions(py));
        run(py, inputs).map_err(|failure| match failure {
            GraphFailure::Raised(error) => {
                RAISED.set(error.value(py).as_ptr());
                error
            }
            GraphFailure::Final(error) => error,
        })
    })?;
    Ok(callable.unbind())
}

/// Whether a callable is such a one.
pub(crate) fn is_graph_function(callable: &Bound<'_, PyAny>) -> bool {
    is_fastcall(callable)
}

/// Whether a graph has raised the exception, which new code has caught just now.
pub fn take_graph_error(error: &PyErr, py: Python<'_>) -> bool {
    RAISED.replace(null_mut()) == error.value(py).as_ptr()
}
