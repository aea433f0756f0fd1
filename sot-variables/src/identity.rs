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
    Ok(cx.produce(Rc::new(IdVariable { object, of_thread: false })))
} }

builtin! { GET_IDENT = "_thread:get_ident" => |cx, args| {
    let [] = args.exactly(cx, "get_ident")?;
    // The function stands for the thread: there is one in the trace.
    let function = library(cx.py, "_thread", "get_ident")?.into_bound(cx.py);
    let tracker = cx.constant_tracker(function.clone().unbind());
    let object = cx.wrap(&function, tracker);
    Ok(cx.produce(Rc::new(IdVariable { object, of_thread: true })))
} }

/// The identity of an object, or of the running thread.
pub struct IdVariable {
    object: VarId,
    of_thread: bool,
}

impl IdVariable {
    /// Whose identity it is.
    pub fn object(&self) -> VarId {
        self.object
    }

    /// Whether it is that of an object, and not of the thread.
    pub fn is_of(&self, object: VarId) -> bool {
        self.object == object && !self.of_thread
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
        if self.of_thread {
            return emit_call(cg, |py| library(py, "_thread", "get_ident"), &[]);
        }
        emit_call(cg, |py| library(py, "builtins", "id"), &[self.object])
    }

    fn truth(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        Ok(true)
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, _: VarId, other: VarId) -> Flow<Option<VarId>> {
        let Some(other) = cx.see_as::<IdVariable>(other)? else {
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, "id() compared with a number"));
        };
        let same = self.of_thread == other.of_thread && cx.is_same(self.object, other.object)?;
        match op {
            CompareOp::Equal => Ok(Some(cx.boolean(same))),
            CompareOp::NotEqual => Ok(Some(cx.boolean(!same))),
            _ => Err(Unwind::break_graph(ReasonId::UnsupportedOperation, "the order of two id()s")),
        }
    }
}
