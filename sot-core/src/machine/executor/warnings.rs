//! Warnings of what is done while tracing. The program would be warned at its own line, each time it runs: an operation that warns
//! is left to CPython, and what is replayed warns then.

use std::cell::Cell;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple};

use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};

/// What an operation gives, unless it warns. The exception is the program's.
pub fn unless_it_warns<T>(py: Python<'_>, operation: impl FnOnce() -> PyResult<T>) -> Flow<PyResult<T>> {
    static RAISES: PyOnceLock<Py<PyTuple>> = PyOnceLock::new();
    let (result, warned) = filtered(py, filter(py, &RAISES, "error")?, operation)?;
    if warned {
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "an operation that gives a warning"));
    }
    Ok(result)
}

/// What an operation gives that is done again in the new code, and warns there.
pub(super) fn unwarned<T>(py: Python<'_>, operation: impl FnOnce() -> PyResult<T>) -> PyResult<PyResult<T>> {
    static IGNORES: PyOnceLock<Py<PyTuple>> = PyOnceLock::new();
    Ok(filtered(py, filter(py, &IGNORES, "ignore")?, operation)?.0)
}

fn filter<'py>(
    py: Python<'py>,
    kept: &'static PyOnceLock<Py<PyTuple>>,
    action: &str,
) -> PyResult<&'py Bound<'py, PyTuple>> {
    let make = || Ok::<_, PyErr>((action, py.None(), WarningsHere, py.None(), 0).into_pyobject(py)?.unbind());
    Ok(kept.get_or_try_init(py, make)?.bind(py))
}

/// What an operation gives under a filter of its own, and whether it warned.
fn filtered<T>(
    py: Python<'_>,
    filter: &Bound<'_, PyTuple>,
    operation: impl FnOnce() -> PyResult<T>,
) -> PyResult<(PyResult<T>, bool)> {
    // Past the functions of `warnings`, which would let every warning be given anew.
    let filters = cpython::import(py, "warnings")?.getattr("filters")?.cast_into::<PyList>();
    let Ok(filters) = filters else { return Ok((operation(), false)) };
    filters.insert(0, filter)?;
    let before = HERE.replace(Some(false));
    let result = operation();
    let warned = HERE.replace(before) == Some(true);
    let at = filters.iter().position(|other| other.is(filter));
    at.map_or(Ok(()), |at| filters.del_item(at))?;
    Ok((result, warned))
}

thread_local! {
    /// Whether what this thread does while tracing has warned.
    static HERE: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Stands for the classes of warnings of a thread that traces, in a filter of `warnings`.
#[pyclass(frozen, module = "sot")]
struct WarningsHere;

#[pymethods]
impl WarningsHere {
    fn __subclasscheck__(&self, _category: &Bound<'_, PyAny>) -> bool {
        let here = HERE.get().is_some();
        if here {
            HERE.set(Some(true));
        }
        here
    }
}
