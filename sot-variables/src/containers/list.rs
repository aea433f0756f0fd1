//! `list`: a mutable sequence of variables. A write replaces the payload. A list that outlives the frame gets its
//! final items by one or two slice assignments.

use std::ops::Range;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice};

use sot_core::bytecode::Op;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, CompareOp, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::side_effects::Effect;
use sot_core::tracker::TrackerId;
use sot_core::variable::{Argument, Form, Rebuild};
use sot_core::variable::{GraphArgument, VarId, Variable};

use crate::classes::subclass;
use crate::containers::growing_list;
use crate::containers::sequence::{self, Selection, Sequence};
use crate::containers::slice::SliceVariable;
use crate::iterators::sequence::SequenceIterator;

/// A list.
pub struct ListVariable {
    /// The items.
    pub items: Vec<VarId>,
    object: Option<Py<PyAny>>,
    /// The items of the real list, if it is from outside.
    found: Rc<[VarId]>,
}

/// Maximum number of places that are compared to find the items that a list keeps.
const MAX_PLACES: usize = 16;

/// A slice assignment by which a real list gets new items.
struct Edit {
    /// The beginning and the end of the slice of the real list.
    slice: (isize, Option<isize>),
    /// The positions of the new items that replace it.
    items: Range<usize>,
}

impl Edit {
    fn slice(&self, py: Python<'_>) -> PyResult<Argument> {
        let (begin, end) = self.slice;
        Ok(Argument::Constant(py.get_type::<PySlice>().call1((begin, end, py.None()))?.unbind()))
    }
}

/// Simulates `list.append(item)`.
pub fn append(cx: &mut OpcodeExecutor<'_>, list: VarId, item: VarId) -> Flow<()> {
    add(cx, list, &[item])
}

/// Simulates `list.extend(iterable)`.
pub fn extend(cx: &mut OpcodeExecutor<'_>, list: VarId, iterable: VarId) -> Flow<()> {
    if cx.see(list)?.form() != Form::List {
        expect(cx, list)?;
    }
    if let Some(more) = cx.see(iterable)?.items(cx, iterable)? {
        return add(cx, list, &more);
    }
    let iterator = cx.iter(iterable)?;
    cx.ask_length(iterable)?;
    cx.each_left(iterator, |cx, item| add(cx, list, &[item]))
}

/// Simulates `list += other`.
pub(crate) fn add_in_place(cx: &mut OpcodeExecutor<'_>, list: VarId, other: VarId) -> Flow<Option<VarId>> {
    // `__radd__` of a number-like right operand, such as an array, takes precedence.
    if cx.known(other)?.is_none() && cx.has_special(other, "__radd__")? {
        return Ok(None);
    }
    extend(cx, list, other)?;
    Ok(Some(list))
}

fn add(cx: &mut OpcodeExecutor<'_>, list: VarId, more: &[VarId]) -> Flow<()> {
    if growing_list::append(cx, list, more)? {
        return Ok(());
    }
    let items = [&expect(cx, list)?.items, more].concat();
    write(cx, list, items)
}

/// Replaces the items of a list, and records the side effect.
pub(crate) fn write(cx: &mut OpcodeExecutor<'_>, list: VarId, items: Vec<VarId>) -> Flow<()> {
    let before = expect(cx, list)?;
    let (object, found) = (before.object.as_ref().map(|object| object.clone_ref(cx.py)), Rc::clone(&before.found));
    cx.limits.charge(items.len());
    cx.trace.vars.set(list, Rc::new(ListVariable { items, object, found }));
    cx.trace.effects.record(Effect::Contents { container: list });
    Ok(())
}

/// Returns the payload of a variable that must be a list; breaks the graph for other variables.
pub(crate) fn expect(cx: &mut OpcodeExecutor<'_>, list: VarId) -> Flow<Rc<ListVariable>> {
    if let Some(payload) = cx.see_as::<ListVariable>(list)? {
        Ok(payload)
    } else {
        let name = cx.type_name(list)?;
        Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("a list method on a {name} object")))
    }
}

