//! Constant folding: CPython executes a pure operation on known values while tracing; its errors are the program's.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustc_hash::FxHashSet;

use super::{warnings, OpcodeExecutor};
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::variable::{Form, VarId};

impl<'py> OpcodeExecutor<'py> {
    /// The value, if it is a known constant.
    pub fn known(&mut self, id: VarId) -> Flow<Option<Bound<'py, PyAny>>> {
        let py = self.py;
        Ok(self.see(id)?.constant().map(|value| value.bind(py).clone()))
    }

    /// The value, if it is a known `int` (or `bool`) of 64 bits.
    pub fn known_int(&mut self, id: VarId) -> Flow<Option<i64>> {
        Ok(self.known(id)?.and_then(|value| {
            value.is_instance_of::<pyo3::types::PyInt>().then(|| value.extract::<i64>().ok()).flatten()
        }))
    }

    /// The value, if it is a known `str`.
    pub fn known_str(&mut self, id: VarId) -> Flow<Option<String>> {
        Ok(self.known(id)?.and_then(|value| value.extract::<String>().ok()))
    }

    /// A Python object equal to the value, if everything in it is known; it may be a copy.
    pub fn materialize(&mut self, id: VarId) -> Flow<Option<Bound<'py, PyAny>>> {
        see_deeply(self, id, 0, &mut FxHashSet::default())?;
        let payload = self.trace.vars.get(id);
        Ok(payload.materialize(&self.trace).map(|value| value.into_bound(self.py)))
    }

    /// Runs a pure operation. An error that it raises is the program's; an operation that warns is left to CPython.
    pub fn fold(&mut self, operation: impl FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>>) -> Flow<VarId> {
        let result = warnings::unless_it_warns(self.py, || operation(self.py))?;
        outcome(self, result)
    }

    /// Raises `error` in the program.
    pub fn raise(&mut self, error: PyErr) -> Unwind {
        let has_traceback = error.traceback(self.py).is_some();
        let exception = error.into_value(self.py).into_bound(self.py).into_any();
        match (self.runtime.factories.exception)(self, &exception) {
            Ok(exception) => {
                if has_traceback {
                    self.trace.raised.lose_traceback(exception);
                }
                Unwind::Raise(exception)
            }
            Err(unwind) => unwind,
        }
    }
}

fn see_deeply(cx: &mut OpcodeExecutor<'_>, id: VarId, depth: usize, seen: &mut FxHashSet<VarId>) -> Flow<()> {
    if depth > 50 || !seen.insert(id) {
        return Ok(());
    }
    let payload = cx.see(id)?;
    if payload.form() == Form::Exception {
        // An exception of the trace has no real object before new code makes it, so its arguments need not be known.
        return Ok(());
    }
    payload.open(cx, id)?;
    for child in cx.trace.vars.get(id).children() {
        see_deeply(cx, child, depth + 1, seen)?;
    }
    Ok(())
}

/// Turns the result of an operation into a value, or an exception raised in the program.
pub(super) fn outcome<'py>(cx: &mut OpcodeExecutor<'py>, result: PyResult<Bound<'py, PyAny>>) -> Flow<VarId> {
    match result {
        Ok(value) => cx.wrap_fresh(&value),
        Err(error) if is_of_digits_limit(cx.py, &error) => Err(Unwind::break_graph(
            ReasonId::UnsupportedCall,
            "a number of more digits than sys.set_int_max_str_digits allows",
        )),
        Err(error) => Err(cx.raise(error)),
    }
}

/// True if an error says that a number has too many digits. The limit may change between the calls.
fn is_of_digits_limit(py: Python<'_>, error: &PyErr) -> bool {
    let text = || error.value(py).str().is_ok_and(|text| text.to_string_lossy().starts_with("Exceeds the limit ("));
    error.get_type(py).is(py.get_type::<PyValueError>()) && text()
}
