//! Exceptions made in the trace. An exception is a real object from the start; once it was raised it has a context and a
//! traceback that new code could not give it, so then the instruction that raised it must run natively.

use pyo3::prelude::*;
use sot_core::codegen::CodeGen;
use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::tracker::repr;
use sot_core::variable::{VarId, Variable};

sot_core::variable_kind! { "exception" }

/// An exception made in the trace.
pub struct ExceptionVariable {
    object: Py<PyAny>,
    call: Option<(VarId, CallArgs)>,
}

impl ExceptionVariable {
    /// The variable of `object`, which the class and arguments of `call` make anew.
    pub fn new(object: Py<PyAny>, call: Option<(VarId, CallArgs)>) -> Self {
        ExceptionVariable { object, call }
    }
}

impl Variable for ExceptionVariable {
    fn kind(&self) -> &'static str {
        "exception"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        self.object.bind(cx.py).get_type().into_any()
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        format!("ExceptionVariable({})", repr(cx.py, &self.object))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn reconstruct(&self, cg: &mut CodeGen<'_, '_>, this: VarId) -> Flow<()> {
        match &self.call {
            Some((class, args)) if cg.cx.raised_at(this).is_none() => cg.call_with(*class, args)?,
            _ => return Err(cg.cx.plan_to_raise(this)),
        }
        cg.define(this)?;
        for (name, value) in cg.cx.effects.attributes_of(this) {
            cg.store_attr(this, &name, Some(value))?;
        }
        Ok(())
    }
}
