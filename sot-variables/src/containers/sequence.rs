//! Shared by lists, tuples, deques and strings: positions, slices, comparison, repetition. CPython does the index
//! arithmetic on a list of positions, so its rules and error messages apply.

use std::cell::Cell;
use std::rc::Rc;

use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyRange, PySlice, PyString, PyTuple};

use sot_core::cpython::{self, DescriptorKind};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, CompareOp, OpcodeExecutor, Trace};
use sot_core::language::LANGUAGE;
use sot_core::tracker::{Key, Tracker, TrackerId};
use sot_core::variable::VarId;

use crate::classes::subclass;
use crate::containers::slice::SliceVariable;

/// Maximum nesting of containers. Deeper ones are assumed to contain themselves.
const MAX_NESTING: usize = 200;

thread_local! {
    static NESTING: Cell<usize> = const { Cell::new(0) };
}

/// Maximum number of items in a new sequence; longer ones are left to CPython.
const MAX_ITEMS: usize = 1_000_000;

/// Returns the length of a container that had `had` items before the trace, if it is from outside, and has `now` items.
/// The length of a container that has not been looked into is a number from outside; the difference must be guarded.
pub(crate) fn length(cx: &mut OpcodeExecutor<'_>, this: VarId, had: Option<usize>, now: usize) -> Flow<VarId> {
    let (of, payload) = (cx.trace.vars.tracker(this), cx.trace.vars.get(this));
    // For the storage of an instance of a subclass, new code would call a `__len__` of that class.
    let is_plain = |object: &Py<PyAny>| object.bind(cx.py).get_type().is(payload.python_type(&cx.trace));
    let had = had.filter(|_| cx.trace.trackers.is_sourced(of) && payload.object().is_some_and(is_plain));
    let Some(had) = had else {
        payload.open(cx, this)?;
        return cx.trace.integer(now as i64);
    };
    let tracker = cx.trace.trackers.add(Tracker::Length { of });
    let length = cx.trace.wrap(&had.into_pyobject(cx.py).map_err(PyErr::from)?.into_any(), tracker);
    let more = now as i64 - had as i64;
    if more == 0 {
        return Ok(length);
    }
    let more = cx.trace.integer(more)?;
    cx.binary(BinaryOp::Add, length, more)
}

/// The sequence type, for error messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequence {
    List,
    Tuple,
    Text,
    Bytes,
}

/// The positions that an index or slice selects.
pub(crate) enum Selection {
    One(usize),
    Many(Vec<usize>),
}

impl Sequence {
    /// Returns a real sequence whose items are their own positions.
    pub(crate) fn positions(self, py: Python<'_>, len: usize) -> PyResult<Bound<'_, PyAny>> {
        Ok(match self {
            Sequence::List => PyList::new(py, 0..len)?.into_any(),
            Sequence::Tuple | Sequence::Text | Sequence::Bytes => PyTuple::new(py, 0..len)?.into_any(),
        })
    }

    /// Returns the positions that `sequence[key]` selects.
    pub(crate) fn select(self, cx: &mut OpcodeExecutor<'_>, key: VarId, len: usize) -> Flow<Selection> {
        if let Some(index) = fast_index(cx, key, len)? {
            return Ok(Selection::One(index));
        }
        let key = self.key_object(cx, key)?;
        // A slice of a `range` takes no time. Errors of other keys name the sequence.
        let all = if key.is_instance_of::<PySlice>() {
            cx.py.get_type::<PyRange>().call1((len,))?
        } else {
            self.positions(cx.py, len)?
        };
        let selected = all.get_item(key).map_err(|error| cx.raise(error))?;
        if let Ok(index) = selected.extract::<usize>() {
            return Ok(Selection::One(index));
        }
        Ok(Selection::Many(selected.extract::<Vec<usize>>()?))
    }

    /// Returns the real index or slice for a key.
    pub(crate) fn key_object<'py>(self, cx: &mut OpcodeExecutor<'py>, key: VarId) -> Flow<Bound<'py, PyAny>> {
        let slice = cx.see_as::<SliceVariable>(key)?;
        // CPython asks the step first (`PySlice_Unpack`).
        let parts = slice.as_ref().map_or_else(
            || vec![key],
            |slice| {
                let [first, end, step] = slice.parts;
                vec![step, first, end]
            },
        );
        let mut real = Vec::with_capacity(parts.len());
        for part in parts {
            match index_object(cx, part)? {
                Some(part) => real.push(part),
                None if slice.is_none() && !cx.has_special(key, "__index__")? => {
                    let (this, other) = (self.name(), cx.type_name(key)?);
                    let text = match self {
                        Sequence::Text if !LANGUAGE.names_misfits => "string indices must be integers".to_owned(),
                        Sequence::Text => format!("string indices must be integers, not '{other}'"),
                        _ => format!("{this} indices must be integers or slices, not {other}"),
                    };
                    return Err(cx.raise(PyTypeError::new_err(text)));
                }
                None => {
                    let text = format!("a {} index that is not known while tracing", self.name());
                    return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
                }
            }
        }
        if slice.is_some() {
            real.rotate_left(1);
            return Ok(cx.py.get_type::<PySlice>().call1(PyTuple::new(cx.py, real)?)?);
        }
        Ok(real.swap_remove(0))
    }

    const fn name(self) -> &'static str {
        match self {
            Sequence::List => "list",
            Sequence::Tuple => "tuple",
            Sequence::Text => "string",
            Sequence::Bytes => "byte",
        }
    }
}

