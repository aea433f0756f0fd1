//! The NULL that a call has on the stack in place of a receiver (3.11+). The executor has a single variable of this
//! kind.

use pyo3::prelude::*;
use sot_core::executor::Trace;
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

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        trace.py.None().into_bound(trace.py).get_type().into_any()
    }

    fn text(&self, _: &Trace<'_>) -> String {
        "NullVariable".to_owned()
    }
}
