//! Looks for a key in a dict or set without running code of the program: the entries with the key's hash are compared
//! by the caller, who may refuse.

use pyo3::ffi::{self, setentry, PySetObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PySet};

use crate::cpython::snapshot::has_string_keys;

/// Number of places that a set looks at in turn (`LINEAR_PROBES`).
const NEIGHBOURS: usize = 9;
/// Number of bits by which the hash is shifted from place to place (`PERTURB_SHIFT`).
const SHIFT: u32 = 5;

/// Returns whether a dict has a key with this hash. `same` compares an entry's key with the key; its `None`, for an
/// entry of which only code of the program can tell, is the answer.
pub fn dict_has<'py>(
    dict: &Bound<'py, PyDict>,
    key: &Bound<'py, PyAny>,
    same: impl Fn(&Bound<'py, PyAny>) -> Option<bool>,
) -> Option<bool> {
    // SAFETY: a live dict, which nothing changes meanwhile: `same` runs no code of the program. The table begins as
    // described by `DictTable`; the indices of its used places are below the number of its entries.
    unsafe {
        let raw = dict.as_ptr().cast::<ffi::PyDictObject>();
        if has_string_keys(raw) {
            // All keys are strings: comparing them with the key runs no code.
            return dict.contains(key).ok();
        }
        let hash = key.hash().ok()?;
        let table = DictTable::of((*raw).ma_keys.cast());
        let mut perturb = hash as usize;
        let mut place = perturb & table.mask;
        loop {
            match table.index(place) {
                -1 => return Some(false),
                at if at >= 0 => {
                    let entry = table.entries.add(at as usize);
                    if (*entry).hash == hash && !(*entry).key.is_null() {
                        let found = same(&Bound::from_borrowed_ptr(dict.py(), (*entry).key))?;
                        if found {
                            return Some(true);
                        }
                    }
                }
                // The entry was removed.
                _ => {}
            }
            perturb >>= SHIFT;
            place = place.wrapping_mul(5).wrapping_add(perturb).wrapping_add(1) & table.mask;
        }
    }
}

/// Like [`dict_has`], for a set or frozenset; `None` for other objects.
pub fn set_has<'py>(
    set: &Bound<'py, PyAny>,
    key: &Bound<'py, PyAny>,
    same: impl Fn(&Bound<'py, PyAny>) -> Option<bool>,
) -> Option<bool> {
    if !set.is_instance_of::<PySet>() && !set.is_instance_of::<PyFrozenSet>() {
        return None;
    }
    let hash = key.hash().ok()?;
    // SAFETY: it is a set, which nothing changes meanwhile: `same` runs no code of the program. Its table has one place
    // more than the mask, and always has a free place.
    unsafe {
        let raw = set.as_ptr().cast::<PySetObject>();
        let mask = (*raw).mask as usize;
        let mut perturb = hash as usize;
        let mut place = perturb & mask;
        loop {
            let last = if place + NEIGHBOURS <= mask { place + NEIGHBOURS } else { place };
            for at in place..=last {
                let entry: *const setentry = (*raw).table.add(at);
                if (*entry).key.is_null() {
                    return Some(false);
                }
                if (*entry).hash == hash {
                    let found = same(&Bound::from_borrowed_ptr(set.py(), (*entry).key))?;
                    if found {
                        return Some(true);
                    }
                }
            }
            perturb >>= SHIFT;
            place = place.wrapping_mul(5).wrapping_add(1).wrapping_add(perturb) & mask;
        }
    }
}

/// Returns what is wrong with the lookups, which follow the tables of dicts and sets.
pub(in crate::cpython) fn layout_problem(py: Python<'_>) -> PyResult<Option<&'static str>> {
    // Numbers with equal lowest bits, of which some are removed again: entries are not in their first places.
    let numbers: Vec<i64> = (0..200).map(|number| (number * number) << (number % 7)).collect();
    let (dict, set) = (PyDict::new(py), PySet::empty(py)?);
    for (at, number) in numbers.iter().enumerate() {
        dict.set_item(number, at)?;
        set.add(number)?;
        if at % 3 == 2 {
            dict.del_item(number)?;
            set.discard(number)?;
        }
    }
    for sought in numbers.iter().chain(&[-1, 3, 1 << 40]) {
        let key = sought.into_pyobject(py)?.into_any();
        let same = |other: &Bound<'_, PyAny>| other.eq(&key).ok();
        if dict_has(&dict, &key, same) != Some(dict.contains(&key)?) {
            return Ok(Some("PyDictKeysObject"));
        }
        if set_has(&set, &key, same) != Some(set.contains(&key)?) {
            return Ok(Some("PySetObject.table"));
        }
    }
    Ok(None)
}

/// Entry of a dict whose keys are of any type (`PyDictKeyEntry`).
#[repr(C)]
struct DictEntry {
    hash: ffi::Py_hash_t,
    key: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
}

/// Header of the table of such a dict (`PyDictKeysObject`); the indices follow.
#[repr(C)]
struct Header {
    holders: isize,
    #[cfg(Py_3_11)]
    log2_size: u8,
    #[cfg(Py_3_11)]
    log2_index_bytes: u8,
    #[cfg(Py_3_11)]
    kind: u8,
    #[cfg(Py_3_11)]
    version: u32,
    #[cfg(not(Py_3_11))]
    size: isize,
    #[cfg(not(Py_3_11))]
    lookup: usize,
    usable: isize,
    used: isize,
}

/// The table of a dict whose keys are of any type.
struct DictTable {
    mask: usize,
    indices: *const u8,
    index_bytes: usize,
    entries: *const DictEntry,
}

impl DictTable {
    /// # Safety
    /// The header of a dict's table, whose keys are of any type.
    unsafe fn of(header: *const Header) -> DictTable {
        // SAFETY: guaranteed by the caller; the indices follow the header, and the entries the indices.
        unsafe {
            #[cfg(Py_3_11)]
            let size = 1_usize << (*header).log2_size;
            #[cfg(not(Py_3_11))]
            let size = (*header).size as usize;
            let index_bytes = match size {
                0..=0xff => 1,
                0x100..=0xffff => 2,
                0x1_0000..=0xffff_ffff => 4,
                _ => 8,
            };
            let indices = header.add(1).cast::<u8>();
            DictTable { mask: size - 1, indices, index_bytes, entries: indices.add(size * index_bytes).cast() }
        }
    }

    /// Index of the entry in a place; -1 if the place is free, and -2 if its entry was removed.
    ///
    /// # Safety
    /// The place is at most the mask.
    unsafe fn index(&self, place: usize) -> i64 {
        // SAFETY: guaranteed by the caller; the indices are signed numbers of this size.
        unsafe {
            match self.index_bytes {
                1 => i64::from(*self.indices.cast::<i8>().add(place)),
                2 => i64::from(*self.indices.cast::<i16>().add(place)),
                4 => i64::from(*self.indices.cast::<i32>().add(place)),
                _ => *self.indices.cast::<i64>().add(place),
            }
        }
    }
}
