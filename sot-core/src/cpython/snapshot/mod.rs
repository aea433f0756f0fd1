//! Snapshots: the words of memory that guards depended on when they held. If every word is unchanged, the guards hold
//! again. For a dict or a type, its version is compared, which every write changes; for a reference, the pointer.
//!
//! An address is read only after earlier comparisons have shown that the object there is alive, because another live
//! object still refers to it, from the roots on. A [`Place`] stands for this proof, and only a [`Recorder`] creates
//! places. Only comparisons run in between, so no object can die meanwhile. If the memory of an object was reused for
//! another one, no harm is done, because all values found in the object are compared again. Objects that were not
//! looked into are kept alive.

mod blind_spot;
mod layout;
mod recorder;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use smallvec::SmallVec;

use crate::cpython::objects::embedded::EmbeddedObject;

pub use blind_spot::blind_spot;
pub(super) use blind_spot::look_for_blind_spots;
pub(super) use layout::has_string_keys;
pub use recorder::Recorder;

/// A few objects, usually without heap allocation.
pub type Objects<'py> = SmallVec<[Bound<'py, PyAny>; 8]>;

/// The memory that has to be unchanged for guards to hold.
#[derive(Debug)]
pub struct Snapshot {
    roots: Vec<usize>,
    probes: Vec<Probe>,
    items: Vec<DictItem>,
    wanted: Vec<usize>,
    _kept: Vec<Py<PyAny>>,
}

/// A comparison of one word. There are hundreds of probes, in memory that is cold at the next call, so they are
/// small.
#[derive(Debug, PartialEq, Eq, Hash, Clone, Copy)]
struct Probe {
    /// Address of a word, or of [`LOOKUP`] for a lookup in a dict.
    at: usize,
    /// Expected word, or the index of the lookup.
    is: u64,
}

/// Never equals the expected word of a probe. So only a probe that fails has to be examined for being a lookup.
static LOOKUP: u64 = u64::MAX;

fn lookup_address() -> usize {
    &raw const LOOKUP as usize
}

/// The dict at this address has this object under the key; 0 means that it does not have the key.
#[derive(Debug, PartialEq, Eq, Hash, Clone, Copy)]
struct DictItem {
    dict: usize,
    key: usize,
    is: usize,
}

/// The first difference to a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// The root of this index is another object.
    Root(usize),
    /// The probe of this index differs (see [`Recorder::len`]).
    Probe(usize),
}

impl Snapshot {
    /// Compares all memory. Returns the wanted objects, in the order in which they were requested.
    #[inline]
    pub fn check<'py>(&self, py: Python<'py>, roots: &[Bound<'py, PyAny>]) -> Result<Objects<'py>, Changed> {
        for (at, (root, was)) in roots.iter().zip(&self.roots).enumerate() {
            if root.as_ptr() as usize != *was {
                return Err(Changed::Root(at));
            }
        }
        if roots.len() != self.roots.len() {
            return Err(Changed::Root(roots.len()));
        }
        // SAFETY: the roots are alive.
        if let Some(at) = unsafe { self.first_changed() } {
            return Err(Changed::Probe(at));
        }
        let mut wanted = Objects::new();
        for at in &self.wanted {
            // SAFETY: all probes have held, and nothing has run since: the objects are referred to from the roots.
            wanted.push(unsafe { Bound::from_borrowed_ptr(py, *at as *mut ffi::PyObject) });
        }
        Ok(wanted)
    }

    /// True if all memory is unchanged, for a snapshot without roots and without wanted objects.
    #[inline]
    pub fn holds(&self, _: Python<'_>) -> bool {
        // SAFETY: the token says that the GIL is held; without roots the way begins at objects that are kept alive.
        self.roots.is_empty() && unsafe { self.first_changed() }.is_none()
    }

    /// Index of the first probe that fails. Probes are compared in order, several in each iteration of the loop.
    ///
    /// # Safety
    /// The roots are alive, and the GIL is held.
    #[inline]
    unsafe fn first_changed(&self) -> Option<usize> {
        const AT_ONCE: usize = 8;
        let turns = self.probes.chunks_exact(AT_ONCE);
        let rest = turns.remainder();
        // SAFETY: guaranteed by the caller; the probes before each one have found their way to it from the roots.
        let changed = |probes: &[Probe]| probes.iter().position(|probe| !unsafe { probe.holds(&self.items) });
        for (turn, probes) in turns.enumerate() {
            let Ok(probes) = <&[Probe; AT_ONCE]>::try_from(probes) else { continue };
            if let Some(at) = changed(probes) {
                return Some(turn * AT_ONCE + at);
            }
        }
        changed(rest).map(|at| self.probes.len() - rest.len() + at)
    }

    /// Number of comparisons.
    pub fn len(&self) -> usize {
        self.roots.len() + self.probes.len()
    }

    /// True if there is nothing to compare.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Probe {
    /// True if the memory is unchanged.
    ///
    /// # Safety
    /// The memory looked at is that of a live object of the kind it was recorded for, and the GIL is held.
    #[inline]
    unsafe fn holds(self, items: &[DictItem]) -> bool {
        // SAFETY: guaranteed by the caller.
        unsafe { *(self.at as *const u64) == self.is || self.is_lookup_that_holds(items) }
    }

    /// True if this stands for a lookup in a dict, with an unchanged result.
    ///
    /// # Safety
    /// As for [`Probe::holds`].
    #[cold]
    unsafe fn is_lookup_that_holds(self, items: &[DictItem]) -> bool {
        let item = (self.at == lookup_address()).then(|| items.get(self.is as usize)).flatten();
        // SAFETY: guaranteed by the caller: the object that a lookup looks at is its dict.
        item.is_some_and(|item| unsafe { item.holds() })
    }
}

impl DictItem {
    /// # Safety
    /// The dict is alive, and the GIL is held.
    unsafe fn holds(self) -> bool {
        let dict = self.dict as *mut ffi::PyObject;
        // SAFETY: guaranteed by the caller. A dict whose keys are all strings compares them without running code.
        unsafe {
            has_string_keys(dict.cast())
                && ffi::PyDict_GetItemWithError(dict, self.key as *mut ffi::PyObject) as usize == self.is
        }
    }
}

/// An object that is at the same address as long as all earlier probes hold.
#[derive(Debug, Clone)]
pub struct Place<'py> {
    object: Bound<'py, PyAny>,
    /// True if it is then also the same object, and not another one that reused the memory: the reference to it
    /// cannot have been written in between. This is so for entries protected by a version, because no version is used
    /// twice.
    is_same: bool,
}

impl<'py> Place<'py> {
    fn of(object: Bound<'py, PyAny>) -> Self {
        Place { object, is_same: false }
    }

    fn same(object: Bound<'py, PyAny>) -> Self {
        Place { object, is_same: true }
    }

    /// The interpreter token.
    pub fn py(&self) -> Python<'py> {
        self.object.py()
    }

    /// True if the object is a dict or of a subclass.
    pub fn is_dict(&self) -> bool {
        self.object.is_instance_of::<PyDict>()
    }

    fn address(&self) -> usize {
        self.object.as_ptr() as usize
    }
}

/// The C++ object of the Python object in a place.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedPlace<'a>(EmbeddedObject<'a>);

/// How an entry of a dict is known to be unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// By the dict's version, which any write to the dict changes.
    Version,
    /// By looking up the key.
    Lookup,
}

const _: () = assert!(size_of::<usize>() == size_of::<u64>());
