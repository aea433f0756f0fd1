//! `collections.deque`: items with an optional maximum length. A deque from outside is a
//! [`GrowingList`](super::growing_list::GrowingList) as long as the program only appends to it.

use std::rc::Rc;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use sot_core::bytecode::Op;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, CompareOp, Name, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::side_effects::Effect;
use sot_core::tracker::{Tracker, TrackerId};
use sot_core::variable::{Argument, Form, Rebuild};
use sot_core::variable::{VarId, Variable};

use crate::classes::subclass;
use crate::containers::{growing_list, sequence};
use crate::iterators::sequence::SequenceIterator;
use crate::iterators::{emit_call, library, or_object_type};

sot_core::variable_kind! {
    "deque", types: |py| Ok(vec![library(py, "collections", "deque")?]), wrap: growing_list::wrap_deque
}

/// A deque.
#[derive(Clone)]
pub struct DequeVariable {
    /// The items.
    pub items: Vec<VarId>,
    /// The maximum length.
    pub maxlen: Option<usize>,
    /// Number of insertions and removals; iterators check it.
    pub changes: usize,
    outside: Option<DequeFromOutside>,
}

/// A deque from outside.
#[derive(Clone)]
struct DequeFromOutside {
    object: Rc<Py<PyAny>>,
    /// The appended items, as long as nothing else was done to the deque.
    appended: Option<Vec<VarId>>,
}

/// Guards the `maxlen` of a deque from outside.
pub(super) fn guard_maxlen<'py>(cx: &mut OpcodeExecutor<'py>, of: TrackerId, deque: Bound<'py, PyAny>) -> PyResult<()> {
    let maxlen = cx.trace.trackers.add(Tracker::Getattr { of, name: "maxlen".into() });
    cx.trace.guards.add(maxlen, Test::Equals(deque.getattr("maxlen")?.unbind()));
    Ok(())
}

/// Returns the payload of a variable that must be a deque; looks into it.
pub(crate) fn expect(cx: &mut OpcodeExecutor<'_>, deque: VarId) -> Flow<Rc<DequeVariable>> {
    if let Some(payload) = cx.see_as::<DequeVariable>(deque)? {
        Ok(payload)
    } else {
        let name = cx.type_name(deque)?;
        Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("a deque method of a {name} object")))
    }
}

/// Appends items, without looking into the deque.
pub(crate) fn append(cx: &mut OpcodeExecutor<'_>, this: VarId, items: &[VarId]) -> Flow<VarId> {
    if growing_list::append(cx, this, items)? {
        return Ok(cx.trace.none());
    }
    let mut deque = DequeVariable::clone(&*cx.see_as::<DequeVariable>(this)?.ok_or_else(refuse)?);
    deque.push_back(items.iter().copied());
    deque.store(cx, this);
    Ok(cx.trace.none())
}

/// Simulates `deque += other`, without looking into the deque.
pub(super) fn add_in_place(cx: &mut OpcodeExecutor<'_>, this: VarId, other: VarId) -> Flow<Option<VarId>> {
    // `__radd__` of a number-like right operand, such as an array, takes precedence.
    if cx.known(other)?.is_none() && cx.has_special(other, "__radd__")? {
        return Ok(None);
    }
    extend(cx, this, other)
}

/// Appends the items of an iterable one by one, and returns the deque.
pub(super) fn extend(cx: &mut OpcodeExecutor<'_>, this: VarId, other: VarId) -> Flow<Option<VarId>> {
    cx.each(other, |cx, item| append(cx, this, &[item]).map(drop))?;
    Ok(Some(this))
}

pub(crate) fn refuse() -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, "a deque method with these arguments")
}

/// Breaks the graph if a comparison of items has changed the deque, which CPython reports as an error.
pub(crate) fn refuse_changed(trace: &Trace<'_>, this: VarId, before: &DequeVariable) -> Flow<()> {
    let now = trace.vars.as_kind::<DequeVariable>(this);
    if now.is_some_and(|now| now.items == before.items) {
        return Ok(());
    }
    Err(Unwind::break_graph(ReasonId::UnsupportedMutation, "a deque that a comparison of its items changes"))
}

/// Emits a call of a C method, and drops the result.
fn emit_method<A: Into<Argument>>(cg: &mut dyn Rebuild<'_>, name: &str, args: impl IntoIterator<Item = A>) -> Flow<()> {
    let method = library(cg.py(), "collections", "deque")?.bind(cg.py()).getattr(name)?.unbind();
    cg.call(|cg| cg.load_const(method), args)?;
    cg.op(Op::POP_TOP, 0)
}