/// Returns the known value, or the result of its `__index__`. C code does not call `__index__` of instances of `int`.
pub(crate) fn index_object<'py>(cx: &mut OpcodeExecutor<'py>, value: VarId) -> Flow<Option<Bound<'py, PyAny>>> {
    if let Some(known) = cx.materialize(value)? {
        return Ok(Some(known));
    }
    if let Some(number) = subclass::value_of(cx, value)?.filter(Bound::is_instance_of::<PyInt>) {
        return Ok(Some(number));
    }
    if !cx.has_special(value, "__index__")? {
        return Ok(None);
    }
    let index = object_model::convert(cx, value, "__index__", &[])?;
    cx.known(index)
}

/// Returns the position for a known `int` key in range.
pub(crate) fn fast_index(cx: &mut OpcodeExecutor<'_>, key: VarId, len: usize) -> Flow<Option<usize>> {
    let Some(index) = cx.known_int(key)? else { return Ok(None) };
    let index = if index < 0 { index + len as i64 } else { index };
    Ok(usize::try_from(index).ok().filter(|&index| index < len))
}

/// Runs work on the items of a container. Returns `None` if containers are nested too deeply.
pub(crate) fn nested<T>(work: impl FnOnce() -> T) -> Option<T> {
    let depth = NESTING.get();
    if depth >= MAX_NESTING {
        return None;
    }
    NESTING.set(depth + 1);
    let result = work();
    NESTING.set(depth);
    Some(result)
}

/// Returns the graph break for containers that are nested too deeply.
pub(crate) fn endless() -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedOperation, "containers nested too deeply")
}

/// Simulates `left op right` for lists and deques, which compare their lengths first for equality.
pub fn compare_sized(cx: &mut OpcodeExecutor<'_>, op: CompareOp, left: &[VarId], right: &[VarId]) -> Flow<VarId> {
    if matches!(op, CompareOp::Equal | CompareOp::NotEqual) && left.len() != right.len() {
        return Ok(cx.trace.boolean(op == CompareOp::NotEqual));
    }
    compare(cx, op, left, right)
}

/// Simulates `left op right`, item by item.
pub fn compare(cx: &mut OpcodeExecutor<'_>, op: CompareOp, left: &[VarId], right: &[VarId]) -> Flow<VarId> {
    let by_length = match op {
        CompareOp::Less => left.len() < right.len(),
        CompareOp::LessEqual => left.len() <= right.len(),
        CompareOp::Equal => left.len() == right.len(),
        CompareOp::NotEqual => left.len() != right.len(),
        CompareOp::Greater => left.len() > right.len(),
        CompareOp::GreaterEqual => left.len() >= right.len(),
    };
    let unordered = matches!(op, CompareOp::Equal | CompareOp::NotEqual);
    for (&a, &b) in left.iter().zip(right) {
        if !nested(|| object_model::equal(cx, a, b)).ok_or_else(endless)?? {
            return if unordered { Ok(cx.trace.boolean(op == CompareOp::NotEqual)) } else { cx.compare(op, a, b) };
        }
    }
    Ok(cx.trace.boolean(by_length))
}

/// Returns the factor for a repetition; `None` if it is not a known index.
pub(crate) fn times(cx: &mut OpcodeExecutor<'_>, factor: VarId) -> Flow<Option<i64>> {
    if let Some(count) = cx.known_int(factor)? {
        return Ok(Some(count));
    }
    // Types such as scalars on a device implement the operator themselves.
    let multiplies = match object_model::lookup(cx, factor, &Rc::from("__rmul__"))? {
        // `__rmul__` of a C number type refuses sequences.
        Some((found, tracker)) => {
            object_model::guard_identity(cx, &found, tracker);
            DescriptorKind::of(&found) != DescriptorKind::SlotWrapper || subclass::value_of(cx, factor)?.is_none()
        }
        None => false,
    };
    if multiplies || !cx.has_special(factor, "__index__")? {
        return Ok(None);
    }
    Ok(index_object(cx, factor)?.and_then(|index| index.extract().ok()))
}

