//! The lock of translation. Frameworks build graphs in process-wide state, so one translation is made at a time.

use std::cell::Cell;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::cpython;
use crate::progress;
use crate::report::{self, LaterReport};
use crate::stats;

static TRANSLATING: Mutex<()> = Mutex::new(());

thread_local! {
    // The number of the translation that this thread makes. A destructor or weak reference callback may call
    // translated code meanwhile.
    static TRANSLATING_HERE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// True if this thread is translating.
pub(super) fn is_here() -> bool {
    here().is_some()
}

/// The number of the translation that this thread makes, by which reports refer to it.
pub fn here() -> Option<u64> {
    TRANSLATING_HERE.with(Cell::get)
}

/// Waits until no other thread translates. Releases the GIL meanwhile.
pub(super) fn wait(py: Python<'_>) -> MutexGuard<'static, ()> {
    TRANSLATING.lock_py_attached(py)
}

/// Runs `work`, which compiles a graph of the translation with this number, once no other thread translates. Returns
/// `None` without running it if this thread is translating.
pub fn compile_later<T>(py: Python<'_>, translation: u64, work: impl FnOnce() -> T) -> Option<T> {
    if is_here() {
        return None;
    }
    let _one_at_a_time = wait(py);
    let (_here, _quiet) = (TranslatingHere::of(translation), cpython::suspend(py));
    let (_signals, _exceptions) = (cpython::defer_signals(py), cpython::hold_exceptions(py));
    let watched = progress::begin("a graph that has run");
    progress::phase(py, "compile");
    let (start, began) = (Instant::now(), report::now());
    let result = work();
    drop(watched);
    let seconds = start.elapsed().as_secs_f64();
    stats::update(|stats| *stats.seconds.entry("compile").or_default() += seconds);
    report::compiled_later(translation, LaterReport { began, seconds });
    Some(result)
}

/// Marks this thread as making a translation while this value lives.
pub(super) struct TranslatingHere;

impl TranslatingHere {
    pub(super) fn of(translation: u64) -> Self {
        TRANSLATING_HERE.with(|here| here.set(Some(translation)));
        TranslatingHere
    }
}

impl Drop for TranslatingHere {
    fn drop(&mut self) {
        TRANSLATING_HERE.with(|here| here.set(None));
    }
}