/// Returns the outcome of an operation that called methods of the items or of an operand. Breaks the graph if such a
/// method has written to the list meanwhile, even if the items are the same as before.
pub(crate) fn unchanged<T>(
    cx: &mut OpcodeExecutor<'_>,
    list: VarId,
    before: &ListVariable,
    outcome: Flow<T>,
) -> Flow<T> {
    let changed =
        cx.trace.vars.as_kind::<ListVariable>(list).is_some_and(|list| !std::ptr::eq(&raw const *list, before));
    if changed && matches!(outcome, Ok(_) | Err(Unwind::Raise(_))) {
        let text = "a list that changes while a method it calls runs";
        return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
    }
    outcome
}

/// Simulates `list[key] = items`, or `del list[key]`, for any key. CPython performs the operation on a list of
/// positions.
fn edit<'py>(
    cx: &mut OpcodeExecutor<'py>,
    items: &[VarId],
    key: VarId,
    new: &[VarId],
    operation: impl FnOnce(&Bound<'py, PyAny>, &Bound<'py, PyAny>) -> PyResult<()>,
) -> Flow<Vec<VarId>> {
    let key = Sequence::List.key_object(cx, key)?;
    edit_at(cx, items, &key, new, operation)
}

fn edit_at<'py>(
    cx: &mut OpcodeExecutor<'py>,
    items: &[VarId],
    key: &Bound<'py, PyAny>,
    new: &[VarId],
    operation: impl FnOnce(&Bound<'py, PyAny>, &Bound<'py, PyAny>) -> PyResult<()>,
) -> Flow<Vec<VarId>> {
    let positions = Sequence::List.positions(cx.py, items.len())?;
    operation(&positions, key).map_err(|error| cx.raise(error))?;
    let all: Vec<VarId> = items.iter().chain(new).copied().collect();
    Ok(positions.extract::<Vec<usize>>()?.into_iter().map(|position| all[position]).collect())
}

impl ListVariable {
    /// Returns a list made in the trace.
    pub fn new(items: Vec<VarId>) -> Self {
        ListVariable { items, object: None, found: Rc::default() }
    }

