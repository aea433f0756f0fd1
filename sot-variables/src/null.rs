//! The NULL that a call has on the stack in place of a receiver (3.11+). The executor has a single variable of this
//! kind.

use pyo3::prelude::*;
use sot_core::executor::OpcodeExecutor;
use sot_core::variable::Variable;

sot_core::variable_kind! { "null" }

/// NULL: no Python object.
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