/// Simulates `items * count`.
pub fn repeat(items: &[VarId], count: i64) -> Flow<Vec<VarId>> {
    let count = usize::try_from(count).unwrap_or(0);
    match items.len().checked_mul(count) {
        Some(total) if total <= MAX_ITEMS => Ok(items.repeat(count)),
        _ => Err(Unwind::fallback(ReasonId::TraceTooLong, format!("a sequence of more than {MAX_ITEMS} items"))),
    }
}

/// Returns the position of the first item that equals `item`.
pub fn find(cx: &mut OpcodeExecutor<'_>, items: &[VarId], item: VarId) -> Flow<Option<usize>> {
    for (position, &candidate) in items.iter().enumerate() {
        if object_model::equal(cx, candidate, item)? {
            return Ok(Some(position));
        }
    }
    Ok(None)
}

/// Counts the items that equal `item`.
pub fn count(cx: &mut OpcodeExecutor<'_>, items: &[VarId], item: VarId) -> Flow<VarId> {
    let mut found = 0;
    for &candidate in items {
        found += i64::from(object_model::equal(cx, candidate, item)?);
    }
    cx.trace.integer(found)
}

/// Returns the range of positions that `index(item, start, stop)` searches.
pub(crate) fn bounds(
    cx: &mut OpcodeExecutor<'_>,
    start: Option<VarId>,
    stop: Option<VarId>,
    len: usize,
) -> Flow<std::ops::Range<usize>> {
    let start = bound(cx, start, 0, len)?;
    let stop = bound(cx, stop, len, len)?;
    Ok(start..stop.max(start))
}

fn bound(cx: &mut OpcodeExecutor<'_>, value: Option<VarId>, default: usize, len: usize) -> Flow<usize> {
    let Some(value) = value else { return Ok(default) };
    let index = index_object(cx, value)?;
    if index.is_none() && cx.has_special(value, "__index__")? {
        return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, "a position that is not known while tracing"));
    }
    let is_index = |index: &Bound<'_, PyAny>| {
        cpython::type_lookup(&index.get_type(), &PyString::intern(index.py(), "__index__")).is_some()
    };
    let Some(index) = index.filter(is_index) else {
        return Err(cx.raise(PyTypeError::new_err("slice indices must be integers or have an __index__ method")));
    };
    // Slices know the rules for indices of any size and sign.
    let slice = cx.py.get_type::<PySlice>().call1((index, cx.py.None()))?;
    let start = slice.call_method1("indices", (len,)).map_err(|error| cx.raise(error))?.get_item(0)?;
    Ok(start.extract()?)
}

/// Returns an `IndexError` with CPython's message.
pub fn index_error(cx: &mut OpcodeExecutor<'_>, text: &'static str) -> Unwind {
    cx.raise(PyIndexError::new_err(text))
}

/// Wraps the items of a real sequence that is reached by the tracker `of`, as lazy variables.
pub fn wrap_items<'py>(
    cx: &mut OpcodeExecutor<'py>,
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    of: TrackerId,
) -> Vec<VarId> {
    // Items of an immutable constant are constants.
    let constant = matches!(cx.trace.trackers.get(of), Tracker::Constant(_));
    let wrap = |(index, item): (usize, Bound<'py, PyAny>)| {
        let tracker = if constant {
            cx.trace.trackers.constant(item.clone().unbind())
        } else {
            cx.trace.trackers.add(Tracker::Item { of, key: Key::Index(index as i64) })
        };
        cx.trace.wrap(&item, tracker)
    };
    items.enumerate().map(wrap).collect()
}

/// The items of a container as arguments of a statement.
pub struct GraphItems {
    /// Objects that the graph builder receives.
    pub values: Vec<Py<PyAny>>,
    /// Their text in the statement.
    pub text: String,
    /// True if an item is or contains a tensor of the graph.
    pub holds_tensor: bool,
}

/// Returns the items of a container as arguments of a statement.
pub fn graph_items(cx: &mut OpcodeExecutor<'_>, items: &[VarId]) -> Flow<GraphItems> {
    let mut all = GraphItems { values: Vec::with_capacity(items.len()), text: String::new(), holds_tensor: false };
    for (index, &item) in items.iter().enumerate() {
        let argument = nested(|| cx.graph_argument(item)).ok_or_else(endless)??;
        if index > 0 {
            all.text.push_str(", ");
        }
        all.text.push_str(&argument.text);
        all.values.push(argument.value);
        all.holds_tensor |= argument.holds_tensor;
    }
    Ok(all)
}

/// Returns real copies of the items, if all of them are known.
pub fn materialize(trace: &Trace<'_>, items: &[VarId]) -> Option<Vec<Py<PyAny>>> {
    nested(|| items.iter().map(|&item| trace.vars.get(item).materialize(trace)).collect())?
}
