//! `slice`: start, stop and step are variables.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PySlice;

use sot_core::bytecode::Op;
use sot_core::error::Flow;
use sot_core::executor::{object_model, CompareOp, OpcodeExecutor, Trace};
use sot_core::tracker::{Tracker, TrackerId};
use sot_core::variable::Rebuild;
use sot_core::variable::{Form, GraphArgument, VarId, Variable};

use crate::containers::sequence;
use crate::iterators::library;

sot_core::variable_kind! { "slice", types: |py| Ok(vec![library(py, "builtins", "slice")?]), wrap: SliceVariable::wrap }

/// Attribute names of a slice's parts, in order.
const PARTS: [&str; 3] = ["start", "stop", "step"];

/// A slice.
pub struct SliceVariable {
    /// `start`, `stop` and `step`.
    pub parts: [VarId; 3],
    object: Option<Py<PyAny>>,
}

impl SliceVariable {
    /// Makes a slice in the trace.
    #[allow(clippy::unnecessary_wraps, reason = "as every display is built")]
    pub fn build(cx: &mut OpcodeExecutor<'_>, lower: VarId, upper: VarId, step: Option<VarId>) -> Flow<VarId> {
        let step = step.unwrap_or_else(|| cx.trace.none());
        Ok(cx.trace.produce(Rc::new(SliceVariable { parts: [lower, upper, step], object: None })))
    }

    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
        let object = object.clone().unbind();
        let constant = matches!(cx.trace.trackers.get(of), Tracker::Constant(_));
        let mut parts = Vec::with_capacity(PARTS.len());
        for name in PARTS {
            let part = object.bind(cx.py).getattr(name)?;
            let tracker = if constant {
                cx.trace.trackers.constant(part.clone().unbind())
            } else {
                cx.trace.trackers.add(Tracker::Getattr { of, name: name.into() })
            };
            parts.push(cx.trace.wrap(&part, tracker));
        }
        Ok(Rc::new(SliceVariable { parts: [parts[0], parts[1], parts[2]], object: Some(object) }))
    }
}

fn real_slice(py: Python<'_>, parts: Vec<Py<PyAny>>) -> PyResult<Py<PyAny>> {
    let parts = pyo3::types::PyTuple::new(py, parts)?;
    Ok(py.get_type::<PySlice>().call1(parts)?.unbind())
}

impl Variable for SliceVariable {
    fn kind(&self) -> &'static str {
        "slice"
    }

    fn form(&self) -> Form {
        Form::Slice
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        trace.py.get_type::<PySlice>().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        let parts: Vec<String> = self.parts.iter().map(|&part| trace.text(part)).collect();
        format!("SliceVariable({})", parts.join(", "))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.object.as_ref()
    }

    fn materialize(&self, trace: &Trace<'_>) -> Option<Py<PyAny>> {
        real_slice(trace.py, sequence::materialize(trace, &self.parts)?).ok()
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<GraphArgument> {
        let parts = sequence::graph_items(cx, &self.parts)?;
        let value = real_slice(cx.py, parts.values)?;
        Ok(GraphArgument { value, text: format!("slice({})", parts.text), holds_tensor: parts.holds_tensor })
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        for part in self.parts {
            cg.load(part)?;
        }
        cg.op(Op::BUILD_SLICE, 3)
    }

    fn children(&self) -> Vec<VarId> {
        self.parts.to_vec()
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Rc<str>) -> Flow<Option<VarId>> {
        match PARTS.iter().position(|part| *part == &**name) {
            Some(part) => Ok(Some(self.parts[part])),
            None => object_model::get_attr(cx, this, name),
        }
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, _: VarId, other: VarId) -> Flow<Option<VarId>> {
        let Some(right) = cx.see_as::<SliceVariable>(other)? else { return Ok(None) };
        sequence::compare(cx, op, &self.parts, &right.parts).map(Some)
    }
}