impl DequeVariable {
    /// True if the deque existed before the call.
    pub(crate) fn is_from_outside(&self) -> bool {
        self.outside.is_some()
    }

    /// Returns `maxlen` as an argument for new code.
    pub(crate) fn maxlen_argument(&self, py: Python<'_>) -> PyResult<Argument> {
        self.maxlen.map_or_else(|| Ok(Argument::none(py)), |maxlen| Argument::int(py, maxlen))
    }
}

impl DequeVariable {
    pub(crate) fn new(items: Vec<VarId>, maxlen: Option<usize>) -> Self {
        DequeVariable { items, maxlen, changes: 0, outside: None }
    }

    /// Returns the payload of a deque from outside to which items were appended.
    pub(super) fn found(
        cx: &mut OpcodeExecutor<'_>,
        object: &Bound<'_, PyAny>,
        of: TrackerId,
        maxlen: Option<usize>,
        appended: &[VarId],
    ) -> Flow<DequeVariable> {
        let object = object.clone().unbind().into_bound(cx.py);
        let items = object.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        let items = sequence::wrap_items(cx, items.into_iter(), of);
        let outside = Some(DequeFromOutside { object: Rc::new(object.unbind()), appended: Some(Vec::new()) });
        let mut deque = DequeVariable { outside, changes: appended.len(), ..DequeVariable::new(items, maxlen) };
        deque.push_back(appended.iter().copied());
        Ok(deque)
    }

    /// Marks the deque as changed by more than appending.
    pub(crate) fn marked_as_edited(mut self) -> Self {
        if let Some(outside) = &mut self.outside {
            outside.appended = None;
        }
        self
    }

    pub(crate) fn push_back(&mut self, items: impl IntoIterator<Item = VarId>) {
        let items: Vec<VarId> = items.into_iter().collect();
        self.items.extend(&items);
        if let Some(appended) = self.outside.as_mut().and_then(|outside| outside.appended.as_mut()) {
            appended.extend(items);
            // The deque keeps no more of them.
            let surplus = appended.len().saturating_sub(self.maxlen.unwrap_or(usize::MAX));
            appended.drain(..surplus);
        }
        let surplus = self.items.len().saturating_sub(self.maxlen.unwrap_or(usize::MAX));
        self.items.drain(..surplus);
    }

    /// Stores the changed deque, and counts a change of its length.
    pub(crate) fn store(mut self, cx: &mut OpcodeExecutor<'_>, deque: VarId) {
        self.changes += 1;
        self.replace(cx, deque);
    }

    fn replace(self, cx: &mut OpcodeExecutor<'_>, deque: VarId) {
        cx.limits.charge(self.items.len());
        cx.trace.vars.set(deque, Rc::new(self));
        cx.trace.effects.record(Effect::Contents { container: deque });
    }

    pub(crate) fn push_front(&mut self, items: impl IntoIterator<Item = VarId>) {
        for item in items {
            self.items.insert(0, item);
        }
        self.items.truncate(self.maxlen.unwrap_or(usize::MAX));
    }

    /// Returns the position for a known index, or raises CPython's `IndexError`.
    fn position(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<usize> {
        let Some(index) = cx.known_int(key)? else {
            return Err(Unwind::break_graph(
                ReasonId::UnsupportedOperation,
                "a deque item at an index that is not known while tracing",
            ));
        };
        if index < 0 {
            subclass::refuse_overriding(cx, this, &["__len__"], "a negative index of a deque")?;
        }
        let len = self.items.len() as i64;
        let at = if index < 0 { index + len } else { index };
        if (0..len).contains(&at) {
            Ok(at as usize)
        } else {
            Err(cx.raise(PyIndexError::new_err("deque index out of range")))
        }
    }
}

impl Variable for DequeVariable {
    fn kind(&self) -> &'static str {
        "deque"
    }

    fn form(&self) -> Form {
        Form::Deque
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        let ty = library(trace.py, "collections", "deque").map(|ty| ty.into_bound(trace.py));
        or_object_type(trace, ty)
    }

    fn text(&self, _: &Trace<'_>) -> String {
        format!("DequeVariable(len: {})", self.items.len())
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.outside.as_ref().map(|outside| &*outside.object)
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let ty = self.python_type(&cx.trace);
        cx.trace.guards.add(cx.trace.vars.tracker(this), Test::TypeIs(Identity::of(&ty)));
        Ok(())
    }

