//! Iterators over lists (which see later writes), tuples, ranges, sets, deques, constant strings and the rows of
//! tensors, forwards and backwards.

use std::rc::Rc;

use pyo3::prelude::*;

use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::variable::VarId;
use sot_core::variable::{Argument, Rebuild};

use super::sequence_kind::SequenceKind;
use super::{emit_call, produce, rebuild, IteratorState, IteratorVariable};
use crate::classes::subclass;
use crate::containers::deque::DequeVariable;
use crate::containers::list::ListVariable;
use crate::containers::range::RangeVariable;
use crate::containers::set::SetVariable;
use crate::containers::tuple::TupleVariable;
use crate::tensor::shape::ShapeVariable;
use crate::tensor::TensorVariable;

sot_core::variable_kind! { "sequence_iterator" }

/// State of an iterator over a sequence.
#[derive(Clone)]
pub struct SequenceIterator {
    sequence: VarId,
    /// The next position, which is counted down if `backwards`.
    position: i64,
    backwards: bool,
    exhausted: bool,
    over: SequenceKind,
    /// For a set: the set, and its number of elements at the start. For a deque: the deque, and its number of
    /// changes.
    set: Option<(VarId, usize)>,
    /// The payload of the set at the start.
    begun: Option<Rc<SetVariable>>,
}

impl SequenceIterator {
    /// Makes `iter(sequence)`.
    pub fn over(cx: &mut OpcodeExecutor<'_>, sequence: VarId) -> VarId {
        let over = SequenceKind::of(&cx.trace, sequence);
        produce(
            cx,
            SequenceIterator {
                sequence,
                position: 0,
                backwards: false,
                exhausted: false,
                over,
                set: None,
                begun: None,
            },
        )
    }

    /// Makes `iter(tensor)`, whose length is known. Each step reads a row, with the gradient mode and the memory of
    /// that moment.
    pub fn over_rows(cx: &mut OpcodeExecutor<'_>, tensor: VarId) -> VarId {
        let over = SequenceKind::ByPosition;
        let (position, backwards, exhausted) = (0, false, false);
        let state = SequenceIterator { sequence: tensor, position, backwards, exhausted, over, set: None, begun: None };
        produce(cx, state)
    }

    /// Makes `reversed(sequence)`, for a sequence of `len` items.
    pub fn reversed(cx: &mut OpcodeExecutor<'_>, sequence: VarId, len: usize) -> VarId {
        let over = SequenceKind::of(&cx.trace, sequence);
        produce(
            cx,
            SequenceIterator {
                sequence,
                position: len as i64 - 1,
                backwards: true,
                exhausted: false,
                over,
                set: None,
                begun: None,
            },
        )
    }

    /// Makes `iter(set)`, over these elements.
    pub fn over_set(cx: &mut OpcodeExecutor<'_>, set: VarId, elements: Vec<VarId>) -> VarId {
        let begun = cx.trace.vars.as_kind::<SetVariable>(set);
        let set = Some((set, elements.len()));
        let sequence = cx.trace.tuple(elements);
        let over = SequenceKind::Set;
        produce(cx, SequenceIterator { sequence, position: 0, backwards: false, exhausted: false, over, set, begun })
    }
}

impl SequenceIterator {
    /// Makes `iter(deque)`, or `reversed(deque)`.
    pub fn over_deque(cx: &mut OpcodeExecutor<'_>, deque: VarId, payload: &DequeVariable, backwards: bool) -> VarId {
        let position = if backwards { payload.items.len() as i64 - 1 } else { 0 };
        let (over, set) = (SequenceKind::Deque, Some((deque, payload.changes)));
        produce(cx, SequenceIterator { sequence: deque, position, backwards, exhausted: false, over, set, begun: None })
    }

