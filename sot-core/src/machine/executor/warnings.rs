//! Warnings of operations that are executed while tracing. The program must be warned at its own line in each call,
//! so an operation that warns is left to CPython. A replayed effect warns when it is replayed.

use std::cell::Cell;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple};

use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};

/// Returns the result of an operation, which may be an exception of the program. Breaks the graph if it warns.
pub fn unless_it_warns<T>(py: Python<'_>, operation: impl FnOnce() -> PyResult<T>) -> Flow<PyResult<T>> {
    static RAISES: PyOnceLock<Py<PyTuple>> = PyOnceLock::new();
    let (result, warned) = filtered(py, filter(py, &RAISES, "error")?, operation)?;
    if warned {
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "an operation that emits a warning"));
    }
    Ok(result)
}

/// Returns the result of an operation without its warnings, because new code repeats the operation and warns then.
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

/// Runs an operation under an additional warnings filter. Returns its result and whether it warned; that is true, too,
/// if the program has replaced the list of filters by something else.
fn filtered<T>(
    py: Python<'_>,
    filter: &Bound<'_, PyTuple>,
    operation: impl FnOnce() -> PyResult<T>,
) -> PyResult<(PyResult<T>, bool)> {
    // The list is changed directly, because the functions of `warnings` would make all warnings appear again.
    let filters = cpython::import(py, "warnings")?.getattr("filters")?.cast_into::<PyList>();
    let Ok(filters) = filters else { return Ok((operation(), true)) };
    filters.insert(0, filter)?;
    let before = HERE.replace(Some(false));
    let result = operation();
    let warned = HERE.replace(before) == Some(true);
    let at = filters.iter().position(|other| other.is(filter));
    at.map_or(Ok(()), |at| filters.del_item(at))?;
    Ok((result, warned))
}

thread_local! {
    /// `Some` while this thread runs an operation under a filter; `Some(true)` once the operation has warned.
    static HERE: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Stands in a filter of `warnings` for the classes of warnings in a thread that traces.
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
