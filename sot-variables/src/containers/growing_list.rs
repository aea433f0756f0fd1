//! A list from outside to which the program has only appended. Neither its length nor its items are guarded, so a
//! loop that collects results in a list has a single translation, whatever the length. Any other operation opens the
//! list: it becomes a `ListVariable`.

use std::any::TypeId;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyList;

use sot_core::bytecode::Op;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{BinaryOp, CompareOp, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::side_effects::Effect;
use sot_core::tracker::{Key, Tracker, TrackerId};
use sot_core::variable::{Argument, Form, Rebuild};
use sot_core::variable::{GraphArgument, VarId, Variable};

use crate::containers::list::{self, ListVariable};
use crate::iterators::library;

sot_core::variable_kind! {
    "list", types: |py| Ok(vec![library(py, "builtins", "list")?]), wrap: GrowingList::wrap
}

/// A list from outside that has not been opened.
pub struct GrowingList {
    object: Py<PyAny>,
    appended: Vec<VarId>,
}

impl GrowingList {
    #[allow(clippy::unnecessary_wraps, reason = "the registry's signature")]
    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        Ok(Rc::new(GrowingList { object: object.clone().unbind(), appended: Vec::new() }))
    }

    fn is_plain(&self, trace: &Trace<'_>, tracker: TrackerId) -> bool {
        trace.trackers.is_sourced(tracker) && self.object.bind(trace.py).is_exact_instance_of::<PyList>()
    }

    /// Returns the item at a negative index, which does not depend on the length.
    fn last(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<Option<VarId>> {
        let of = cx.trace.vars.tracker(this);
        let Some(index) = cx.known_int(key)?.filter(|index| *index < 0) else { return Ok(None) };
        let Ok(back) = usize::try_from(index.unsigned_abs()) else { return Ok(None) };
        if let Some(at) = self.appended.len().checked_sub(back) {
            return Ok(Some(self.appended[at]));
        }
        let back = back - self.appended.len();
        let list = self.object.bind(cx.py).cast::<PyList>().map_err(PyErr::from)?.clone();
        let Some(at) = list.len().checked_sub(back).filter(|_| self.is_plain(&cx.trace, of)) else { return Ok(None) };
        let tracker = cx.trace.trackers.add(Tracker::Item { of, key: Key::Last(back) });
        cx.trace.guards.require(tracker);
        Ok(Some(cx.trace.wrap(&list.get_item(at)?, tracker)))
    }

    /// Opens the list: guards its length and replaces the payload by a `ListVariable` with all items.
    fn opened(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Rc<ListVariable>> {
        let object = self.object.bind(cx.py).cast::<PyList>().map_err(PyErr::from)?.clone();
        let tracker = cx.trace.vars.tracker(this);
        if cx.trace.trackers.is_sourced(tracker) {
            cx.refuse_changing_contents(tracker, "a list")?;
            cx.trace.guards.add(tracker, Test::Length(object.len()));
        }
        let list = Rc::new(ListVariable::found(cx, &object, tracker, &self.appended));
        cx.trace.vars.set(this, Rc::clone(&list) as Rc<dyn Variable>);
        Ok(list)
    }
}

/// Appends items if the list has not been opened. Returns false otherwise.
pub(crate) fn append(cx: &mut OpcodeExecutor<'_>, list: VarId, items: &[VarId]) -> Flow<bool> {
    cx.see(list)?;
    let Some(growing) = cx.trace.vars.as_kind::<GrowingList>(list) else { return Ok(false) };
    let appended = [&growing.appended, items].concat();
    cx.trace.vars.set(list, Rc::new(GrowingList { object: growing.object.clone_ref(cx.py), appended }));
    cx.trace.effects.record(Effect::Contents { container: list });
    Ok(true)
}

impl Variable for GrowingList {
    fn kind(&self) -> &'static str {
        "list"
    }

    fn form(&self) -> Form {
        Form::List
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        trace.py.get_type::<PyList>().into_any()
    }

    fn text(&self, _: &Trace<'_>) -> String {
        format!("GrowingList(appended: {})", self.appended.len())
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        // For the storage of an instance of a subclass, this is the type of the instance.
        let ty = self.object.bind(cx.py).get_type();
        cx.trace.guards.add(cx.trace.vars.tracker(this), Test::TypeIs(Identity::of(ty.as_any())));
        Ok(())
    }

    fn opens_to(&self) -> Option<TypeId> {
        Some(TypeId::of::<ListVariable>())
    }

    fn open(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        self.opened(cx, this).map(drop)
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<GraphArgument> {
        self.opened(cx, this)?.graph_argument(cx, this)
    }

    fn prepare(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        self.open(cx, this)
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        Err(Unwind::fallback(ReasonId::CannotRestore, format!("{}, which was not looked into", self.text(cg.trace()))))
    }

    fn restore_contents(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        // The C method: an override of `extend` in a subclass has been inlined by the trace already.
        let extend = cg.py().get_type::<PyList>().getattr("extend")?.unbind();
        cg.call(|cg| cg.load_const(extend), [this.into(), Argument::tuple(&self.appended)])?;
        cg.op(Op::POP_TOP, 0)
    }

    fn children(&self) -> Vec<VarId> {
        self.appended.clone()
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<VarId> {
        if let Some(item) = self.last(cx, this, key)? {
            return Ok(item);
        }
        self.opened(cx, this)?.get_item(cx, this, key)
    }

    fn set_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId, value: VarId) -> Flow<()> {
        self.opened(cx, this)?.set_item(cx, this, key, value)
    }

    fn del_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<()> {
        self.opened(cx, this)?.del_item(cx, this, key)
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        self.opened(cx, this)?.iter(cx, this)
    }

    fn items(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<Vec<VarId>>> {
        self.opened(cx, this)?.items(cx, this)
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        let length = self.object.bind(cx.py).cast::<PyList>().map_err(PyErr::from)?.len();
        let of = cx.trace.vars.tracker(this);
        if !self.is_plain(&cx.trace, of) {
            return self.opened(cx, this)?.len(cx, this);
        }
        let tracker = cx.trace.trackers.add(Tracker::Length { of });
        let length = cx.trace.wrap(&length.into_pyobject(cx.py).map_err(PyErr::from)?.into_any(), tracker);
        let appended = cx.trace.integer(self.appended.len() as i64)?;
        cx.binary(BinaryOp::Add, length, appended)
    }

    fn truth(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
        if !self.appended.is_empty() {
            return Ok(true);
        }
        let length = self.len(cx, this)?;
        cx.truth(length)
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, item: VarId) -> Flow<VarId> {
        self.opened(cx, this)?.contains(cx, this, item)
    }

    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        this: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        self.opened(cx, this)?.binary(cx, op, this, other, reflected)
    }

    fn inplace(&self, cx: &mut OpcodeExecutor<'_>, op: BinaryOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        match op {
            BinaryOp::Add => list::add_in_place(cx, this, other),
            _ => self.opened(cx, this)?.inplace(cx, op, this, other),
        }
    }

    fn concat_in_place(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        list::extend(cx, this, other)?;
        Ok(Some(this))
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        self.opened(cx, this)?.compare(cx, op, this, other)
    }
}
