//! One translation of a code object: its guards, its new code, and its number of uses.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use rustc_hash::FxHashSet;

use crate::cpython::{self, CallTimes, FreshFrame};
use crate::guard::{FrameView, GuardProgram, Identity};
use crate::policy::HITS_WITHOUT_TENSORS;
use crate::report::CountsUses;

/// One translation, which is valid while its guards hold.
pub struct CacheEntry {
    pub(super) guards: GuardProgram,
    code: Option<Py<PyAny>>,
    /// True if functions called by the new code run without the tracer.
    pub disable_eval_frame: bool,
    /// Fallback entry, tried last: it does not assume a number that the other entries specialise on.
    pub comes_last: bool,
    pub(super) left: LeftToCPython,
    /// True if this entry replaces the entries that have never been hit, because it serves the same frames.
    pub(super) replaces_unused: bool,
    /// The models among the arguments of the frame that the entry was made for, with their slots.
    models: Box<[(usize, Identity)]>,
    gain: Gain,
    /// True if frames are left to CPython although there is new code, since nothing is won by it.
    is_given_back: AtomicBool,
    /// Number of hits. An atomic addition is not needed under the GIL.
    uses: AtomicU64,
    /// Id of the translation, as in reports.
    pub(super) id: u64,
    /// Number of frames it has left to CPython.
    pub(super) left_frames: AtomicU32,
    /// Sorted addresses of the objects that the trace called or looked at; `None`: any object.
    met: Option<Box<[usize]>>,
}

/// What is gained by new code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Gain {
    /// Graphs, or those of a function that is called in it may come.
    Graphs,
    /// The trace met no tensor, and ended in the function itself: only a resume function of it may have graphs.
    InResumeFunctions,
}

/// The part of a frame that an entry leaves to CPython.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftToCPython {
    Nothing,
    /// What a graph break or fallback leaves.
    Some,
    /// The rest of a loop iteration.
    Round,
}

impl CacheEntry {
    /// Makes an entry that has not been used.
    pub fn new(guards: GuardProgram, code: Option<Py<PyAny>>, disable_eval_frame: bool, comes_last: bool) -> Self {
        CacheEntry {
            guards,
            code,
            disable_eval_frame,
            comes_last,
            left: LeftToCPython::Some,
            replaces_unused: false,
            models: Box::default(),
            gain: Gain::Graphs,
            is_given_back: AtomicBool::new(false),
            uses: AtomicU64::new(0),
            id: 0,
            left_frames: AtomicU32::new(0),
            met: None,
        }
    }

    /// Sets the addresses of the objects that the trace met.
    #[must_use]
    pub fn having_met(self, objects: impl IntoIterator<Item = usize>) -> Self {
        let mut met: Box<[usize]> = objects.into_iter().collect();
        met.sort_unstable();
        CacheEntry { met: Some(met), ..self }
    }

    pub(super) fn has_met(&self, objects: &FxHashSet<usize>) -> bool {
        let among = |met: &[usize]| objects.iter().any(|object| met.binary_search(object).is_ok());
        self.met.as_deref().is_none_or(among)
    }

    /// Sets whether the entry leaves nothing of the frame to CPython.
    #[must_use]
    pub fn whole(self, is_whole: bool) -> Self {
        CacheEntry { left: if is_whole { LeftToCPython::Nothing } else { LeftToCPython::Some }, ..self }
    }

    /// Sets whether the entry replaces those that have never been hit, because it serves all values and each of them
    /// only one.
    #[must_use]
    pub fn replacing(self, unused: bool) -> Self {
        CacheEntry { replaces_unused: unused, ..self }
    }

    /// Sets the models among the arguments of the frame that the entry is made for. `is_model` is true for an object
    /// that holds tensors.
    #[must_use]
    pub fn of_models_in<'py>(
        self,
        frame: &FreshFrame<'_, 'py>,
        is_model: &impl Fn(&Bound<'py, PyAny>) -> bool,
    ) -> Self {
        let models = (0..frame.arg_count()).filter_map(|slot| {
            let model = frame.arg(slot).filter(|object| cpython::supports_weakref(object) && is_model(object))?;
            Some((slot, Identity::of(&model)))
        });
        CacheEntry { models: models.collect(), ..self }
    }

    /// True if the frames that the entry serves occur again besides this one: those of another model that is alive, or
    /// those for which something else differs that a program has only few of. `lasts` is true for an object that
    /// outlives a call.
    pub(super) fn is_for_other_objects<'py>(
        &self,
        frame: &impl FrameView<'py>,
        lasts: &impl Fn(&Bound<'py, PyAny>) -> bool,
    ) -> bool {
        self.is_for_another_model(frame, lasts) || self.guards.fails_on_rare_difference(frame, lasts)
    }

    fn is_for_another_model<'py>(
        &self,
        frame: &impl FrameView<'py>,
        lasts: &impl Fn(&Bound<'py, PyAny>) -> bool,
    ) -> bool {
        self.models.iter().any(|(slot, model)| {
            model.is_alive(frame.py())
                && frame.argument(*slot).is_some_and(|object| !model.is(&object) && lasts(&object))
        })
    }

    /// Sets what is gained by the new code.
    #[must_use]
    pub fn with_gain(self, gain: Gain) -> Self {
        CacheEntry { gain, ..self }
    }

    /// Returns the new code; `None` leaves the frame to CPython.
    #[inline]
    pub fn code(&self) -> Option<&Py<PyAny>> {
        self.code.as_ref().filter(|_| !self.is_given_back.load(Ordering::Relaxed))
    }

    /// True if it is time to ask whether the new code of a translation without tensors wins anything.
    #[inline]
    pub(super) fn is_in_question(&self) -> bool {
        self.gain == Gain::InResumeFunctions && self.uses.load(Ordering::Relaxed) == HITS_WITHOUT_TENSORS
    }

    /// Leaves the frames to CPython from now on.
    pub(super) fn give_back(&self) {
        self.is_given_back.store(true, Ordering::Relaxed);
    }

    /// Sets the id of the translation.
    #[must_use]
    pub fn of_translation(self, id: u64) -> Self {
        CacheEntry { id, ..self }
    }

    /// Number of steps of the guard program.
    pub fn guard_steps(&self) -> usize {
        self.guards.len()
    }

    /// Measures how long the guards take on a frame. Returns the shortest of three checks, because memory that is
    /// read the first time is slower.
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

    /// Makes an entry that leaves the rest of a loop iteration to CPython, with this code. Without code, it leaves the
    /// rest of the function.
    pub fn leaving_round(guards: GuardProgram, code: Option<Py<PyAny>>) -> Self {
        CacheEntry { left: LeftToCPython::Round, ..CacheEntry::new(guards, code, false, true) }
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
