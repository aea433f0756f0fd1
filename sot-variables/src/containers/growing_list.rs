//! A list or deque from outside to which the program has only appended. Neither its length nor its items are guarded,
//! so a loop that collects results in it has a single translation, whatever the length. Any other operation opens it:
//! it becomes a `ListVariable` or a `DequeVariable`.

use std::any::TypeId;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyList;

use sot_core::bytecode::Op;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, CompareOp, Name, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::side_effects::Effect;
use sot_core::tracker::{Key, Tracker, TrackerId};
use sot_core::variable::{Argument, Form, Rebuild};
use sot_core::variable::{GraphArgument, VarId, Variable};

use crate::containers::deque::{self, DequeVariable};
use crate::containers::list::{self, ListVariable};
use crate::containers::sequence;
use crate::containers::slice::SliceVariable;
use crate::iterators::library;

sot_core::variable_kind! {
    "list", types: |py| Ok(vec![library(py, "builtins", "list")?]), wrap: GrowingList::wrap
}

/// A list or deque from outside that has not been opened.
pub struct GrowingList {
    object: Py<PyAny>,
    appended: Vec<VarId>,
    deque: Option<Deque>,
}

/// What is known of a deque that has not been opened.
#[derive(Clone, Copy)]
struct Deque {
    maxlen: Option<usize>,
}

/// Makes the variable of a deque.
pub(crate) fn wrap_deque(
    cx: &mut OpcodeExecutor<'_>,
    object: &Bound<'_, PyAny>,
    _: TrackerId,
) -> Flow<Rc<dyn Variable>> {
    let object = object.clone().unbind();
    let maxlen = object.bind(cx.py).getattr("maxlen")?.extract()?;
    Ok(Rc::new(GrowingList { object, appended: Vec::new(), deque: Some(Deque { maxlen }) }))
}

