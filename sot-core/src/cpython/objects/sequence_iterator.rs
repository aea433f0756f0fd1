//! Where iterators of lists, tuples and ranges stand, read from their structs: a loop that breaks asks in each round,
//! and
//! `__reduce__` makes several objects for the answer.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyRange, PyTuple};

use crate::cpython::import;
use crate::cpython::layout::RangeIterator;
use crate::cpython::objects::upcoming::Upcoming;

/// `listiterobject`, `tupleiterobject`, `listreviterobject` and `reversedobject`, the same in all versions.
#[repr(C)]
struct SequenceIteratorObject {
    ob_base: ffi::PyObject,
    index: ffi::Py_ssize_t,
    /// Null when it is exhausted.
    sequence: *mut ffi::PyObject,
}

/// Where an iterator stands: at an index of a list or tuple that it has not come to the end of.
struct SequencePosition<'py> {
    sequence: Bound<'py, PyAny>,
    index: usize,
}

/// # Safety
/// `iterator` is one of a list or tuple.
unsafe fn position<'py>(iterator: &Bound<'py, PyAny>) -> Option<SequencePosition<'py>> {
    // SAFETY: the caller's promise; the self test compares the layout. The sequence is held by the iterator.
    let (index, sequence) = unsafe {
        let raw = iterator.as_ptr().cast::<SequenceIteratorObject>();
        ((*raw).index, Bound::from_borrowed_ptr_or_opt(iterator.py(), (*raw).sequence)?)
    };
    Some(SequencePosition { sequence, index: usize::try_from(index).ok()? })
}

/// What an iterator of a list or tuple gives after so many more steps.
///
/// # Safety
/// `iterator` is one of a list or tuple.
pub(in crate::cpython) unsafe fn upcoming_item<'py>(iterator: &Bound<'py, PyAny>, after: usize) -> Upcoming<'py> {
    // SAFETY: the caller's promise.
    let position = unsafe { position(iterator) };
    let item = position.and_then(|SequencePosition { sequence, index }| {
        let index = index.checked_add(after)?;
        match sequence.cast::<PyList>() {
            Ok(list) => list.get_item(index).ok(),
            Err(_) => sequence.cast::<PyTuple>().ok()?.get_item(index).ok(),
        }
    });
    item.map_or(Upcoming::End, Upcoming::Item)
}

/// What `reversed()` of a list or tuple gives after so many more steps; `None` where it goes over something else.
///
/// # Safety
/// `iterator` is what `reversed()` makes of a list, or a `reversed` object.
pub(in crate::cpython) unsafe fn upcoming_backwards<'py>(
    iterator: &Bound<'py, PyAny>,
    after: usize,
) -> Option<Upcoming<'py>> {
    // SAFETY: the caller's promise.
    let Some(SequencePosition { sequence, index }) = (unsafe { position(iterator) }) else {
        return Some(Upcoming::End);
    };
    // It ends at the first place where there is no item: a list may have become shorter.
    let (len, item) = if let Ok(list) = sequence.cast::<PyList>() {
        (list.len(), index.checked_sub(after).and_then(|index| list.get_item(index).ok()))
    } else if sequence.is_exact_instance_of::<PyTuple>() {
        let tuple = sequence.cast::<PyTuple>().ok()?;
        (tuple.len(), index.checked_sub(after).and_then(|index| tuple.get_item(index).ok()))
    } else {
        return None;
    };
    Some(item.filter(|_| index < len).map_or(Upcoming::End, Upcoming::Item))
}

/// What an iterator of a range gives after so many more steps.
///
/// # Safety
/// `iterator` is one of a range whose numbers fit a C `long`.
pub(in crate::cpython) unsafe fn upcoming_number<'py>(iterator: &Bound<'py, PyAny>, after: usize) -> Upcoming<'py> {
    // SAFETY: the caller's promise; the self test compares the layout.
    let (next, step, left) = unsafe { (*iterator.as_ptr().cast::<RangeIterator>()).left() };
    match std::ffi::c_long::try_from(after) {
        Ok(after) if after < left => {
            Upcoming::Item(PyInt::new(iterator.py(), next.wrapping_add(step.wrapping_mul(after))).into_any())
        }
        _ => Upcoming::End,
    }
}

/// What is not where it is expected, if anything.
pub(in crate::cpython) fn layout_problem(py: Python<'_>) -> PyResult<Option<&'static str>> {
    let list = PyList::new(py, [7, 8, 9])?;
    for sequence in [list.as_any(), list.to_tuple().as_any()] {
        let mut iterator = sequence.try_iter()?;
        iterator.next().transpose()?;
        // SAFETY: should the layout differ, these fields are still inside the object: it has an index and what it goes
        // over.
        let raw = unsafe { &*iterator.as_ptr().cast::<SequenceIteratorObject>() };
        if raw.index != 1 || raw.sequence != sequence.as_ptr() {
            return Ok(Some("where an iterator of a list or tuple stands"));
        }
    }
    let reversed = import(py, "builtins")?.getattr("reversed")?;
    for sequence in [list.as_any(), list.to_tuple().as_any()] {
        let iterator = reversed.call1((sequence,))?;
        iterator.call_method0("__next__")?;
        // SAFETY: should the layout differ, these fields are still inside the object: it has an index and what it goes
        // over.
        let raw = unsafe { &*iterator.as_ptr().cast::<SequenceIteratorObject>() };
        if raw.index != 1 || raw.sequence != sequence.as_ptr() {
            return Ok(Some("where a reversed iterator of a list or tuple stands"));
        }
    }
    let mut iterator = PyRange::new_with_step(py, 5, 50, 3)?.try_iter()?;
    iterator.next().transpose()?;
    let expected = std::mem::size_of::<RangeIterator>();
    let fits = iterator.get_type().getattr("__basicsize__")?.extract::<usize>()? == expected;
    // SAFETY: the object is as large as the struct.
    if !fits || unsafe { (*iterator.as_ptr().cast::<RangeIterator>()).left() } != (8, 3, 14) {
        return Ok(Some("where an iterator of a range stands"));
    }
    Ok(None)
}
