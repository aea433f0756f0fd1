//! The second run of a frame whose graph raised, in CPython.

use std::sync::Arc;

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict};

use crate::cpython::{self, WeakRef};
use crate::log;
use crate::stats;
use crate::translate;

/// The code that runs again, held weakly: its own new code refers to this.
pub struct SecondRun {
    code: WeakRef,
    cells: usize,
}

impl SecondRun {
    /// That of a function with so many free variables.
    pub fn new(code: &Bound<'_, PyCode>, cells: usize) -> PyResult<Arc<SecondRun>> {
        Ok(Arc::new(SecondRun { code: WeakRef::new(code.as_any(), None)?, cells }))
    }

    /// A callable that is given what the graph raised, the function's free cells, and its arguments by their slots.
    pub fn callable(self: Arc<Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let callable = cpython::fastcall_taking(py, "__again__", "Runs a frame in CPython.", move |py, mut values| {
            let error = PyErr::from_value(values.remove(0));
            // Whoever interrupts the program does not mean the graph.
            if !error.is_instance_of::<PyException>(py) {
                return Err(error);
            }
            let lost = || PyRuntimeError::new_err("a function was collected while it ran");
            let code = self.code.get(py).ok_or_else(lost)?.cast_into::<PyCode>()?;
            stats::update(|stats| stats.graph_errors += 1);
            if log::enabled(log::BREAKS) {
                log::write(log::BREAKS, &format!("[SecondRun]: {code}: the graph raised {error}"));
            }
            drop(error);
            let arguments = values.split_off(self.cells);
            let globals: Bound<'_, PyDict> = cpython::current_globals(py).ok_or_else(lost)?;
            let function = cpython::new_function(&translate::untranslated(&code)?, &globals, &values)?;
            drop(values);
            Ok(cpython::call_giving(&function, arguments)?.unbind())
        })?;
        Ok(callable.unbind())
    }
}