impl GrowingList {
    #[allow(clippy::unnecessary_wraps, reason = "the registry's signature")]
    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        Ok(Rc::new(GrowingList { object: object.clone().unbind(), appended: Vec::new(), deque: None }))
    }

    fn is_plain(&self, trace: &Trace<'_>, tracker: TrackerId) -> bool {
        let is_exact = self.deque.is_some() || self.object.bind(trace.py).is_exact_instance_of::<PyList>();
        is_exact && trace.trackers.is_sourced(tracker)
    }

    fn with(&self, py: Python<'_>, appended: Vec<VarId>) -> Self {
        GrowingList { object: self.object.clone_ref(py), appended, deque: self.deque }
    }

    /// Number of items before the trace.
    fn had(&self, py: Python<'_>) -> PyResult<usize> {
        let object = self.object.bind(py);
        object.cast::<PyList>().map_or_else(|_| object.len(), |list| Ok(list.len()))
    }

    /// Guards `maxlen` of a deque, and returns it.
    fn maxlen(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<usize>> {
        let Some(deque) = self.deque else { return Ok(None) };
        let of = cx.trace.vars.tracker(this);
        if cx.trace.trackers.is_sourced(of) {
            deque::guard_maxlen(cx, of, self.object.bind(cx.py).clone())?;
        }
        Ok(deque.maxlen)
    }

    /// Returns the item at this distance from the end, which does not depend on the length; `None` if there is none.
    fn from_end(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, back: usize) -> Flow<Option<VarId>> {
        if back == 0 || self.maxlen(cx, this)?.is_some_and(|maxlen| back > maxlen) {
            return Ok(None);
        }
        if let Some(at) = self.appended.len().checked_sub(back) {
            return Ok(Some(self.appended[at]));
        }
        let (back, of) = (back - self.appended.len(), cx.trace.vars.tracker(this));
        let at = self.had(cx.py)?.checked_sub(back);
        let Some(at) = at.filter(|_| self.is_plain(&cx.trace, of)) else { return Ok(None) };
        let item = self.object.bind(cx.py).get_item(at)?;
        let tracker = cx.trace.trackers.add(Tracker::Item { of, key: Key::Last(back) });
        cx.trace.guards.require(tracker);
        Ok(Some(cx.trace.wrap(&item, tracker)))
    }

    /// Returns the last items as a list, for a slice such as `[-3:]`; `None` for other keys, and if there are fewer.
    fn last_items(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<Option<VarId>> {
        if self.deque.is_some() || !self.is_plain(&cx.trace, cx.trace.vars.tracker(this)) {
            return Ok(None);
        }
        let Some(slice) = cx.see_as::<SliceVariable>(key)? else { return Ok(None) };
        let [first, others @ ..] = slice.parts;
        for part in others {
            if !cx.known(part)?.is_some_and(|part| part.is_none()) {
                return Ok(None);
            }
        }
        let Some(count) = cx.known_int(first)?.filter(|first| *first < 0) else { return Ok(None) };
        let Ok(count) = usize::try_from(count.unsigned_abs()) else { return Ok(None) };
        if count > self.had(cx.py)? + self.appended.len() {
            return Ok(None);
        }
        let mut items = Vec::with_capacity(count);
        for back in (1..=count).rev() {
            let Some(item) = self.from_end(cx, this, back)? else { return Ok(None) };
            items.push(item);
        }
        Ok(Some(cx.trace.list(items)))
    }

    /// Returns the item at this index from the start, which does not depend on the length; `None` if there is none, or
    /// a deque drops items at its start.
    fn from_start(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, at: usize) -> Flow<Option<VarId>> {
        let of = cx.trace.vars.tracker(this);
        let drops = !self.appended.is_empty() && self.maxlen(cx, this)?.is_some();
        if drops || at >= self.had(cx.py)? || !self.is_plain(&cx.trace, of) {
            return Ok(None);
        }
        let item = self.object.bind(cx.py).get_item(at)?;
        let tracker = cx.trace.trackers.add(Tracker::Item { of, key: Key::Index(at as i64) });
        cx.trace.guards.require(tracker);
        Ok(Some(cx.trace.wrap(&item, tracker)))
    }

    /// Returns the item at an index.
    fn item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<Option<VarId>> {
        let Some(index) = cx.known_int(key)? else { return Ok(None) };
        let Ok(distance) = usize::try_from(index.unsigned_abs()) else { return Ok(None) };
        if index < 0 {
            self.from_end(cx, this, distance)
        } else {
            self.from_start(cx, this, distance)
        }
    }

    /// Opens the container: guards its length and replaces the payload by one with all items.
    fn opened(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Rc<dyn Variable>> {
        let object = self.object.bind(cx.py).clone();
        let tracker = cx.trace.vars.tracker(this);
        let maxlen = self.maxlen(cx, this)?;
        if cx.trace.trackers.is_sourced(tracker) {
            let had = self.had(cx.py)?;
            // A full deque keeps its length.
            if maxlen != Some(had) {
                let what = if self.deque.is_some() { "a deque" } else { "a list" };
                cx.refuse_changing_contents(tracker, what, !self.appended.is_empty())?;
            }
            cx.trace.guards.add(tracker, Test::Length(had));
        }
        let opened: Rc<dyn Variable> = match object.cast::<PyList>() {
            Ok(list) => Rc::new(ListVariable::found(cx, list, tracker, &self.appended)),
            Err(_) => Rc::new(DequeVariable::found(cx, &object, tracker, maxlen, &self.appended)?),
        };
        cx.trace.vars.set(this, Rc::clone(&opened));
        Ok(opened)
    }
}

/// Appends items if the list or deque has not been opened. Returns false otherwise.
pub(crate) fn append(cx: &mut OpcodeExecutor<'_>, list: VarId, items: &[VarId]) -> Flow<bool> {
    cx.see(list)?;
    let Some(growing) = cx.trace.vars.as_kind::<GrowingList>(list) else { return Ok(false) };
    let appended = [&growing.appended, items].concat();
    cx.limits.charge(items.len());
    cx.trace.vars.set(list, Rc::new(growing.with(cx.py, appended)));
    cx.trace.effects.record(Effect::Contents { container: list });
    Ok(true)
}

impl Variable for GrowingList {
    fn kind(&self) -> &'static str {
        if self.deque.is_some() {
            "deque"
        } else {
            "list"
        }
    }

    fn form(&self) -> Form {
        if self.deque.is_some() {
            Form::Deque
        } else {
            Form::List
        }
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        if self.deque.is_some() {
            // Guards compare exact types, so this is the type `deque`.
            return self.object.bind(trace.py).get_type().into_any();
        }
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
        let (list, deque) = (TypeId::of::<ListVariable>(), TypeId::of::<DequeVariable>());
        Some(if self.deque.is_some() { deque } else { list })
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
        let extend = self.python_type(cg.trace()).getattr("extend")?.unbind();
        cg.call(|cg| cg.load_const(extend), [this.into(), Argument::tuple(&self.appended)])?;
        cg.op(Op::POP_TOP, 0)
    }

    fn children(&self) -> Vec<VarId> {
        self.appended.clone()
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        if self.deque.is_none() || &**name != "maxlen" {
            return object_model::get_attr(cx, this, name);
        }
        match self.maxlen(cx, this)? {
            Some(maxlen) => cx.trace.integer(maxlen as i64).map(Some),
            None => Ok(Some(cx.trace.none())),
        }
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<VarId> {
        let found = match self.item(cx, this, key)? {
            None => self.last_items(cx, this, key)?,
            item => item,
        };
        if let Some(found) = found {
            return Ok(found);
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
        if !self.is_plain(&cx.trace, cx.trace.vars.tracker(this)) {
            return self.opened(cx, this)?.len(cx, this);
        }
        let (had, maxlen) = (self.had(cx.py)?, self.maxlen(cx, this)?);
        let length = sequence::length(cx, this, Some(had), had + self.appended.len())?;
        let (Some(maxlen), false) = (maxlen, self.appended.is_empty()) else { return Ok(length) };
        // Where it gets full, the length is not that of the items.
        let maxlen = cx.trace.integer(maxlen as i64)?;
        let fits = cx.compare(CompareOp::LessEqual, length, maxlen)?;
        Ok(if cx.truth(fits)? { length } else { maxlen })
    }

    fn truth(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
        if !self.appended.is_empty() && self.maxlen(cx, this)?.is_none_or(|maxlen| maxlen > 0) {
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
            BinaryOp::Add if self.deque.is_none() => list::add_in_place(cx, this, other),
            BinaryOp::Add => deque::add_in_place(cx, this, other),
            _ => self.opened(cx, this)?.inplace(cx, op, this, other),
        }
    }

    fn concat_in_place(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        if self.deque.is_some() {
            return deque::extend(cx, this, other);
        }
        list::extend(cx, this, other)?;
        Ok(Some(this))
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        self.opened(cx, this)?.compare(cx, op, this, other)
    }
}