    fn materialize(&self, trace: &Trace<'_>) -> Option<Py<PyAny>> {
        let items = sequence::materialize(trace, &self.items)?;
        self.python_type(trace).call1((items, self.maxlen)).ok().map(Bound::unbind)
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        let maxlen = self.maxlen_argument(cg.py())?;
        emit_call(cg, |py| library(py, "collections", "deque"), [Argument::list(&self.items), maxlen])
    }

    fn restore_contents(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let Some(outside) = &self.outside else { return Ok(()) };
        if self.changes == 0 {
            // The length is unchanged: only items were replaced.
            for (at, &item) in self.items.iter().enumerate() {
                cg.load(item)?;
                cg.load(this)?;
                cg.load_const((at as i64).into_pyobject(cg.py()).map_err(PyErr::from)?.into_any().unbind())?;
                cg.op(Op::STORE_SUBSCR, 0)?;
            }
            return Ok(());
        }
        if outside.appended.is_none() {
            emit_method(cg, "clear", [this])?;
        }
        let items = Argument::tuple(outside.appended.as_ref().unwrap_or(&self.items));
        emit_method(cg, "extend", [this.into(), items])
    }

    fn children(&self) -> Vec<VarId> {
        self.items.clone()
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        match (&**name, self.maxlen) {
            ("maxlen", Some(maxlen)) => cx.trace.integer(maxlen as i64).map(Some),
            ("maxlen", None) => Ok(Some(cx.trace.none())),
            _ => object_model::get_attr(cx, this, name),
        }
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<VarId> {
        Ok(self.items[self.position(cx, this, key)?])
    }

    fn set_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId, value: VarId) -> Flow<()> {
        let mut deque = self.clone();
        let at = self.position(cx, this, key)?;
        deque.items[at] = value;
        deque.marked_as_edited().replace(cx, this);
        Ok(())
    }

    fn del_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<()> {
        let mut deque = self.clone();
        let at = self.position(cx, this, key)?;
        deque.items.remove(at);
        deque.marked_as_edited().store(cx, this);
        Ok(())
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        Ok(SequenceIterator::over_deque(cx, this, self, false))
    }

    fn items(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<Option<Vec<VarId>>> {
        Ok(Some(self.items.clone()))
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        cx.trace.integer(self.items.len() as i64)
    }

    fn truth(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        Ok(!self.items.is_empty())
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, item: VarId) -> Flow<VarId> {
        let mut found = cx.trace.boolean(false);
        for &candidate in &self.items {
            if object_model::equal(cx, candidate, item)? {
                found = cx.trace.boolean(true);
                break;
            }
        }
        refuse_changed(&cx.trace, this, self)?;
        Ok(found)
    }

    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        _: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        let mut deque = DequeVariable::new(self.items.clone(), self.maxlen);
        match op {
            BinaryOp::Add if !reflected => {
                let Some(right) = cx.see_as::<DequeVariable>(other)? else { return Ok(None) };
                deque.push_back(right.items.iter().copied());
            }
            BinaryOp::Multiply => {
                let Some(count) = sequence::times(cx, other)? else { return Ok(None) };
                let items = sequence::repeat(&self.items, count)?;
                deque.items.clear();
                deque.push_back(items);
            }
            _ => return Ok(None),
        }
        Ok(Some(cx.trace.produce(Rc::new(deque))))
    }

    fn inplace(&self, cx: &mut OpcodeExecutor<'_>, op: BinaryOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        if op == BinaryOp::Multiply {
            let Some(count) = sequence::times(cx, other)? else { return Ok(None) };
            let mut deque = self.clone().marked_as_edited();
            deque.items.clear();
            deque.push_back(sequence::repeat(&self.items, count)?);
            deque.store(cx, this);
            return Ok(Some(this));
        }
        match op {
            BinaryOp::Add => add_in_place(cx, this, other),
            _ => Ok(None),
        }
    }

    fn concat_in_place(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        extend(cx, this, other)
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        let Some(right) = cx.see_as::<DequeVariable>(other)? else { return Ok(None) };
        let answer = sequence::compare_sized(cx, op, &self.items, &right.items)?;
        refuse_changed(&cx.trace, this, self)?;
        refuse_changed(&cx.trace, other, &right)?;
        Ok(Some(answer))
    }
}