    /// True if the set or deque has changed since the start of the iteration.
    fn is_stale(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<bool> {
        let Some((of, state)) = self.set else { return Ok(false) };
        if let Some(deque) = cx.see_as::<DequeVariable>(of)? {
            return Ok(deque.changes != state);
        }
        let Some(now) = cx.see_as::<SetVariable>(of)? else { return Ok(false) };
        if now.keys.len() == state && !self.begun.as_ref().is_some_and(|begun| Rc::ptr_eq(begun, &now)) {
            let text = "iteration over a set whose elements were replaced meanwhile";
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
        }
        Ok(now.keys.len() != state)
    }
}

impl SequenceIterator {
    /// Fails if the set has changed: new code makes the iterator before it replays the writes.
    fn refuse_changed_set(&self, cx: &mut OpcodeExecutor<'_>, set: VarId) -> Flow<()> {
        let written = cx.trace.effects.written().any(|written| written == set);
        let outside = cx.trace.vars.get(set).object().is_some();
        let items = cx.see(set)?.items(cx, set)?;
        let given = cx.see_as::<TupleVariable>(self.sequence)?;
        let same = items.is_some_and(|items| given.is_some_and(|given| given.items == items));
        if !same || written && outside {
            return Err(Unwind::fallback(ReasonId::CannotRestore, "an iterator over a set that changed"));
        }
        Ok(())
    }

    fn reconstruct_over_set(&self, cg: &mut dyn Rebuild<'_>, set: VarId) -> Flow<()> {
        let set = subclass::owner_of(cg.trace(), set);
        let position = Argument::int(cg.py(), self.position)?;
        emit_call(cg, rebuild::skipping, [set.into(), position])
    }
}

impl SequenceIterator {
    /// Returns the length hint of an iterator over a list, tuple, range or constant string; `None` for other
    /// iterators.
    pub fn items_left(cx: &mut OpcodeExecutor<'_>, iterator: VarId) -> Flow<Option<i64>> {
        let Some(made) = cx.see_as::<IteratorVariable<Self>>(iterator)? else { return Ok(None) };
        let (sequence, state) = (made.0.sequence, &made.0);
        if matches!(state.over, SequenceKind::Set | SequenceKind::Deque) {
            return Ok(None);
        }
        if state.exhausted {
            return Ok(Some(0));
        }
        let len = cx.len(sequence)?;
        let Some(len) = cx.known_int(len)? else { return Ok(None) };
        Ok(Some(match state.backwards {
            // The list has become shorter than the position.
            true if state.position >= len => 0,
            true => state.position + 1,
            false => (len - state.position).max(0),
        }))
    }
}

/// Number of rows of a tensor over which an iterator was made.
fn rows_of(tensor: &TensorVariable) -> i64 {
    tensor.meta().shape.first().copied().flatten().unwrap_or(0)
}

/// Returns the item at a position of a list, deque, tuple, range, constant string or tensor; `None` past the end.
fn item_at(cx: &mut OpcodeExecutor<'_>, sequence: VarId, position: usize) -> Flow<Option<VarId>> {
    if let Some(list) = cx.see_as::<ListVariable>(sequence)? {
        return Ok(list.items.get(position).copied());
    }
    if let Some(deque) = cx.see_as::<DequeVariable>(sequence)? {
        return Ok(deque.items.get(position).copied());
    }
    if let Some(tuple) = cx.see_as::<TupleVariable>(sequence)? {
        return Ok(tuple.items.get(position).copied());
    }
    if let Some(shape) = cx.see_as::<ShapeVariable>(sequence)? {
        return Ok(shape.items.get(position).copied());
    }
    if let Some(tensor) = cx.see_as::<TensorVariable>(sequence)? {
        if position as i64 >= rows_of(&tensor) {
            return Ok(None);
        }
        let position = cx.trace.integer(position as i64)?;
        return cx.get_item(sequence, position).map(Some);
    }
    let value = match cx.see_as::<RangeVariable>(sequence)? {
        Some(range) => Some(range.bind(cx.py)),
        None => cx.known(sequence)?,
    };
    let Some(value) = value else {
        let text = format!("iteration over {}", cx.trace.text(sequence));
        return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
    };
    match value.get_item(position) {
        Ok(item) => cx.wrap_fresh(&item).map(Some),
        Err(_) => Ok(None),
    }
}

impl IteratorState for SequenceIterator {
    const KIND: &'static str = "sequence_iterator";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.over.iterator_type(py, self.backwards)
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        // An exhausted iterator over a deque still checks for changes.
        let looks = !self.exhausted || matches!(self.over, SequenceKind::Deque);
        if looks && self.is_stale(cx)? {
            let deque = matches!(self.over, SequenceKind::Deque);
            let text = if deque { "deque mutated during iteration" } else { "Set changed size during iteration" };
            return Err(cx.raise(pyo3::exceptions::PyRuntimeError::new_err(text)));
        }
        if self.exhausted {
            return Ok(None);
        }
        let item = match usize::try_from(self.position) {
            Ok(position) => item_at(cx, self.sequence, position)?,
            Err(_) => None,
        };
        self.position += if self.backwards { -1 } else { 1 };
        self.exhausted = item.is_none();
        Ok(item)
    }