    /// Returns a list from outside, with the items appended to it.
    pub(crate) fn found<'py>(
        cx: &mut OpcodeExecutor<'py>,
        list: &Bound<'py, PyList>,
        tracker: TrackerId,
        appended: &[VarId],
    ) -> Self {
        let mut items = sequence::wrap_items(cx, list.iter(), tracker);
        let found = Rc::from(&items[..]);
        items.extend(appended);
        ListVariable { items, object: Some(list.clone().into_any().unbind()), found }
    }

    /// Returns the new items for `list[slice] = value`. Errors of the slice are raised first, as in CPython.
    fn assigned<'py>(&self, cx: &mut OpcodeExecutor<'py>, slice: &Bound<'py, PyAny>, value: VarId) -> Flow<Vec<VarId>> {
        let is_iterable = cx.has_special(value, "__iter__")? || cx.has_special(value, "__getitem__")?;
        edit_at(cx, &self.items, slice, &[], |positions, slice| {
            // The error about a value that is not iterable depends on the slice alone.
            if is_iterable {
                positions.get_item(slice).map(drop)
            } else {
                positions.set_item(slice, slice.py().None())
            }
        })?;
        cx.unpack_all(value)
    }

    /// The edits that give the real list these items, one after the other; none if it has them already.
    fn edits(&self, trace: &Trace<'_>) -> Vec<Edit> {
        let stays =
            |(item, found): &(&VarId, &VarId)| item == found && trace.trackers.is_loadable(trace.vars.tracker(**item));
        let in_front = self.items.iter().zip(&*self.found).take_while(stays).count();
        let (left, found) = (&self.items[in_front..], &self.found[in_front..]);
        let behind = left.iter().rev().zip(found.iter().rev()).take_while(stays).count();
        if left.len() == behind && found.len() == behind {
            return Vec::new();
        }
        let items = in_front..self.items.len() - behind;
        match self.shift(stays).filter(|kept| self.items.len() - kept < items.len()) {
            Some(kept) => {
                // The new items are loaded before the list changes, as they may be found by their places in it.
                let (found, new) = (self.found.len(), kept..self.items.len());
                let append = Edit { slice: (found as isize, None), items: new };
                let drop = Edit { slice: (0, Some((found - kept) as isize)), items: 0..0 };
                (!append.items.is_empty()).then_some(append).into_iter().chain([drop]).collect()
            }
            None => {
                let end = (behind > 0).then_some(-(behind as isize));
                vec![Edit { slice: (in_front as isize, end), items }]
            }
        }
    }

    /// Number of items if the list begins with the last items of the real list, as the buffer of the last results
    /// does; `None` otherwise.
    fn shift(&self, stays: impl Fn(&(&VarId, &VarId)) -> bool) -> Option<usize> {
        let first = self.items.first()?;
        let begins = |from: &usize| {
            let kept = &self.found[*from..];
            kept.len() <= self.items.len() && self.items.iter().zip(kept).all(|pair| stays(&pair))
        };
        // A list of equal items has many places where the kept items may begin.
        let mut places = (1..self.found.len()).filter(|from| self.found[*from] == *first).take(MAX_PLACES);
        let from = places.find(begins)?;
        Some(self.found.len() - from)
    }

    fn build(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        for &item in &self.items {
            cg.load(item)?;
        }
        cg.op(Op::BUILD_LIST, self.items.len() as u32)
    }

    /// Emits code that empties a real list so that a running sort of the list detects the modification, as it does if
    /// the program appended and removed items.
    fn empty(cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let list = cg.py().get_type::<PyList>();
        let (append, clear) = (list.getattr("append")?.unbind(), list.getattr("clear")?.unbind());
        let none = Argument::none(cg.py());
        cg.call(|cg| cg.load_const(append), [this.into(), none])?;
        cg.op(Op::POP_TOP, 0)?;
        cg.call(|cg| cg.load_const(clear), [this])?;
        cg.op(Op::POP_TOP, 0)
    }
}

