//! `range`: start, stop and step are known, so CPython itself performs all operations.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyRange;

use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CompareOp, OpcodeExecutor, Trace};
use sot_core::guard::Test;
use sot_core::tracker::{repr, TrackerId};
use sot_core::variable::Rebuild;
use sot_core::variable::{Form, GraphArgument, VarId, Variable};

use crate::iterators::library;
use crate::iterators::sequence::SequenceIterator;

sot_core::variable_kind! { "range", types: |py| Ok(vec![library(py, "builtins", "range")?]), wrap: RangeVariable::wrap }

/// Maximum length of a range whose items are listed; longer ranges are only iterated.
const MAX_LISTED: usize = 100_000;

/// A range.
pub struct RangeVariable {
    object: Py<PyAny>,
}

impl RangeVariable {
    /// Returns a range made in the trace, from a real one.
    pub fn new(object: Py<PyAny>) -> Self {
        RangeVariable { object }
    }

    #[allow(clippy::unnecessary_wraps, reason = "the registry's signature")]
    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        Ok(Rc::new(RangeVariable { object: object.clone().unbind() }))
    }

    /// Returns the real range.
    pub fn bind<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.object.bind(py).clone()
    }
}

impl Variable for RangeVariable {
    fn kind(&self) -> &'static str {
        "range"
    }

    fn form(&self) -> Form {
        Form::Range
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        trace.py.get_type::<PyRange>().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("RangeVariable({})", repr(trace.py, &self.object))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn materialize(&self, trace: &Trace<'_>) -> Option<Py<PyAny>> {
        Some(self.object.clone_ref(trace.py))
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        cx.refuse_changing_contents(cx.trace.vars.tracker(this), "a range", false)?;
        cx.trace.guards.add(cx.trace.vars.tracker(this), Test::Equals(self.object.clone_ref(cx.py)));
        Ok(())
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<GraphArgument> {
        let value = self.object.clone_ref(cx.py);
        Ok(GraphArgument { value, text: repr(cx.py, &self.object), holds_tensor: false })
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        let object = self.object.clone_ref(cg.py());
        cg.load_const(object)
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Rc<str>) -> Flow<Option<VarId>> {
        if matches!(&**name, "start" | "stop" | "step") {
            let value = self.bind(cx.py).getattr(&**name)?.unbind();
            return Ok(Some(cx.trace.constant(value)));
        }
        sot_core::executor::object_model::get_attr(cx, this, name)
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, key: VarId) -> Flow<VarId> {
        let Some(key) = cx.materialize(key)? else {
            return Err(Unwind::break_graph(
                ReasonId::UnsupportedOperation,
                "a range index that is not known while tracing",
            ));
        };
        let item = self.bind(cx.py).get_item(key).map_err(|error| cx.raise(error))?;
        if item.is_exact_instance_of::<PyRange>() {
            return Ok(cx.trace.produce(Rc::new(RangeVariable::new(item.unbind()))));
        }
        cx.wrap_fresh(&item)
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        Ok(SequenceIterator::over(cx, this))
    }

    fn items(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<Option<Vec<VarId>>> {
        let range = self.bind(cx.py);
        if range.len().map_or(true, |len| len > MAX_LISTED) {
            return Ok(None);
        }
        let items = range.try_iter()?.map(|item| Ok(cx.trace.constant(item?.unbind())));
        items.collect::<Flow<Vec<_>>>().map(Some)
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        let range = self.bind(cx.py);
        cx.fold(|py| Ok(range.len()?.into_pyobject(py)?.into_any()))
    }

    fn truth(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        Ok(self.bind(cx.py).is_truthy()?)
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, item: VarId) -> Flow<VarId> {
        if let Some(item) = cx.known(item)? {
            let found = self.bind(cx.py).contains(item).map_err(|error| cx.raise(error))?;
            Ok(cx.trace.boolean(found))
        } else {
            let items = cx.unpack_all(this)?;
            sot_core::executor::object_model::contains_among(cx, &items, item)
        }
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, _: VarId, other: VarId) -> Flow<Option<VarId>> {
        let Some(right) = cx.see_as::<RangeVariable>(other)? else { return Ok(None) };
        if !matches!(op, CompareOp::Equal | CompareOp::NotEqual) {
            return Ok(None);
        }
        let (left, right) = (self.bind(cx.py), right.bind(cx.py));
        cx.fold(|_| op.apply(&left, &right)).map(Some)
    }
}
