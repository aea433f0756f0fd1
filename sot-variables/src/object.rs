//! Objects with no kind of their own: instances of any class, by CPython's object model alone.

use std::rc::Rc;

use pyo3::prelude::*;
use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::tracker::{repr, TrackerId};
use sot_core::variable::Variable;

sot_core::variable_kind! { "object", rank: 0, when: |_| true, wrap: ObjectVariable::wrap }

/// A real object.
pub struct ObjectVariable {
    object: Py<PyAny>,
}

impl ObjectVariable {
    /// The variable of `object`.
    pub fn new(object: Py<PyAny>) -> Self {
        ObjectVariable { object }
    }

    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        Ok(Rc::new(ObjectVariable::new(object.clone().unbind())))
    }
}

impl Variable for ObjectVariable {
    fn kind(&self) -> &'static str {
        "object"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        self.object.bind(cx.py).get_type().into_any()
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        format!("ObjectVariable({})", repr(cx.py, &self.object))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }
}
