//! Frames that are left to CPython with all the functions they call. From 3.11 on, CPython calls Python functions
//! without a new C evaluation loop, but only while its own evaluator is in the slot. So the slot is given back while
//! idle code runs: code below whose frames the evaluator has found nothing to do several times in a row. From time to
//! time the frames below it are checked again.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::ffi;

use crate::cpython::hook::code_state::{give_back, read, CodeStateHeader};
use crate::cpython::hook::session::SlotReleased;
use crate::cpython::hook::{run, signals, Mode, Thread};
use crate::cpython::layout::Frame;

/// Limits for code that the evaluator is not asked about.
const IDLE: IdleLimits = IdleLimits { after: 64, again: 64, frames: 1 };
/// Limits for code that the evaluator is asked about each time. Many frames have to be called below it to make this
/// worthwhile.
const IDLE_THOUGH_ASKED: IdleLimits = IdleLimits { after: 2, again: 8, frames: 10_000 };

/// Maximum number of times that `after` is doubled for a code object.
const MAX_DOUBLINGS: u8 = 10;

/// When code is idle, so that the slot is CPython's while its frames run: after `after` frames in a row below which
/// the evaluator found nothing to do, and twice as many for each time that it did find something: library code that
/// calls the program's objects calls some with new code and many without.
struct IdleLimits {
    after: u32,
    /// Every frame whose count is a multiple of this number is checked again.
    again: u32,
    /// Minimum number of frames called below it for a frame to count.
    frames: u64,
}

/// Incremented when idle code may call code whose translation was requested since. Counts of earlier epochs are void.
static EPOCH: AtomicU32 = AtomicU32::new(0);

/// Makes the counts of all code objects begin anew. To be called when the translation of further code is requested,
/// which idle code may call.
pub fn forget_idle_code() {
    EPOCH.fetch_add(1, Ordering::Relaxed);
}

/// Knowledge about the frames that frames of one code object call.
#[derive(Default)]
pub(in crate::cpython) struct IdleCode {
    /// The epoch of `idle_frames`.
    epoch: Cell<u32>,
    /// Number of its frames in a row below which the evaluator found nothing to do.
    idle_frames: Cell<u32>,
    /// Number of its frames below which the evaluator found something to do; at most [`MAX_DOUBLINGS`] are counted.
    busy_frames: Cell<u8>,
}

impl IdleCode {
    #[inline]
    fn is_idle(&self, limits: &IdleLimits) -> bool {
        let epoch = EPOCH.load(Ordering::Relaxed);
        if self.epoch.replace(epoch) != epoch {
            self.idle_frames.set(0);
        }
        let frames = self.idle_frames.get();
        frames >= limits.after << self.busy_frames.get() && frames % limits.again != 0
    }

    #[inline]
    fn note(&self, is_idle: bool) {
        if is_idle {
            self.idle_frames.set(self.idle_frames.get().wrapping_add(1));
        } else {
            self.idle_frames.set(0);
            self.busy_frames.set(MAX_DOUBLINGS.min(self.busy_frames.get() + 1));
        }
    }
}

/// Returns the state of a frame's code, if the evaluator need not be asked about the frame.
///
/// # Safety
/// The GIL is held, and the frame is alive.
#[inline]
pub(in crate::cpython) unsafe fn left_alone(frame: *mut Frame) -> Option<*const CodeStateHeader> {
    // SAFETY: guaranteed by the caller; an entry is alive while the code refers to it.
    unsafe {
        let head: *const CodeStateHeader = read((*frame).code)?.as_ptr();
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
    head: *const CodeStateHeader,
) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller.
    let result = unsafe { run_and_learn(thread, ts, frame, head, &IDLE) };
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
            Some(head) => run_and_learn(thread, ts, frame, head.as_ptr(), &IDLE_THOUGH_ASKED),
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
        let sleep = SlotReleased::begin(thread);
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
    head: *const CodeStateHeader,
    limits: &IdleLimits,
) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller. The code may die with its frame, so the state is held until it has been
    // written to.
    unsafe {
        (*head).hold();
        let idle = &(*head).idle;
        let result = if idle.is_idle(limits) {
            thread.mode.set(Mode::Suspended);
            let result = leave_with_callees(thread, ts, frame);
            thread.mode.set(Mode::Active);
            idle.note(true);
            result
        } else {
            let (found, frames) = (thread.found.get(), thread.frames.get());
            let result = run(ts, frame, 0);
            if thread.found.get() != found {
                idle.note(false);
            } else if thread.frames.get().wrapping_sub(frames) >= limits.frames {
                idle.note(true);
            }
            result
        };
        give_back(NonNull::new_unchecked(head.cast_mut()));
        result
    }
}
