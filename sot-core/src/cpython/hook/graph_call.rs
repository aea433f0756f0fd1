//! Graphs as callables. No handler of a signal runs while one runs: what it raises comes from its operations, and is known by that.

use std::cell::Cell;
use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::cpython::hook::signals::defer_signals;
use crate::cpython::objects::callable::{fastcall, is_fastcall};

thread_local! {
    /// The exception that a graph of this thread raised last; compared only.
    static RAISED: Cell<*mut ffi::PyObject> = const { Cell::new(null_mut()) };
}

/// The callable of a graph, which new code calls.
pub fn graph_function<F>(py: Python<'_>, run: F) -> PyResult<Py<PyAny>>
where
    F: for<'b> Fn(Python<'b>, &[Bound<'b, PyAny>]) -> PyResult<Py<PyAny>> + Send + Sync + 'static,
{
    let callable = fastcall(py, "graph", "", move |py, inputs| {
        let _signals = defer_signals(py);
        let result = run(py, inputs);
        if let Err(error) = &result {
            RAISED.set(error.value(py).as_ptr());
        }
        result
    })?;
    Ok(callable.unbind())
}

/// The same of a callable that a backend gives, unless it is one already.
pub(crate) fn as_graph_function(py: Python<'_>, callable: Py<PyAny>) -> PyResult<Py<PyAny>> {
    if is_fastcall(callable.bind(py)) {
        return Ok(callable);
    }
    graph_function(py, move |py, inputs| callable.call1(py, PyTuple::new(py, inputs)?))
}

/// Whether a graph has raised the exception, which new code has caught just now.
pub fn take_graph_error(error: &PyErr, py: Python<'_>) -> bool {
    RAISED.replace(null_mut()) == error.value(py).as_ptr()
}
