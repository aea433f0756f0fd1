//! The lock of translation. Frameworks build graphs in process-wide state, so one translation is made at a time.

use std::cell::Cell;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::cpython;
use crate::progress;
use crate::stats;

static TRANSLATING: Mutex<()> = Mutex::new(());

thread_local! {
    // A destructor or weak reference callback may call translated code while this thread translates.
    static TRANSLATING_HERE: Cell<bool> = const { Cell::new(false) };
}

/// True if this thread is translating.
pub(super) fn is_here() -> bool {
    TRANSLATING_HERE.with(Cell::get)
}

/// Waits until no other thread translates. Releases the GIL meanwhile.
pub(super) fn wait(py: Python<'_>) -> MutexGuard<'static, ()> {
    TRANSLATING.lock_py_attached(py)
}

/// Runs `work`, which compiles part of an earlier translation, once no other thread translates. Returns `None`
/// without running it if this thread is translating.
pub fn compile_later<T>(py: Python<'_>, work: impl FnOnce() -> T) -> Option<T> {
    if is_here() {
        return None;
    }
    let _one_at_a_time = wait(py);
    let (_here, _quiet) = (TranslatingHere::new(), cpython::suspend(py));
    let (_signals, _exceptions) = (cpython::defer_signals(py), cpython::hold_exceptions(py));
    let watched = progress::begin("a graph that has run");
    progress::phase(py, "compile");
    let start = Instant::now();
    let result = work();
    drop(watched);
    stats::update(|stats| *stats.seconds.entry("compile").or_default() += start.elapsed().as_secs_f64());
    Some(result)
}

/// Marks this thread as translating while this value lives.
pub(super) struct TranslatingHere;

impl TranslatingHere {
    pub(super) fn new() -> Self {
        TRANSLATING_HERE.with(|here| here.set(true));
        TranslatingHere
    }
}

impl Drop for TranslatingHere {
    fn drop(&mut self) {
        TRANSLATING_HERE.with(|here| here.set(false));
    }
}
