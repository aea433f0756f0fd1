//! `id(x)`: a number that is only compared and used as a key, which is all that can be said of it while tracing.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyInt;
use sot_core::builtin;
use sot_core::codegen::CodeGen;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CompareOp, OpcodeExecutor};
use sot_core::variable::{VarId, Variable};

use crate::iterators::{emit_call, library};

sot_core::variable_kind! { "id" }

builtin! { ID = "id" => |cx, args| {
    let [object] = args.exactly(cx, "id")?;
    cx.see(object)?;
    Ok(cx.produce(Rc::new(IdVariable { object })))
} }

/// The identity of an object.
pub struct IdVariable {
    object: VarId,
}

impl IdVariable {
    /// Whose identity it is.
    pub fn object(&self) -> VarId {
        self.object
    }
}

impl Variable for IdVariable {
    fn kind(&self) -> &'static str {
        "id"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        cx.py.get_type::<PyInt>().into_any()
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        format!("IdVariable({})", cx.text(self.object))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.object]
    }

    fn reconstruct(&self, cg: &mut CodeGen<'_, '_>, _: VarId) -> Flow<()> {
        emit_call(cg, |py| library(py, "builtins", "id"), &[self.object])
    }

    fn truth(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        Ok(true)
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, _: VarId, other: VarId) -> Flow<Option<VarId>> {
        let Some(other) = cx.see_as::<IdVariable>(other)? else {
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, "id() compared with a number"));
        };
        let same = cx.is_same(self.object, other.object)?;
        match op {
            CompareOp::Equal => Ok(Some(cx.boolean(same))),
            CompareOp::NotEqual => Ok(Some(cx.boolean(!same))),
            _ => Err(Unwind::break_graph(ReasonId::UnsupportedOperation, "the order of two id()s")),
        }
    }
}
