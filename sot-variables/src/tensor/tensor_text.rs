//! An attribute of a tensor whose text is known only when the program runs, such as its name. Only its being
//! non-empty is assumed.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyString;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{BinaryOp, CompareOp, Name, OpcodeExecutor, Trace};
use sot_core::side_effects::Effect;
use sot_core::variable::Rebuild;
use sot_core::variable::{GraphArgument, VarId, Variable};

use crate::iterators::emit_call;

sot_core::variable_kind! { "tensor_text" }

/// The text of an attribute of a tensor.
pub struct TensorText {
    tensor: VarId,
    name: Name,
    why: String,
    prepare: Py<PyAny>,
}

impl TensorText {
    /// Makes the text `tensor.name`. `why` is the reason for a graph break where the text is needed. New code always
    /// calls `prepare` with the tensor.
    pub fn of(cx: &mut OpcodeExecutor<'_>, tensor: VarId, name: &Name, why: String, prepare: Py<PyAny>) -> Flow<VarId> {
        let callable = cx.wrap_fresh(prepare.bind(cx.py))?;
        cx.trace.effects.record(Effect::Call { callable, args: vec![tensor], keywords: Vec::new() });
        Ok(cx.trace.produce(Rc::new(TensorText { tensor, name: Rc::clone(name), why, prepare })))
    }

    fn needed(&self) -> Unwind {
        Unwind::break_graph(ReasonId::TensorValue, self.why.clone())
    }
}

impl Variable for TensorText {
    fn kind(&self) -> &'static str {
        "tensor_text"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        trace.py.get_type::<PyString>().into_any()
    }

    fn text(&self, _: &Trace<'_>) -> String {
        format!("TensorText({})", self.name)
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.tensor]
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        emit_call(cg, |py| Ok(self.prepare.clone_ref(py)), [self.tensor])?;
        cg.load_attr(&self.name)
    }

    fn truth(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        Ok(true)
    }

    fn graph_argument(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<GraphArgument> {
        Err(self.needed())
    }

    fn get_attr(&self, _: &mut OpcodeExecutor<'_>, _: VarId, _: &Name) -> Flow<Option<VarId>> {
        Err(self.needed())
    }

    fn special(&self, _: &mut OpcodeExecutor<'_>, _: VarId, _: &str) -> Flow<Option<VarId>> {
        Err(self.needed())
    }

    fn binary(&self, _: &mut OpcodeExecutor<'_>, _: BinaryOp, _: VarId, _: VarId, _: bool) -> Flow<Option<VarId>> {
        Err(self.needed())
    }

    fn compare(&self, _: &mut OpcodeExecutor<'_>, _: CompareOp, _: VarId, _: VarId) -> Flow<Option<VarId>> {
        Err(self.needed())
    }
}
