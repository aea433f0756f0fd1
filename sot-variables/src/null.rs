//! The NULL that calls leave on the stack where no receiver is (3.11+); the executor has one such variable.

use pyo3::prelude::*;
use sot_core::executor::OpcodeExecutor;
use sot_core::variable::Variable;

sot_core::variable_kind! { "null" }

/// No value.
pub struct NullVariable;

impl Variable for NullVariable {
    fn kind(&self) -> &'static str {
        "null"
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        cx.py.None().into_bound(cx.py).get_type().into_any()
    }

    fn text(&self, _: &OpcodeExecutor<'_>) -> String {
        "NullVariable".to_owned()
    }
}