impl Variable for ListVariable {
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
        format!("ListVariable(len: {})", self.items.len())
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.object.as_ref()
    }

    fn materialize(&self, trace: &Trace<'_>) -> Option<Py<PyAny>> {
        let items = sequence::materialize(trace, &self.items)?;
        PyList::new(trace.py, items).ok().map(|list| list.into_any().unbind())
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        // For the storage of an instance of a subclass, this is the type of the instance.
        let ty = self
            .object
            .as_ref()
            .map_or_else(|| self.python_type(&cx.trace), |object| object.bind(cx.py).get_type().into_any());
        let tracker = cx.trace.vars.tracker(this);
        cx.trace.guards.add(tracker, Test::TypeIs(Identity::of(&ty)));
        if let Some(object) = &self.object {
            cx.trace.guards.add(tracker, Test::Length(object.bind(cx.py).len()?));
        }
        Ok(())
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<GraphArgument> {
        let items = sequence::graph_items(cx, &self.items)?;
        let value = PyList::new(cx.py, items.values)?.into_any().unbind();
        Ok(GraphArgument { value, text: format!("[{}]", items.text), holds_tensor: items.holds_tensor })
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        if cg.leaves_empty(this) {
            return cg.op(Op::BUILD_LIST, 0);
        }
        self.build(cg)
    }

    fn restore_contents(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let is_subclass =
            self.object.as_ref().is_some_and(|object| !object.bind(cg.py()).is_exact_instance_of::<PyList>());
        if !is_subclass && self.items.is_empty() {
            return Self::empty(cg, this);
        }
        for edit in self.edits(cg.trace()) {
            let (slice, items) = (edit.slice(cg.py())?, Argument::list(&self.items[edit.items]));
            if is_subclass {
                // The C method: an override of `__setitem__` in a subclass has been inlined by the trace already.
                let set = cg.py().get_type::<PyList>().getattr("__setitem__")?.unbind();
                cg.call(|cg| cg.load_const(set), [this.into(), slice, items])?;
                cg.op(Op::POP_TOP, 0)?;
            } else {
                cg.load_argument(items)?;
                cg.load(this)?;
                cg.load_argument(slice)?;
                cg.op(Op::STORE_SUBSCR, 0)?;
            }
        }
        Ok(())
    }

    fn restored(&self, trace: &Trace<'_>, _: VarId) -> Vec<VarId> {
        self.edits(trace).into_iter().flat_map(|edit| self.items[edit.items].to_vec()).collect()
    }

    fn children(&self) -> Vec<VarId> {
        self.items.clone()
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, key: VarId) -> Flow<VarId> {
        match Sequence::List.select(cx, key, self.items.len())? {
            Selection::One(index) => Ok(self.items[index]),
            Selection::Many(selected) => {
                Ok(cx.trace.list(selected.into_iter().map(|index| self.items[index]).collect()))
            }
        }
    }

    fn set_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId, value: VarId) -> Flow<()> {
        let mut items = self.items.clone();
        if let Some(index) = sequence::fast_index(cx, key, items.len())? {
            items[index] = value;
            return write(cx, this, items);
        }
        if cx.see_as::<SliceVariable>(key)?.is_none() {
            let new = items.len();
            let items = edit(cx, &items, key, &[value], |positions, key| positions.set_item(key, new))?;
            return write(cx, this, items);
        }
        let slice = Sequence::List.key_object(cx, key)?;
        let new = self.assigned(cx, &slice, value);
        let new = unchanged(cx, this, self, new)?;
        let range = items.len()..items.len() + new.len();
        let items = edit_at(cx, &items, &slice, &new, |positions, slice| {
            positions.set_item(slice, PyList::new(positions.py(), range)?)
        })?;
        write(cx, this, items)
    }

    fn del_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<()> {
        if let Some(index) = sequence::fast_index(cx, key, self.items.len())? {
            let mut items = self.items.clone();
            items.remove(index);
            return write(cx, this, items);
        }
        let items = edit(cx, &self.items, key, &[], |positions, key| positions.del_item(key))?;
        write(cx, this, items)
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        Ok(SequenceIterator::over(cx, this))
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
        let found = object_model::contains_among(cx, &self.items, item);
        unchanged(cx, this, self, found)
    }

    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        _: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        match op {
            BinaryOp::Add if !reflected => {
                let other = subclass::seen_by_base(cx, other)?;
                let Some(right) = cx.see_as::<ListVariable>(other)? else { return Ok(None) };
                let items = self.items.iter().chain(&right.items).copied().collect();
                Ok(Some(cx.trace.list(items)))
            }
            BinaryOp::Multiply => match sequence::times(cx, other)? {
                Some(count) => {
                    let items = sequence::repeat(&self.items, count)?;
                    Ok(Some(cx.trace.list(items)))
                }
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    fn inplace(&self, cx: &mut OpcodeExecutor<'_>, op: BinaryOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        match op {
            BinaryOp::Add => add_in_place(cx, this, other),
            BinaryOp::Multiply => {
                let Some(count) = sequence::times(cx, other)? else { return Ok(None) };
                let items = sequence::repeat(&self.items, count)?;
                write(cx, this, items)?;
                Ok(Some(this))
            }
            _ => Ok(None),
        }
    }

    fn concat_in_place(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        extend(cx, this, other)?;
        Ok(Some(this))
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        let other = subclass::seen_by_base(cx, other)?;
        let Some(right) = cx.see_as::<ListVariable>(other)? else { return Ok(None) };
        let answer = sequence::compare_sized(cx, op, &self.items, &right.items);
        let answer = unchanged(cx, this, self, answer);
        unchanged(cx, other, &right, answer).map(Some)
    }
}