    fn children(&self) -> Vec<VarId> {
        if self.exhausted {
            Vec::new()
        } else {
            vec![self.sequence]
        }
    }

    /// New code makes the iterator before it replays the writes.
    fn prepare(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
        if self.exhausted || self.position < 0 {
            return Ok(());
        }
        if let (SequenceKind::Set, Some((set, _))) = (self.over, self.set) {
            return self.refuse_changed_set(cx, set);
        }
        let will_be_stale = cx.trace.effects.written().any(|written| written == self.sequence)
            && cx.trace.vars.get(self.sequence).object().is_some();
        if matches!(self.over, SequenceKind::Deque) && (will_be_stale || self.is_stale(cx)?) {
            return Err(Unwind::fallback(ReasonId::CannotRestore, "an iterator over a deque that changed"));
        }
        Ok(())
    }

    /// The rows of a tensor that are left are read at the break, so that the loop behind it is one over a tuple. If
    /// that is impossible, as after a change of the tensor's gradient flag, the loop goes on over the tensor.
    fn live_on(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<Self>> {
        let Some(tensor) = cx.trace.vars.as_kind::<TensorVariable>(self.sequence) else { return Ok(None) };
        if self.exhausted {
            return Ok(None);
        }
        let mut rows = Vec::new();
        for position in self.position..rows_of(&tensor) {
            let position = cx.trace.integer(position)?;
            match cx.get_item(self.sequence, position) {
                Err(Unwind::BreakGraph(_)) => return Ok(None),
                row => rows.push(row?),
            }
        }
        let sequence = cx.trace.tuple(rows);
        Ok(Some(SequenceIterator { sequence, position: 0, over: SequenceKind::Tuple, ..self.clone() }))
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        if self.exhausted || self.position < 0 {
            let empty = self.over.empty(cg.py())?;
            return rebuild::emit_exhausted(cg, empty, self.backwards);
        }
        if let (SequenceKind::Set, Some((set, _))) = (self.over, self.set) {
            return self.reconstruct_over_set(cg, set);
        }
        let sequence = subclass::owner_of(cg.trace(), self.sequence);
        let deque = cg.trace().vars.as_kind::<DequeVariable>(self.sequence);
        let from_the_end = deque.filter(|_| self.backwards).map(|deque| deque.items.len() as i64 - 1 - self.position);
        let position = Argument::int(cg.py(), from_the_end.unwrap_or(self.position))?;
        let make = match self.over {
            SequenceKind::Deque if self.backwards => rebuild::reversed_skipping,
            SequenceKind::Deque => rebuild::skipping,
            _ if self.backwards => rebuild::reversed_at,
            _ => rebuild::sequence_at,
        };
        emit_call(cg, make, [sequence.into(), position])
    }
}
