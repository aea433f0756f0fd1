//! The second run: after an exception of the graph, the frame runs again in CPython.

use std::sync::{Arc, OnceLock};

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyFunction};

use super::driving::Driving;
use super::ResumeSource;
use crate::cache;
use crate::cpython::{self, WeakRef};
use crate::log;
use crate::resume_point::{raised, Entry, ResumeKey};
use crate::stats;

/// The code that runs again. It is held weakly, because its own new code refers to this.
pub struct SecondRun {
    code: OnceLock<WeakRef>,
    cells: usize,
}

impl SecondRun {
    /// For the code of a function with this many free variables.
    pub fn new(code: &Bound<'_, PyCode>, cells: usize) -> PyResult<Arc<SecondRun>> {
        let run = SecondRun::of_code_to_be(cells);
        run.is_of(code)?;
        Ok(run)
    }

    /// For code that is still being written.
    pub(super) fn of_code_to_be(cells: usize) -> Arc<SecondRun> {
        Arc::new(SecondRun { code: OnceLock::new(), cells })
    }

    /// Sets the code.
    pub(super) fn is_of(&self, code: &Bound<'_, PyCode>) -> PyResult<()> {
        let _ = self.code.set(WeakRef::new(code.as_any(), None)?);
        Ok(())
    }

    /// Returns a callable that takes the exception of the graph, the function's free cells, and its arguments by
    /// slots.
    pub fn callable(self: Arc<Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let callable = cpython::fastcall_taking(py, "__again__", "Runs a frame in CPython.", move |py, mut values| {
            let error = PyErr::from_value(values.remove(0));
            let lost = || PyRuntimeError::new_err("a function was collected while it ran");
            let code = self.code.get().and_then(|code| code.get(py)).ok_or_else(lost)?.cast_into::<PyCode>()?;
            // An exception of a signal handler, or one that another thread raises here, is not the graph's: it is
            // raised in the program, into the handlers that are active.
            if !cpython::take_graph_error(&error, py) || !error.is_instance_of::<PyException>(py) {
                return raise_in(py, &code, values, self.cells, error);
            }
            stats::update(|stats| stats.graph_errors += 1);
            if log::enabled(log::BREAKS) {
                log::write(log::BREAKS, &format!("[SecondRun]: {code}: the graph raised {error}"));
            }
            drop(error);
            cpython::forget_overflow(py);
            let result = run(py, &code, values, self.cells)?;
            if let Some(cache) = cache::cache_of(&code) {
                cache.note_graph_error(py);
            }
            Ok(result)
        })?;
        Ok(callable.unbind())
    }
}

/// Calls a function of this code in CPython. `values` are its cells, as many as `cells` says, and its arguments.
fn run(
    py: Python<'_>,
    code: &Bound<'_, PyCode>,
    mut values: Vec<Bound<'_, PyAny>>,
    cells: usize,
) -> PyResult<Py<PyAny>> {
    let lost = || PyRuntimeError::new_err("new code runs without globals");
    let arguments = values.split_off(cells);
    let globals: Bound<'_, PyDict> = cpython::current_globals(py).ok_or_else(lost)?;
    let function = cpython::new_function(&cache::untranslated(code)?, &globals, &values)?;
    drop(values);
    let _driving = Driving::begin(py);
    Ok(cpython::call_giving(&function, arguments)?.unbind())
}

/// Continues a frame by raising an exception where it is. `values` are the cells of its code, as many as `cells`
/// says, and its arguments.
pub(super) fn raise_in<'py>(
    py: Python<'py>,
    code: &Bound<'py, PyCode>,
    mut values: Vec<Bound<'py, PyAny>>,
    cells: usize,
    error: PyErr,
) -> PyResult<Py<PyAny>> {
    let arguments = values.split_off(cells);
    let Some((code, arguments)) = raising(code, arguments, &error)? else { return Err(error) };
    drop(error);
    values.extend(arguments);
    run(py, &code, values, cells)
}

/// Returns the code of a resume function that continues by raising an exception, and its arguments. If the frame was
/// in a call, the exception is raised in the called function. `None` for code that is no resume function: its first
/// instruction is in no handler.
fn raising<'py>(
    code: &Bound<'py, PyCode>,
    mut arguments: Vec<Bound<'py, PyAny>>,
    error: &PyErr,
) -> PyResult<Option<(Bound<'py, PyCode>, Vec<Bound<'py, PyAny>>)>> {
    let py = code.py();
    let Ok(unit) = cache::unit_of(code.as_any()) else { return Ok(None) };
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
            arguments.push(cpython::new_function(&cache::untranslated(&inner)?, &globals, &cells)?);
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
