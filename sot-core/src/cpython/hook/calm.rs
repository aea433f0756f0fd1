//! Frames that are left to CPython with all that they call. From 3.11 on CPython calls functions without a new
//! evaluation loop, unless somebody is in the evaluation slot. So the slot is CPython's while a frame runs below which
//! the evaluator has found nothing to do for a while; each time that frames of the code have run so for a while, it is
//! looked again.

use std::cell::Cell;
use std::ptr::NonNull;

use pyo3::ffi;

use crate::cpython::hook::code_state::{give_back, read, Head};
use crate::cpython::hook::session::Sleep;
use crate::cpython::hook::{run, signals, Mode, Thread};
use crate::cpython::layout::Frame;

/// After so many frames of one code object below which nothing was found, the slot is CPython's while they run.
const CALM: CalmLimits = CalmLimits { after: 64, again: 64, frames: 1 };
/// The same where the evaluator has to be asked about the frame itself. Much must have been called in it.
const CALM_THOUGH_ASKED: CalmLimits = CalmLimits { after: 2, again: 8, frames: 10_000 };

/// How soon frames are calm.
struct CalmLimits {
    after: u32,
    /// Every so many frames are looked at all the same.
    again: u32,
    /// So many frames must have been called below.
    frames: u64,
}

/// What is known of the frames that those of one code object call.
#[derive(Default)]
pub(in crate::cpython) struct Calm {
    /// How many of its frames in a row have called none that the evaluator had something for.
    calm: Cell<u32>,
}

impl Calm {
    #[inline]
    fn is_calm(&self, patience: &CalmLimits) -> bool {
        let calm = self.calm.get();
        calm >= patience.after && calm % patience.again != 0
    }

    #[inline]
    fn note(&self, is_calm: bool) {
        self.calm.set(if is_calm { self.calm.get().wrapping_add(1) } else { 0 });
    }
}

/// The state of a frame's code, if the frame is left to CPython without a question.
///
/// # Safety
/// The GIL is held, and the frame is alive.
#[inline]
pub(in crate::cpython) unsafe fn left_alone(frame: *mut Frame) -> Option<*const Head> {
    // SAFETY: the caller's promise; an entry is alive while the code refers to it.
    unsafe {
        let head: *const Head = read((*frame).code)?.as_ptr();
        (*head).leaves_alone().then_some(head)
    }
}

/// Runs a frame that the evaluator is not asked about.
///
/// # Safety
/// Called as CPython calls an evaluator, with what [`left_alone`] has found.
#[inline]
pub(in crate::cpython) unsafe fn leave(
    thread: &Thread,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    head: *const Head,
) -> *mut ffi::PyObject {
    // SAFETY: the caller's promise.
    let result = unsafe { run_and_learn(thread, ts, frame, head, &CALM) };
    if result.is_null() {
        signals::release_held();
    }
    result
}

/// Runs a frame that the evaluator has left to CPython.
///
/// # Safety
/// Called as CPython calls an evaluator.
pub(in crate::cpython) unsafe fn leave_asked(
    thread: &Thread,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
) -> *mut ffi::PyObject {
    // SAFETY: the caller's promise; the frame's code is alive until it runs.
    unsafe {
        match read((*frame).code) {
            Some(head) => run_and_learn(thread, ts, frame, head.as_ptr(), &CALM_THOUGH_ASKED),
            None => run(ts, frame, 0),
        }
    }
}

/// Runs a frame with which all that it calls is left to CPython.
///
/// # Safety
/// Called as CPython calls an evaluator; the mode says that frames are not looked at.
pub(in crate::cpython) unsafe fn leave_with_callees(
    thread: &Thread,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
) -> *mut ffi::PyObject {
    // SAFETY: the caller's promise.
    unsafe {
        let sleep = Sleep::begin(thread);
        let result = run(ts, frame, 0);
        sleep.end();
        result
    }
}

/// Runs a frame, and notes whether the evaluator had something for others meanwhile.
///
/// # Safety
/// Called as CPython calls an evaluator; `head` is the state of the frame's code.
#[inline]
unsafe fn run_and_learn(
    thread: &Thread,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    head: *const Head,
    patience: &CalmLimits,
) -> *mut ffi::PyObject {
    // SAFETY: the caller's promise. The code may die with its frame: the state is held until it has been written to.
    unsafe {
        (*head).hold();
        let calm = &(*head).calm;
        let result = if calm.is_calm(patience) {
            thread.mode.set(Mode::Suspended);
            let result = leave_with_callees(thread, ts, frame);
            thread.mode.set(Mode::Active);
            calm.note(true);
            result
        } else {
            let (found, frames) = (thread.found.get(), thread.frames.get());
            let result = run(ts, frame, 0);
            if thread.found.get() != found {
                calm.note(false);
            } else if thread.frames.get().wrapping_sub(frames) >= patience.frames {
                calm.note(true);
            }
            result
        };
        give_back(NonNull::new_unchecked(head.cast_mut()));
        result
    }
}
