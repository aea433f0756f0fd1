//! `decimal.Decimal` of C: its operations are made while tracing, under the program's own context of the thread. How
//! that one rounds and what it has been told is assumed to stay. Where an operation tells it something new, the guards
//! contradict each other: such a translation serves no other call, and the next one finds a context that has been told.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use sot_core::backend::ObjectTest;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::guard::Test;
use sot_core::variable::VarId;

use crate::builtins::cannot;
use crate::iterators::library;

/// What is asked of C code: the type of the numbers, that of the contexts, and the function that finds the thread's.
struct Parts {
    number: Py<PyAny>,
    context: Py<PyAny>,
    current: Py<PyAny>,
}

fn parts(py: Python<'_>) -> Option<&'static Parts> {
    static PARTS: PyOnceLock<Option<Parts>> = PyOnceLock::new();
    let find = || -> PyResult<Parts> {
        let part = |name| library(py, "_decimal", name);
        Ok(Parts { number: part("Decimal")?, context: part("Context")?, current: part("getcontext")? })
    };
    PARTS.get_or_init(py, || find().ok()).as_ref()
}

/// Whether the type is that of decimal numbers, made by C code.
pub(crate) fn is_decimal(ty: &Bound<'_, PyAny>) -> bool {
    parts(ty.py()).is_some_and(|parts| parts.number.is(ty))
}

/// All that the thread's context says of itself, which C code alone has written.
fn context_text(current: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let Some(parts) = parts(current.py()) else { return Ok(None) };
    let context = current.call0()?;
    Ok(if context.get_type().is(&parts.context) { Some(context.repr()?.extract()?) } else { None })
}

/// Assumes that the thread's context is what it is now.
pub(crate) fn assume_context(cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
    let Some(parts) = parts(cx.py) else { return Ok(()) };
    let text = context_text(parts.current.bind(cx.py))?;
    let text = text.ok_or_else(|| cannot("decimal numbers under a context of the program's own class"))?;
    let tracker = cx.constant_tracker(parts.current.clone_ref(cx.py));
    cx.guards.add(tracker, Test::Object(Box::new(ContextIs(text))));
    Ok(())
}

/// An operation of a type: where that is the one of decimal numbers, it may tell the context something.
pub(crate) fn of_context<'py>(
    cx: &mut OpcodeExecutor<'py>,
    ty: &Bound<'py, PyAny>,
    operation: impl FnOnce(&mut OpcodeExecutor<'py>) -> Flow<VarId>,
) -> Flow<VarId> {
    if !is_decimal(ty) {
        return operation(cx);
    }
    assume_context(cx)?;
    let result = operation(cx);
    if matches!(result, Ok(_) | Err(Unwind::Raise(_))) {
        assume_context(cx)?;
    }
    result
}

struct ContextIs(String);

impl ObjectTest for ContextIs {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        context_text(object).is_ok_and(|text| text.as_ref() == Some(&self.0))
    }

    fn describe(&self, subject: &str) -> String {
        format!("repr({subject}()) == '{}'", self.0)
    }
}
