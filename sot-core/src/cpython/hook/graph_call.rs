//! Graphs as callables. While a graph runs, no signal handler runs, and no exception is raised that another thread
//! has set. So an exception of a graph comes from its operations, and is recognised by its identity.

use std::cell::Cell;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::hook::signals::defer_signals;
use crate::cpython::hook::thread_exceptions::hold_exceptions;
use crate::cpython::objects::callable::{fastcall, is_fastcall};

thread_local! {
    /// The exception that a graph of this thread raised last; only for comparisons.
    static RAISED: Cell<*mut ffi::PyObject> = const { Cell::new(null_mut()) };
}

/// Why a graph returned no results.
pub(crate) enum GraphFailure {
    /// It raised: the frame runs again in CPython.
    Raised(PyErr),
    /// It raised after effects that cannot be repeated: the program gets this error.
    Final(PyErr),
}

impl From<PyErr> for GraphFailure {
    fn from(error: PyErr) -> Self {
        GraphFailure::Raised(error)
    }
}

/// Creates the callable of a graph, which new code calls.
pub fn graph_function<F>(py: Python<'_>, run: F) -> PyResult<Py<PyAny>>
where
    F: for<'b> Fn(Python<'b>, &[Bound<'b, PyAny>]) -> PyResult<Py<PyAny>> + Send + Sync + 'static,
{
    graph_function_of(py, move |py, inputs| Ok(run(py, inputs)?))
}

/// Like `graph_function`, for graphs whose failures may be final.
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

/// True if the callable was created by these functions.
pub(crate) fn is_graph_function(callable: &Bound<'_, PyAny>) -> bool {
    is_fastcall(callable)
}

/// True if the exception, which new code has just caught, was raised by a graph. Forgets the exception.
pub fn take_graph_error(error: &PyErr, py: Python<'_>) -> bool {
    RAISED.replace(null_mut()) == error.value(py).as_ptr()
}
