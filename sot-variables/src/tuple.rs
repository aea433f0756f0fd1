//! `tuple`: an immutable sequence of variables.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use sot_core::codegen::CodeGen;
use sot_core::error::Flow;
use sot_core::executor::{object_model, BinaryOp, CompareOp, OpcodeExecutor};
use sot_core::guard::{Identity, Test};
use sot_core::tracker::TrackerId;
use sot_core::variable::{GraphArgument, VarId, Variable};

use crate::iterators::sequence::SequenceIterator;
use crate::sequence::{self, Selection, Sequence};

sot_core::variable_kind! { "tuple", types: |py| Ok(vec![py.get_type::<PyTuple>().into_any().unbind()]), wrap: TupleVariable::wrap }

/// A tuple.
pub struct TupleVariable {
    /// The items.
    pub items: Vec<VarId>,
    object: Option<Py<PyAny>>,
}

impl TupleVariable {
    /// A tuple made in the trace.
    pub fn new(items: Vec<VarId>) -> Self {
        TupleVariable { items, object: None }
    }

    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, tracker: TrackerId) -> Flow<Rc<dyn Variable>> {
        let object = object.clone().unbind();
        let tuple = object.bind(cx.py).cast::<PyTuple>().map_err(PyErr::from)?.clone();
        let items = sequence::wrap_items(cx, tuple.iter(), tracker);
        Ok(Rc::new(TupleVariable { items, object: Some(object) }))
    }
}

impl Variable for TupleVariable {
    fn kind(&self) -> &'static str {
        "tuple"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        cx.py.get_type::<PyTuple>().into_any()
    }

    fn text(&self, _: &OpcodeExecutor<'_>) -> String {
        format!("TupleVariable(len: {})", self.items.len())
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.object.as_ref()
    }

    fn materialize(&self, cx: &OpcodeExecutor<'_>) -> Option<Py<PyAny>> {
        let items = sequence::materialize(cx, &self.items)?;
        PyTuple::new(cx.py, items).ok().map(|tuple| tuple.into_any().unbind())
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let (ty, tracker) = (self.python_type(cx), cx.vars.tracker(this));
        cx.guards.add(tracker, Test::TypeIs(Identity::of(&ty)));
        cx.guards.add(tracker, Test::Length(self.items.len()));
        Ok(())
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<GraphArgument> {
        let items = sequence::graph_items(cx, this, &self.items)?;
        let value = PyTuple::new(cx.py, items.values)?.into_any().unbind();
        let comma = if self.items.len() == 1 { "," } else { "" };
        let text = format!("({}{comma})", items.text);
        Ok(GraphArgument { value, text, holds_tensor: items.holds_tensor })
    }

    fn reconstruct(&self, cg: &mut CodeGen<'_, '_>, _: VarId) -> Flow<()> {
        for &item in &self.items {
            cg.load(item)?;
        }
        cg.op("BUILD_TUPLE", self.items.len() as u32)
    }

    fn children(&self) -> Vec<VarId> {
        self.items.clone()
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<VarId> {
        match Sequence::Tuple.select(cx, key, self.items.len())? {
            Selection::One(index) => Ok(self.items[index]),
            // CPython gives the tuple itself for a full slice.
            Selection::Many(selected) if selected.iter().copied().eq(0..self.items.len()) => Ok(this),
            Selection::Many(selected) => Ok(cx.tuple(selected.into_iter().map(|index| self.items[index]).collect())),
        }
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        Ok(SequenceIterator::over(cx, this))
    }

    fn items(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<Option<Vec<VarId>>> {
        Ok(Some(self.items.clone()))
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        cx.integer(self.items.len() as i64)
    }

    fn truth(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        Ok(!self.items.is_empty())
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, item: VarId) -> Flow<VarId> {
        object_model::contains_among(cx, &self.items, item)
    }

    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        this: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        match op {
            BinaryOp::Add if !reflected => {
                let Some(right) = cx.see_as::<TupleVariable>(other)? else {
                    return sequence::misfit(cx, other, |other| PyTuple::empty(other.py()).add(other));
                };
                let items = self.items.iter().chain(&right.items).copied().collect();
                Ok(Some(cx.tuple(items)))
            }
            BinaryOp::Multiply => match cx.known_int(other)? {
                Some(1) => Ok(Some(this)),
                Some(count) => {
                    let items = sequence::repeat(&self.items, count)?;
                    Ok(Some(cx.tuple(items)))
                }
                None => sequence::misfit(cx, other, |other| PyTuple::empty(other.py()).mul(other)),
            },
            _ => Ok(None),
        }
    }

    fn inplace(&self, _: &mut OpcodeExecutor<'_>, _: BinaryOp, _: VarId, _: VarId) -> Flow<Option<VarId>> {
        Ok(None)
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, _: VarId, other: VarId) -> Flow<Option<VarId>> {
        let Some(right) = cx.see_as::<TupleVariable>(other)? else { return Ok(None) };
        sequence::compare(cx, op, &self.items, &right.items).map(Some)
    }
}
