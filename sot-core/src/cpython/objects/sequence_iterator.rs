//! Positions of iterators over lists, tuples and ranges, read from their structs. A loop that breaks reads the
//! position in each iteration, and `__reduce__` would create several objects each time.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyRange, PyTuple};

use crate::cpython::builtin;
use crate::cpython::layout::RangeIterator;
use crate::cpython::objects::upcoming::Upcoming;

/// `listiterobject`, `tupleiterobject`, `listreviterobject` and `reversedobject`, the same in all versions.
#[repr(C)]
struct SequenceIteratorObject {
    ob_base: ffi::PyObject,
    index: ffi::Py_ssize_t,
    /// Null once the iterator is exhausted.
    sequence: *mut ffi::PyObject,
}

/// Position of an iterator over a list or tuple that is not exhausted.
struct SequencePosition<'py> {
    sequence: Bound<'py, PyAny>,
    index: usize,
}

/// # Safety
/// `iterator` iterates over a list or tuple.
unsafe fn position<'py>(iterator: &Bound<'py, PyAny>) -> Option<SequencePosition<'py>> {
    // SAFETY: guaranteed by the caller; the self test compares the layout. The sequence is held by the iterator.
    let (index, sequence) = unsafe {
        let raw = iterator.as_ptr().cast::<SequenceIteratorObject>();
        ((*raw).index, Bound::from_borrowed_ptr_or_opt(iterator.py(), (*raw).sequence)?)
    };
    Some(SequencePosition { sequence, index: usize::try_from(index).ok()? })
}

/// Returns the item that an iterator over a list or tuple yields after this many more steps.
///
/// # Safety
/// `iterator` iterates over a list or tuple.
pub(in crate::cpython) unsafe fn upcoming_item<'py>(iterator: &Bound<'py, PyAny>, after: usize) -> Upcoming<'py> {
    // SAFETY: guaranteed by the caller.
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

/// Returns the item that `reversed()` of a list or tuple yields after this many more steps; `None` for another
/// sequence.
///
/// # Safety
/// `iterator` is the result of `reversed()` of a list, or a `reversed` object.
pub(in crate::cpython) unsafe fn upcoming_backwards<'py>(
    iterator: &Bound<'py, PyAny>,
    after: usize,
) -> Option<Upcoming<'py>> {
    // SAFETY: guaranteed by the caller.
    let Some(SequencePosition { sequence, index }) = (unsafe { position(iterator) }) else {
        return Some(Upcoming::End);
    };
    // The iterator ends at the first index without item, because a list may have become shorter.
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

/// Returns the number that an iterator over a range yields after this many more steps.
///
/// # Safety
/// `iterator` iterates over a range whose numbers fit into a C `long`.
pub(in crate::cpython) unsafe fn upcoming_number<'py>(iterator: &Bound<'py, PyAny>, after: usize) -> Upcoming<'py> {
    // SAFETY: guaranteed by the caller; the self test compares the layout.
    let (next, step, left) = unsafe { (*iterator.as_ptr().cast::<RangeIterator>()).left() };
    match std::ffi::c_long::try_from(after) {
        Ok(after) if after < left => {
            Upcoming::Item(PyInt::new(iterator.py(), next.wrapping_add(step.wrapping_mul(after))).into_any())
        }
        _ => Upcoming::End,
    }
}

/// Returns the first struct that does not have the expected layout.
pub(in crate::cpython) fn layout_problem(py: Python<'_>) -> PyResult<Option<&'static str>> {
    let list = PyList::new(py, [7, 8, 9])?;
    for sequence in [list.as_any(), list.to_tuple().as_any()] {
        let mut iterator = sequence.try_iter()?;
        iterator.next().transpose()?;
        // SAFETY: even if the layout differs, these fields are inside the object, because it holds an index and a
        // sequence.
        let raw = unsafe { &*iterator.as_ptr().cast::<SequenceIteratorObject>() };
        if raw.index != 1 || raw.sequence != sequence.as_ptr() {
            return Ok(Some("where an iterator of a list or tuple stands"));
        }
    }
    let reversed = builtin(py, "reversed")?;
    for sequence in [list.as_any(), list.to_tuple().as_any()] {
        let iterator = reversed.call1((sequence,))?;
        iterator.call_method0("__next__")?;
        // SAFETY: even if the layout differs, these fields are inside the object, because it holds an index and a
        // sequence.
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
