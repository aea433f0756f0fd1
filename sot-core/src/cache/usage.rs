//! What translations of one code object have cost and brought so far.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use crate::policy::{MAX_EMPTY, MAX_FILLING, MAX_GIVEN_WAY};
use crate::settling::Settling;

/// The hits and the translations of one code object.
#[derive(Default)]
pub struct Usage {
    /// Frames that ran a translation, since [`Usage::settling`] was last called.
    hits: AtomicU64,
    settling: Mutex<Option<Arc<Settling>>>,
    /// Number of translations that found nothing to compile.
    empty: AtomicU32,
    /// Number of traces that were given up because a signal waits.
    gave_way: AtomicU32,
    /// Number of calls that were left to CPython so that they fill the program's caches.
    filling: AtomicU32,
    /// Number of calls in which a graph raised though the program does not.
    graph_errors: AtomicU32,
    /// Number of translations of a resume function.
    translations: AtomicU32,
    /// For each translation the resume functions that the frame began with calls of, as hashes.
    translated_with: Mutex<FxHashSet<Box<[u64]>>>,
    met_tensors: AtomicBool,
    /// True if a translation ended within a function that was called, whose resume functions may meet tensors.
    ended_in_call: AtomicBool,
}

impl Usage {
    /// Counts a frame that ran a translation.
    #[inline]
    pub(super) fn note_hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the account of translations and hits, with the hits since the last call added; `make` makes it at the
    /// first call.
    pub fn settling(&self, make: impl FnOnce() -> Arc<Settling>) -> Arc<Settling> {
        let settling = Arc::clone(self.settling.lock().get_or_insert_with(make));
        settling.note_hits(self.hits.swap(0, Ordering::Relaxed));
        settling
    }

    /// Gives up an account that is shared with other code of the same source.
    pub(super) fn leave_shared_account(&self) {
        self.settling.lock().take_if(|settling| settling.is_shared_by_source());
    }

    /// Notes that a translation of the code has met tensors.
    pub fn note_tensors(&self) {
        self.met_tensors.store(true, Ordering::Relaxed);
    }

    /// True if a translation of the code has met tensors.
    pub(super) fn has_met_tensors(&self) -> bool {
        self.met_tensors.load(Ordering::Relaxed)
    }

    /// Notes that a translation ended within a function that was called.
    pub fn note_end_in_call(&self) {
        self.ended_in_call.store(true, Ordering::Relaxed);
    }

    /// True if a translation of the code, or a resume function of a function that it calls, may have met tensors.
    pub(super) fn may_have_met_tensors(&self) -> bool {
        self.has_met_tensors() || self.ended_in_call.load(Ordering::Relaxed)
    }

    /// Notes that a resume function was translated for a frame that begins with calls of these others, as hashes.
    /// Returns whether that is the first one.
    pub fn note_translated(&self, called_first: Box<[u64]>) -> bool {
        self.translations.fetch_add(1, Ordering::Relaxed);
        self.translated_with.lock().insert(called_first)
    }

    /// Number of translations of a resume function. Those count whose entries are gone because an object has died, too.
    pub fn translations(&self) -> u32 {
        self.translations.load(Ordering::Relaxed)
    }

    /// True if a resume function was translated for a frame that begins with calls of these others.
    pub fn was_translated(&self, called_first: &[u64]) -> bool {
        self.translated_with.lock().contains(called_first)
    }

    /// Counts a translation that found nothing to compile. Returns whether there were too many.
    pub(super) fn note_empty(&self) -> bool {
        self.empty.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_EMPTY
    }

    /// Counts a trace that was given up because a signal waits.
    pub fn give_way(&self) {
        self.gave_way.fetch_add(1, Ordering::Relaxed);
    }

    /// True if a trace of the code is still given up when a signal waits. Otherwise a program with a signal every few
    /// moments would never complete a translation.
    pub fn gives_way(&self) -> bool {
        self.gave_way.load(Ordering::Relaxed) < MAX_GIVEN_WAY
    }

    /// Counts a call that is left to CPython so that it fills the program's caches.
    pub fn note_filling(&self) {
        self.filling.fetch_add(1, Ordering::Relaxed);
    }

    /// True if calls of the code are still left to CPython so that they fill the program's caches. Otherwise a program
    /// with another key at each call would never complete a translation.
    pub fn awaits_filling(&self) -> bool {
        self.filling.load(Ordering::Relaxed) < MAX_FILLING
    }

    /// Counts a call in which a graph raised though the program does not, and returns the number of such calls.
    pub(super) fn count_graph_error(&self) -> u32 {
        self.graph_errors.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Begins to count anew.
    pub(super) fn forget_graph_errors(&self) {
        self.graph_errors.store(0, Ordering::Relaxed);
    }

    /// Forgets all but the traces that were given up for signals.
    pub(super) fn forget(&self) {
        self.empty.store(0, Ordering::Relaxed);
        self.filling.store(0, Ordering::Relaxed);
        self.graph_errors.store(0, Ordering::Relaxed);
        *self.settling.lock() = None;
        self.hits.store(0, Ordering::Relaxed);
        self.translations.store(0, Ordering::Relaxed);
        self.translated_with.lock().clear();
        self.met_tensors.store(false, Ordering::Relaxed);
        self.ended_in_call.store(false, Ordering::Relaxed);
    }
}
