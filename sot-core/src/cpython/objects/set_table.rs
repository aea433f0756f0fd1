//! The hash table of a set: for each place whether it is free, taken, or was taken. CPython's later operations depend
//! only on this and on the order of the elements. So a copy with the same table behaves like the original.

use pyo3::ffi::{self, setentry, PySetObject};
use pyo3::prelude::*;
use pyo3::types::{PyAnyMethods, PyFrozenSet, PySet};
use rustc_hash::FxHashMap;

/// One place of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TableSlot {
    Free,
    Removed,
    Taken,
}

/// The table of a set, without its elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetTable {
    places: Vec<TableSlot>,
    /// Place where `pop()` begins its search.
    finger: isize,
}

impl SetTable {
    /// Reads the table of a set or frozenset; `None` for other objects.
    #[must_use]
    pub fn of(set: &Bound<'_, PyAny>) -> Option<SetTable> {
        Some(SetTable { places: entries(set)?.iter().map(place).collect(), finger: finger(set)? })
    }

    /// True if a set has this table, with any elements.
    #[must_use]
    pub fn is_of(&self, set: &Bound<'_, PyAny>) -> bool {
        entries(set).is_some_and(|entries| self.places.iter().copied().eq(entries.iter().map(place)))
            && finger(set) == Some(self.finger)
    }

    /// Gives a set this table, if it has exactly these elements in any order. Nobody may hold the set yet who relies
    /// on it being immutable.
    pub fn arrange(&self, set: &Bound<'_, PyAny>, items: &[Bound<'_, PyAny>]) {
        let (Some(entries), Some(removed)) = (entries(set), removed(set.py())) else { return };
        let taken = entries.iter().filter(|entry| place(entry) == TableSlot::Taken);
        let mut own: FxHashMap<_, _> = taken.map(|entry| (entry.key, entry.hash)).collect();
        let ordered: Vec<_> = items.iter().map_while(|item| own.remove_entry(&item.as_ptr())).collect();
        let wanted = self.places.iter().filter(|place| **place == TableSlot::Taken).count();
        if !own.is_empty() || ordered.len() != wanted || items.len() != wanted {
            return;
        }
        let mut ordered = ordered.into_iter();
        let mut entry = |place: &TableSlot| match place {
            TableSlot::Taken => ordered.next().map(|(key, hash)| setentry { key, hash }),
            TableSlot::Removed => Some(setentry { key: removed, hash: -1 }),
            TableSlot::Free => None,
        };
        let arranged: Vec<setentry> = self.places.iter().map(|place| entry(place).unwrap_or(FREE)).collect();
        // SAFETY: `entries` has seen that it is a set. The new entries have the same elements as the old ones, whose references
        // they take over.
        unsafe { put(set.as_ptr().cast(), &arranged, self.finger) };
    }
}

const FREE: setentry = setentry { key: std::ptr::null_mut(), hash: 0 };

/// Copies a set or frozenset as a new set or frozenset with the same table, which `copy()` would rebuild.
pub fn copy_of_set<'py>(set: &Bound<'py, PyAny>, frozen: bool) -> PyResult<Bound<'py, PyAny>> {
    let py = set.py();
    let copy = if frozen { PyFrozenSet::empty(py)?.into_any() } else { PySet::empty(py)?.into_any() };
    let (Some(entries), Some(finger), false) = (entries(set), finger(set), frozen && used(set) == 0) else {
        // The empty frozenset may be shared by everyone.
        return Ok(copy);
    };
    let copied: Vec<setentry> = entries.iter().map(|entry| setentry { key: entry.key, hash: entry.hash }).collect();
    // SAFETY: the copy is new and empty; its references to the elements are made here.
    unsafe {
        let raw = copy.as_ptr().cast::<PySetObject>();
        if !put(raw, &copied, finger) {
            return Err(pyo3::exceptions::PyMemoryError::new_err(()));
        }
        let taken = copied.iter().filter(|entry| place(entry) == TableSlot::Taken);
        (*raw).used = taken.map(|entry| ffi::Py_INCREF(entry.key)).count() as isize;
    }
    Ok(copy)
}

