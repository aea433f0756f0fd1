//! Frames that are left to CPython with all the functions they call. From 3.11 on, CPython calls Python functions
//! without a new C evaluation loop, but only while its own evaluator is in the slot. So the slot is given back while
//! calm code runs: code below whose frames the evaluator has found nothing to do several times in a row. From time to
//! time the frames below it are checked again.

use std::cell::Cell;
use std::ptr::NonNull;

use pyo3::ffi;

use crate::cpython::hook::code_state::{give_back, read, Head};
use crate::cpython::hook::session::Sleep;
use crate::cpython::hook::{run, signals, Mode, Thread};
use crate::cpython::layout::Frame;

/// Limits for code that the evaluator is not asked about.
const CALM: CalmLimits = CalmLimits { after: 64, again: 64, frames: 1 };
/// Limits for code that the evaluator is asked about each time. Many frames have to be called below it to make this
/// worthwhile.
const CALM_THOUGH_ASKED: CalmLimits = CalmLimits { after: 2, again: 8, frames: 10_000 };

/// When code is calm, so that the slot is CPython's while its frames run: after `after` frames in a row below which
/// the evaluator found nothing to do.
struct CalmLimits {
    after: u32,
    /// Every frame whose count is a multiple of this number is checked again.
    again: u32,
    /// Minimum number of frames called below it for a frame to count.
    frames: u64,
}

/// Knowledge about the frames that frames of one code object call.
#[derive(Default)]
pub(in crate::cpython) struct Calm {
    /// Number of its frames in a row below which the evaluator found nothing to do.
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

/// Returns the state of a frame's code, if the evaluator need not be asked about the frame.
///
/// # Safety
/// The GIL is held, and the frame is alive.
#[inline]
pub(in crate::cpython) unsafe fn left_alone(frame: *mut Frame) -> Option<*const Head> {
    // SAFETY: guaranteed by the caller; an entry is alive while the code refers to it.
    unsafe {
        let head: *const Head = read((*frame).code)?.as_ptr();
        (*head).leaves_alone().then_some(head)
    }
}

/// Runs a frame that the evaluator is not asked about.
///
/// # Safety
/// Called as CPython calls an evaluator, with the result of [`left_alone`].
#[inline]
pub(in crate::cpython) unsafe fn leave(
    thread: &Thread,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    head: *const Head,
) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller.
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
    // SAFETY: guaranteed by the caller; the frame's code is alive until it runs.
    unsafe {
        match read((*frame).code) {
            Some(head) => run_and_learn(thread, ts, frame, head.as_ptr(), &CALM_THOUGH_ASKED),
            None => run(ts, frame, 0),
        }
    }
}

/// Runs a frame that is left to CPython together with all the frames it calls.
///
/// # Safety
/// Called as CPython calls an evaluator, in a mode in which frames do not go to the evaluator.
pub(in crate::cpython) unsafe fn leave_with_callees(
    thread: &Thread,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let sleep = Sleep::begin(thread);
        let result = run(ts, frame, 0);
        sleep.end();
        result
    }
}

/// Runs a frame, and notes whether the evaluator found something to do below it.
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
    // SAFETY: guaranteed by the caller. The code may die with its frame, so the state is held until it has been
    // written to.
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
