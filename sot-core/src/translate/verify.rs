//! Verify mode: the outermost frame that the user asked for is handed to a callable, which runs it both untranslated
//! and translated. How it runs and compares them is not known here.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyList, PyTuple};

use super::whole_program;
use crate::cache::CodeCache;
use crate::cpython::{self, FreshFrame, Verdict};
use crate::machine::runtime::Runtime;
use crate::{report, stats};

static IS_ON: AtomicBool = AtomicBool::new(false);
static VERIFIER: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

thread_local! {
    /// True if a frame below on the stack is being verified.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Sets the callable that verifies frames; `None` ends verify mode. The callable is given the code, globals, function
/// (`None` up to 3.10), cells and arguments of a frame. It returns the code object that runs in its place, or `None`.
pub fn set_verifier(verifier: Option<Py<PyAny>>) {
    IS_ON.store(verifier.is_some(), Ordering::Relaxed);
    let before = std::mem::replace(&mut *lock(), verifier);
    // Dropping the callable may run code of the program, so the lock must not be held.
    drop(before);
}

/// Calls `callable` with its frames translated, none of which is verified.
pub fn call_verified<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, pyo3::types::PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _busy = VerificationPaused::begin();
    let active = cpython::enter(callable.py());
    let _active = active.map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))?;
    callable.call(args, kwargs)
}

/// Like [`call_verified`], for a repeated run whose first run was counted: stats and reports count none of its calls.
pub fn call_uncounted<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, pyo3::types::PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    report::keep_counts(|| stats::keep_hits(|| call_verified(callable, args, kwargs)))
}

/// Counts a verified call and whether it showed a difference, or the reason for which it was not verified.
pub fn count_call(differs: bool, not_verified: Option<String>) {
    stats::update(|stats| match not_verified {
        Some(reason) => *stats.not_verified.entry(reason).or_default() += 1,
        None => {
            stats.verified += 1;
            stats.differences += u64::from(differs);
        }
    });
}

/// Returns the verdict on a frame that is to be verified.
#[inline]
pub(super) fn verdict(runtime: &Runtime, cache: &CodeCache, frame: &FreshFrame<'_, '_>) -> Option<Verdict> {
    if IS_ON.load(Ordering::Relaxed) && !IS_BUSY.get() {
        hand_over(runtime, cache, frame)
    } else {
        None
    }
}

#[cold]
fn hand_over(runtime: &Runtime, cache: &CodeCache, frame: &FreshFrame<'_, '_>) -> Option<Verdict> {
    if !cache.directives.is_root() && !whole_program::is_wanted(runtime, cache, frame) {
        return None;
    }
    let py = frame.py();
    let verifier = lock().as_ref()?.clone_ref(py);
    let _busy = VerificationPaused::begin();
    let _quiet = cpython::suspend(py);
    let function: Option<Bound<'_, PyFunction>> = frame.function();
    let cells = PyTuple::new(py, (0..frame.closure_len()).map(|i| frame.closure(i)));
    let args: Option<Vec<_>> = (0..frame.arg_count()).map(|slot| frame.arg(slot)).collect();
    let (Ok(cells), Some(Ok(args))) = (cells, args.map(|args| PyList::new(py, args))) else {
        count_call(false, Some("the arguments of the frame cannot be read".to_owned()));
        return None;
    };
    let given = (&*frame.code(), &*frame.globals(), function, cells, args);
    match verifier.bind(py).call1(given) {
        Ok(code) if code.is_none() => None,
        Ok(code) => Some(Verdict::Replace { code: code.unbind(), disable_eval_frame: true }),
        Err(error) => Some(Verdict::Raise(error)),
    }
}

fn lock() -> parking_lot::MutexGuard<'static, Option<Py<PyAny>>> {
    VERIFIER.lock()
}

/// A period in which no frame of the thread is verified.
struct VerificationPaused {
    before: bool,
}

impl VerificationPaused {
    fn begin() -> Self {
        VerificationPaused { before: IS_BUSY.replace(true) }
    }
}

impl Drop for VerificationPaused {
    fn drop(&mut self) {
        IS_BUSY.set(self.before);
    }
}