/// Number of elements. A class derived from a set may have a `__len__` of its own.
fn used(set: &Bound<'_, PyAny>) -> isize {
    // SAFETY: `entries` has seen that it is a set.
    entries(set).map_or(0, |_| unsafe { (*set.as_ptr().cast::<PySetObject>()).used })
}

fn finger(set: &Bound<'_, PyAny>) -> Option<isize> {
    // SAFETY: `entries` has seen that it is a set.
    entries(set).map(|_| unsafe { (*set.as_ptr().cast::<PySetObject>()).finger })
}

fn place(entry: &setentry) -> TableSlot {
    match (entry.key.is_null(), entry.hash) {
        (true, _) => TableSlot::Free,
        // No object has the hash -1.
        (_, -1) => TableSlot::Removed,
        _ => TableSlot::Taken,
    }
}

fn entries<'a>(set: &'a Bound<'_, PyAny>) -> Option<&'a [setentry]> {
    if !set.is_instance_of::<PySet>() && !set.is_instance_of::<PyFrozenSet>() {
        return None;
    }
    // SAFETY: the check has seen that it is a set. Its table has one place more than the mask, and stays valid while
    // nobody writes to the set.
    unsafe {
        let raw = set.as_ptr().cast::<PySetObject>();
        Some(std::slice::from_raw_parts((*raw).table, usize::try_from((*raw).mask).ok()? + 1))
    }
}

/// The object that CPython puts in place of a removed element.
fn removed(py: Python<'_>) -> Option<*mut ffi::PyObject> {
    let set = PySet::new(py, [0]).ok()?;
    set.discard(0).ok()?;
    let found = entries(set.as_any())?.iter().find(|entry| place(entry) == TableSlot::Removed)?;
    Some(found.key)
}

/// Replaces a set's entries. Returns false if there is not enough memory.
///
/// # Safety
/// `set` is a set, and the new entries hold its elements, each once.
unsafe fn put(set: *mut PySetObject, entries: &[setentry], finger: isize) -> bool {
    // SAFETY: guaranteed by the caller; a table that is not within the object itself is a separate allocation, made
    // and freed by these functions.
    unsafe {
        let small = (&raw mut (*set).smalltable).cast::<setentry>();
        let table = if entries.len() <= ffi::PySet_MINSIZE {
            small
        } else {
            let size = std::mem::size_of_val(entries);
            let table = ffi::PyMem_Malloc(size).cast::<setentry>();
            if table.is_null() {
                return false;
            }
            table
        };
        let old = (*set).table;
        std::ptr::copy_nonoverlapping(entries.as_ptr(), table, entries.len());
        if old != small {
            ffi::PyMem_Free(old.cast());
        }
        (*set).table = table;
        (*set).mask = entries.len() as isize - 1;
        (*set).fill = entries.iter().filter(|entry| !entry.key.is_null()).count() as isize;
        (*set).finger = finger;
        true
    }
}

/// Returns the first struct that does not have the expected layout.
pub(in crate::cpython) fn layout_problem(py: Python<'_>) -> PyResult<Option<&'static str>> {
    let set = PySet::new(py, [0, 8, 16])?;
    set.discard(8)?;
    // SAFETY: should the layout differ, these fields are still inside the object.
    let raw = unsafe { &*set.as_ptr().cast::<PySetObject>() };
    let small = raw.mask == 7 && raw.fill == 3 && raw.used == 2 && raw.table.cast_const() == raw.smalltable.as_ptr();
    let fits = std::mem::size_of::<PySetObject>() == set.get_type().getattr("__basicsize__")?.extract::<usize>()?;
    if !small || !fits {
        return Ok(Some("the table of a set"));
    }
    let taken = |place: TableSlot| raw.smalltable.iter().filter(|entry| self::place(entry) == place).count();
    Ok((taken(TableSlot::Taken) != 2 || taken(TableSlot::Removed) != 1).then_some("the entries of a set"))
}
