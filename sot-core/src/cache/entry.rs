//! One translation of a code object: its guards, its new code, and how often it was used.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::cpython::{self, CallTimes};
use crate::guard::{FrameView, GuardProgram};
use crate::report::CountsUses;

/// One translation: valid while its guards hold.
pub struct CacheEntry {
    pub(super) guards: GuardProgram,
    /// The new code; `None` leaves the frame to CPython.
    pub code: Option<Py<PyAny>>,
    /// Whether functions called by the new code run without the tracer.
    pub disable_eval_frame: bool,
    /// Fallback entry, tried last: it does not assume a number that the other entries specialise on.
    pub comes_last: bool,
    pub(super) left: Left,
    /// Whether it serves what others do that have not been used again.
    pub(super) replaces_unused: bool,
    /// How often it was found; the GIL makes an atomic addition needless.
    uses: AtomicU64,
    /// The number of the translation it was made in.
    pub(super) id: u64,
    /// How many frames it has left to CPython.
    pub(super) left_frames: AtomicU32,
    /// The addresses of what the trace called and looked at, sorted; `None`: it may have been anything.
    met: Option<Box<[usize]>>,
}

/// What of a frame an entry leaves to CPython.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    /// What a break or fallback does.
    Some,
    /// The rest of a loop's round.
    Round,
}

impl CacheEntry {
    /// An entry.
    pub fn new(guards: GuardProgram, code: Option<Py<PyAny>>, disable_eval_frame: bool, comes_last: bool) -> Self {
        CacheEntry {
            guards,
            code,
            disable_eval_frame,
            comes_last,
            left: Left::Some,
            replaces_unused: false,
            uses: AtomicU64::new(0),
            id: 0,
            left_frames: AtomicU32::new(0),
            met: None,
        }
    }

    /// The entry of a trace that met the objects at these addresses.
    #[must_use]
    pub fn having_met(self, objects: impl IntoIterator<Item = usize>) -> Self {
        let mut met: Box<[usize]> = objects.into_iter().collect();
        met.sort_unstable();
        CacheEntry { met: Some(met), ..self }
    }

    pub(super) fn has_met(&self, objects: &HashSet<usize>) -> bool {
        let among = |met: &[usize]| objects.iter().any(|object| met.binary_search(object).is_ok());
        self.met.as_deref().is_none_or(among)
    }

    /// The entry of a frame of which nothing is left to CPython if `is_whole`.
    #[must_use]
    pub fn whole(self, is_whole: bool) -> Self {
        CacheEntry { left: if is_whole { Left::Nothing } else { Left::Some }, ..self }
    }

    /// One made for all values, in the place of those for single ones that have not been used again.
    #[must_use]
    pub fn replacing(self, unused: bool) -> Self {
        CacheEntry { replaces_unused: unused, ..self }
    }

    /// The entry of the translation of this number.
    #[must_use]
    pub fn of_translation(self, id: u64) -> Self {
        CacheEntry { id, ..self }
    }

    /// Number of steps of its guards.
    pub fn guard_steps(&self) -> usize {
        self.guards.len()
    }

    /// How long its guards take on a frame: the shortest of a few checks, as what is looked at the first time is
    /// slower.
    pub fn time_guards<'py>(&self, frame: &impl FrameView<'py>) -> Duration {
        let checked = || {
            let begun = Instant::now();
            self.guards.check(frame);
            begun.elapsed()
        };
        (0..3).map(|_| checked()).min().unwrap_or_default()
    }

    #[inline]
    pub(super) fn note_use(&self) {
        self.uses.store(self.uses.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(super) fn is_used(&self) -> bool {
        self.uses.load(Ordering::Relaxed) > 0
    }

    /// One that leaves the rest of a loop's round to CPython.
    pub fn leaving_round(guards: GuardProgram, code: Py<PyAny>) -> Self {
        CacheEntry { left: Left::Round, ..CacheEntry::new(guards, Some(code), false, true) }
    }
}

impl CountsUses for CacheEntry {
    fn uses(&self) -> u64 {
        self.uses.load(Ordering::Relaxed)
    }

    fn times(&self) -> CallTimes {
        self.code.as_ref().map(cpython::call_times).unwrap_or_default()
    }
}
