//! `decimal.Decimal` in C. Operations are folded under the thread's own decimal context, whose text (precision,
//! rounding, flags) is guarded before and after the operation. If an operation sets a flag of the context, the two
//! guards contradict each other: that translation never serves another call, and the next call finds the flag already
//! set.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use sot_core::backend::ObjectTest;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::guard::Test;
use sot_core::variable::VarId;

use crate::builtins::cannot;
use crate::iterators::library;

/// Objects of the C module: the type of decimal numbers, the type of contexts, and `getcontext`.
struct DecimalTypes {
    number: Py<PyAny>,
    context: Py<PyAny>,
    current: Py<PyAny>,
}

fn parts(py: Python<'_>) -> Option<&'static DecimalTypes> {
    static PARTS: PyOnceLock<Option<DecimalTypes>> = PyOnceLock::new();
    let find = || -> PyResult<DecimalTypes> {
        let part = |name| library(py, "_decimal", name);
        Ok(DecimalTypes { number: part("Decimal")?, context: part("Context")?, current: part("getcontext")? })
    };
    PARTS.get_or_init(py, || find().ok()).as_ref()
}

/// True if the type is the C implementation of `Decimal`.
pub(crate) fn is_decimal(ty: &Bound<'_, PyAny>) -> bool {
    parts(ty.py()).is_some_and(|parts| parts.number.is(ty))
}

/// Returns the `repr` of the thread's context; `None` if its class is not the one in C.
fn context_text(current: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let Some(parts) = parts(current.py()) else { return Ok(None) };
    let context = current.call0()?;
    Ok(if context.get_type().is(&parts.context) { Some(context.repr()?.extract()?) } else { None })
}

/// Guards that the thread's context is unchanged.
pub(crate) fn assume_context(cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
    let Some(parts) = parts(cx.py) else { return Ok(()) };
    let text = context_text(parts.current.bind(cx.py))?;
    let text = text.ok_or_else(|| cannot("decimal numbers under a context of the program's own class"))?;
    let tracker = cx.trace.trackers.constant(parts.current.clone_ref(cx.py));
    cx.trace.guards.add(tracker, Test::Object(Box::new(DecimalContextTest(text))));
    Ok(())
}

/// Runs an operation of a type. If the type is `Decimal`, the context is guarded before and after, as the operation
/// may set flags.
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

struct DecimalContextTest(String);

impl ObjectTest for DecimalContextTest {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        context_text(object).is_ok_and(|text| text.as_ref() == Some(&self.0))
    }

    fn describe(&self, subject: &str) -> String {
        format!("repr({subject}()) == '{}'", self.0)
    }
}
