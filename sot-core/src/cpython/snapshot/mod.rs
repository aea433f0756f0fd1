//! The memory that guards rest on, as it was when they held: if every word of it is the same, they hold again. A dict
//! that was not written to has its version, a type its own; what an object refers to is a pointer in it.
//!
//! An address is looked at only after what was looked at before has shown that the object is there: it is referred to
//! by one that is, from the roots on. [`Place`] stands for that, and only a [`Recorder`] makes one. Nothing but
//! comparisons runs in between, so nothing can go away. An object whose memory was given to another meanwhile is no
//! danger, as all that was found in it is looked at again; what was not looked into is kept alive.

mod blind_spot;
mod layout;
mod recorder;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use smallvec::SmallVec;

use crate::cpython::objects::embedded::Held;

pub use blind_spot::blind_spot;
pub(super) use blind_spot::look_for_blind_spots;
use layout::has_string_keys;
pub use recorder::Recorder;

/// A few objects, in most calls without memory of their own.
pub type Objects<'py> = SmallVec<[Bound<'py, PyAny>; 8]>;

/// What memory must be for guards to hold.
#[derive(Debug)]
pub struct Snapshot {
    roots: Vec<usize>,
    probes: Vec<Probe>,
    items: Vec<DictItem>,
    wanted: Vec<usize>,
    _kept: Vec<Py<PyAny>>,
}

/// A comparison. There are hundreds, in memory that is cold when the next call comes: they are kept small.
#[derive(Debug, PartialEq, Eq, Hash, Clone, Copy)]
struct Probe {
    /// The address of a word, or that of [`LOOK`] for a look into a dict.
    at: usize,
    /// What the word is, or the number of the look.
    is: u64,
}

/// Never is what a probe wants it to be, so that only what differs need be asked whether it is a look.
static LOOK: u64 = u64::MAX;

fn look_address() -> usize {
    &raw const LOOK as usize
}

/// The dict at this address has this object under the key, or with 0 no such key.
#[derive(Debug, PartialEq, Eq, Hash, Clone, Copy)]
struct DictItem {
    dict: usize,
    key: usize,
    is: usize,
}

/// What is not as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// The root of this index is another object.
    Root(usize),
    /// What was recorded at this position (see [`Recorder::len`]).
    Probe(usize),
}

impl Snapshot {
    /// Looks whether all is as it was; the objects wanted, in the order asked for.
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

    /// Whether all is as it was, of a snapshot without roots and without objects asked for.
    #[inline]
    pub fn holds(&self, _: Python<'_>) -> bool {
        // SAFETY: the token says that the GIL is held; without roots the way begins at objects that are kept alive.
        self.roots.is_empty() && unsafe { self.first_changed() }.is_none()
    }

    /// The first comparison that does not hold. Several are made in each turn of the loop, one after the other.
    ///
    /// # Safety
    /// The roots are alive, and the GIL is held.
    #[inline]
    unsafe fn first_changed(&self) -> Option<usize> {
        const AT_ONCE: usize = 8;
        let turns = self.probes.chunks_exact(AT_ONCE);
        let rest = turns.remainder();
        // SAFETY: the caller's promise; the probes before each one have found their way to it from the roots.
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

    /// Whether there is nothing to compare.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Probe {
    /// Whether all is as it was.
    ///
    /// # Safety
    /// The memory looked at is that of a live object of the kind it was recorded for, and the GIL is held.
    #[inline]
    unsafe fn holds(self, items: &[DictItem]) -> bool {
        // SAFETY: the caller's promise.
        unsafe { *(self.at as *const u64) == self.is || self.is_look_that_holds(items) }
    }

    #[cold]
    unsafe fn is_look_that_holds(self, items: &[DictItem]) -> bool {
        let item = (self.at == look_address()).then(|| items.get(self.is as usize)).flatten();
        // SAFETY: the promise of the caller of `holds`.
        item.is_some_and(|item| unsafe { item.holds() })
    }
}

impl DictItem {
    /// # Safety
    /// The dict is alive, and the GIL is held.
    unsafe fn holds(self) -> bool {
        let dict = self.dict as *mut ffi::PyObject;
        // SAFETY: the caller's promise. A dict whose keys are all strings compares them without running code.
        unsafe {
            has_string_keys(dict.cast())
                && ffi::PyDict_GetItemWithError(dict, self.key as *mut ffi::PyObject) as usize == self.is
        }
    }
}

/// An object that is where it was as long as all that was recorded before is as it was.
#[derive(Debug, Clone)]
pub struct Place<'py> {
    object: Bound<'py, PyAny>,
    /// It is then the very object that was recorded, and no other one that was given its memory: what refers to it has
    /// not changed in between. So are versions, which are never given twice.
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

    /// Whether it is a dict, or of a type derived from it.
    pub fn is_dict(&self) -> bool {
        self.object.is_instance_of::<PyDict>()
    }

    fn address(&self) -> usize {
        self.object.as_ptr() as usize
    }
}

/// The C++ object of an object that is in a place.
#[derive(Debug, Clone, Copy)]
pub struct HeldPlace<'a>(Held<'a>);

/// How what is in a dict is told to be unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// By the version, which any write to the dict changes.
    Version,
    /// By looking the key up.
    Lookup,
}

const _: () = assert!(size_of::<usize>() == size_of::<u64>());
