//! The second run of a frame whose graph raised, in CPython.

use std::sync::Arc;

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyFunction};

use super::driving::Driving;
use super::key::{raised, Entry, ResumeKey};
use crate::cpython::{self, WeakRef};
use crate::executor::CodeUnit;
use crate::log;
use crate::stats;
use crate::translate::{self, ResumeSource};

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
            let lost = || PyRuntimeError::new_err("a function was collected while it ran");
            let code = self.code.get(py).ok_or_else(lost)?.cast_into::<PyCode>()?;
            // Whoever interrupts the program does not mean the graph: what goes on is the program, in the handlers that are active.
            if !error.is_instance_of::<PyException>(py) {
                let arguments = values.split_off(self.cells);
                let Some((code, arguments)) = raising(&code, arguments, &error)? else { return Err(error) };
                drop(error);
                values.extend(arguments);
                return self.run(py, &code, values);
            }
            stats::update(|stats| stats.graph_errors += 1);
            if log::enabled(log::BREAKS) {
                log::write(log::BREAKS, &format!("[SecondRun]: {code}: the graph raised {error}"));
            }
            drop(error);
            self.run(py, &code, values)
        })?;
        Ok(callable.unbind())
    }

    /// Calls a function of this code in CPython, with its cells and arguments.
    fn run(&self, py: Python<'_>, code: &Bound<'_, PyCode>, mut values: Vec<Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let lost = || PyRuntimeError::new_err("new code runs without globals");
        let arguments = values.split_off(self.cells);
        let globals: Bound<'_, PyDict> = cpython::current_globals(py).ok_or_else(lost)?;
        let function = cpython::new_function(&translate::untranslated(code)?, &globals, &values)?;
        drop(values);
        let _driving = Driving::begin(py);
        Ok(cpython::call_giving(&function, arguments)?.unbind())
    }
}

/// The code of a resume function that goes on by raising an exception, and its arguments; in the function that its frame had
/// called, if it was in one. Nothing where a frame begins: its first instruction is in no handler.
fn raising<'py>(
    code: &Bound<'py, PyCode>,
    mut arguments: Vec<Bound<'py, PyAny>>,
    error: &PyErr,
) -> PyResult<Option<(Bound<'py, PyCode>, Vec<Bound<'py, PyAny>>)>> {
    let py = code.py();
    let Ok(unit) = CodeUnit::new(code.as_any()) else { return Ok(None) };
    let source = ResumeSource::of(py, &unit)?;
    let Some(key) = source.key(py) else { return Ok(None) };
    let entry = match key.entry {
        Entry::Next | Entry::Finish(_) => {
            arguments.extend(raised(py, error));
            Entry::Raise
        }
        Entry::Return(count, finish) => {
            let given = arguments.split_off(arguments.len() - count);
            let Some(Ok(called)) = arguments.pop().map(Bound::cast_into::<PyFunction>) else { return Ok(None) };
            let Some((inner, given)) = raising(&cpython::function_code(&called), given, error)? else {
                return Ok(None);
            };
            let cells: Vec<_> = cpython::function_closure(&called).iter().flatten().collect();
            let globals = cpython::function_globals(&called);
            arguments.push(cpython::new_function(&translate::untranslated(&inner)?, &globals, &cells)?);
            let count = given.len();
            arguments.extend(given);
            Entry::Return(count, finish)
        }
        Entry::Raise | Entry::Yield => return Ok(None),
    };
    let line = source.unit.code.instructions[key.at.index()].position;
    let Ok(code) = source.resume_code(py, &ResumeKey { entry, ..key }, line) else { return Ok(None) };
    Ok(Some((code.into_bound(py).cast_into()?, arguments)))
}
