//! The function in CPython's frame evaluation slot. It leaves some frames to CPython at once, and follows the
//! evaluator's verdict on the others.
//!
//! While Python code runs above it, the hook keeps no Rust value with a destructor alive (except in the reference
//! method), because CPython before 3.14 ends daemon threads by unwinding them.

pub(super) mod c_stack;
pub(super) mod chain;
pub(super) mod code_state;
pub(super) mod errno;
#[cfg(Py_3_9)]
pub(super) mod eval_slot;
pub(super) mod fresh_frame;
pub(super) mod graph_call;
#[cfg(not(Py_3_11))]
pub(super) mod heap_frame;
pub(super) mod idle;
pub(super) mod peers;
pub(super) mod recursion;
pub(super) mod refused;
pub(super) mod replace;
pub(super) mod self_test;
pub(super) mod session;
pub(super) mod signals;
pub(super) mod signature;
#[cfg(Py_3_11)]
pub(super) mod stack_frame;
pub(super) mod thread_exceptions;
pub(super) mod times;
pub(super) mod tracing;

#[cfg(not(Py_3_11))]
pub(super) use heap_frame as frames;
#[cfg(Py_3_11)]
pub(super) use stack_frame as frames;

use std::any::Any;
use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::OnceLock;

use parking_lot::Mutex;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::hook::c_stack::Stack;
use crate::cpython::hook::fresh_frame::FreshFrame;
use crate::cpython::hook::refused::RefusedCode;
use crate::cpython::hook::session::HookError;
use crate::cpython::layout::{call_eval, default_eval, Code, EvalFrame, Frame};
use crate::cpython::objects::callable::FrameArguments;

/// The decision of an evaluator about a frame.
#[derive(Debug)]
pub enum Verdict {
    /// The frame runs its own code.
    Original {
        /// True if frames that this frame calls are not passed to the evaluator.
        disable_eval_frame: bool,
    },
    /// The frame runs this code, which takes all arguments positionally (see [`crate::cpython::flatten_signature`]).
    /// If the code does not fit the frame, it is counted in [`Counts::rejected`], and the frame runs its own code.
    Replace {
        /// The code object.
        code: Py<PyAny>,
        /// True if frames that this frame calls are not passed to the evaluator.
        disable_eval_frame: bool,
    },
    /// The call raises this exception.
    Raise(PyErr),
}

/// Decides which code a frame runs.
pub trait FrameEvaluator: Send + Sync {
    /// Returns the verdict on a frame that is about to run. Calls made by this method are not traced.
    fn evaluate(&self, frame: &FreshFrame<'_, '_>) -> Verdict;

    /// Returns the verdict after a panic of `evaluate`. If this method panics, too, the frame runs its own code.
    fn panicked(&self, frame: &FreshFrame<'_, '_>, text: &str) -> Verdict {
        let _ = (frame, text);
        Verdict::Original { disable_eval_frame: false }
    }
}

/// Sets the evaluator. It can be set only once.
pub fn set_evaluator(evaluator: &'static dyn FrameEvaluator) -> Result<(), HookError> {
    EVALUATOR.set(evaluator).map_err(|_| HookError::EvaluatorAlreadySet)
}

/// Counters of the hook, since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that ran other code directly: in place, or in a shadow frame.
    pub native: u64,
    /// Frames that ran other code through a function created for the call.
    pub called: u64,
    /// Verdicts whose code does not fit the frame.
    pub rejected: u64,
    /// Panics of the evaluator.
    pub panics: u64,
}

impl Counts {
    /// Number of frames that ran other code.
    pub fn replaced(&self) -> u64 {
        self.native + self.called
    }
}

/// Returns the counters of the hook.
pub fn counts() -> Counts {
    let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
    Counts {
        native: read(&TALLY.native),
        called: read(&TALLY.called),
        rejected: read(&TALLY.rejected),
        panics: read(&TALLY.panics),
    }
}

/// Number of panics of the evaluator.
pub fn panics() -> u64 {
    counts().panics
}

/// Message of the last panic of the evaluator.
pub fn last_panic() -> Option<String> {
    LAST_PANIC.lock().clone()
}

static EVALUATOR: OnceLock<&'static dyn FrameEvaluator> = OnceLock::new();
static LAST_PANIC: Mutex<Option<String>> = Mutex::new(None);
pub(in crate::cpython) static TALLY: Tally = Tally {
    native: AtomicU64::new(0),
    called: AtomicU64::new(0),
    rejected: AtomicU64::new(0),
    panics: AtomicU64::new(0),
};

/// The counters behind [`Counts`]; written only under the GIL.
pub(in crate::cpython) struct Tally {
    pub(in crate::cpython) native: AtomicU64,
    pub(in crate::cpython) called: AtomicU64,
    pub(in crate::cpython) rejected: AtomicU64,
    panics: AtomicU64,
}

impl Tally {
    /// Adds one, without the cost of an atomic addition, which is not needed under the GIL.
    #[inline]
    pub(in crate::cpython) fn bump(counter: &AtomicU64) {
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// True if an evaluator has been set.
pub(in crate::cpython) fn has_evaluator() -> bool {
    EVALUATOR.get().is_some()
}

/// What the hook does with the frames of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cpython) enum Mode {
    /// No section is open: frames go to the evaluator that was in the slot before.
    Outside,
    /// Frames go to the evaluator.
    Active,
    /// A section is open, but frames go to CPython.
    Suspended,
    /// Frames go to the evaluator of the self test.
    Probing,
}

/// The hook's state for one thread.
pub(in crate::cpython) struct Thread {
    pub(in crate::cpython) mode: Cell<Mode>,
    /// Code whose next frame runs unchanged, because the code is a replacement itself.
    pub(in crate::cpython) direct: Cell<*mut Code>,
    /// Arguments that the next frame is to own alone.
    given: Cell<*mut FrameArguments>,
    /// Address in the C stack below which no frame is run. 0 if the stack has not been measured, 1 if its limits are
    /// unknown.
    pub(in crate::cpython) stack_limit: Cell<usize>,
    pub(in crate::cpython) stack: Cell<Stack>,
    /// The frame that was passed on to the evaluator in the slot before ours.
    passed_on: Cell<*mut Frame>,
    /// Number of open scopes without tracing that no section ends.
    pub(in crate::cpython) disabled: Cell<usize>,
    /// Code that raises instead of running.
    pub(in crate::cpython) refused: Cell<*const RefusedCode>,
    /// Number of open sections of this thread.
    pub(in crate::cpython) open: Cell<usize>,
    /// Number of frames that reached the hook in the thread's sections.
    frames: Cell<u64>,
    /// Number of these frames that did not run their own code.
    found: Cell<u64>,
}

/// Gives arguments to the next frame of a code object. Returns the arguments given before.
pub(in crate::cpython) fn give(given: *mut FrameArguments) -> *mut FrameArguments {
    THREAD.with(|thread| thread.given.replace(given))
}

/// Drops the given arguments, which the frame now owns itself. Returns the frame that waits for this one; null if
/// none.
///
/// # Safety
/// `frame` was passed to the hook, and the given arguments are alive.
#[inline]
unsafe fn take_given(thread: *const Thread, frame: *mut Frame) -> *mut Frame {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let given = (*thread).given.get();
        if given.is_null() || (*given).code != (*frame).code {
            return null_mut();
        }
        (*thread).given.set(null_mut());
        (*given).drop_all();
        (*given).waiting
    }
}

thread_local! {
    pub(in crate::cpython) static THREAD: Thread = const {
        Thread {
            mode: Cell::new(Mode::Outside),
            direct: Cell::new(null_mut()),
            given: Cell::new(null_mut()),
            stack_limit: Cell::new(0),
            stack: Cell::new(Stack::UNKNOWN),
            passed_on: Cell::new(null_mut()),
            disabled: Cell::new(0),
            refused: Cell::new(refused::NONE),
            open: Cell::new(0),
            frames: Cell::new(0),
            found: Cell::new(0),
        }
    };
}

/// The evaluator that was in the slot before ours; null for CPython's own.
pub(in crate::cpython) static FOREIGN: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// The hook in the evaluation slot.
///
/// # Safety
/// Called as CPython calls an evaluator.
#[inline]
pub(in crate::cpython) unsafe fn on_frame(
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    throwflag: c_int,
) -> *mut ffi::PyObject {
    // The thread local has no destructor, so it outlives all Python code of the thread.
    let thread: *const Thread = THREAD.with(std::ptr::from_ref);
    // SAFETY: the thread local lives as long as the thread; the rest is guaranteed by the caller.
    unsafe {
        let waiting = take_given(thread, frame);
        let here = c_stack::here();
        if here < (*thread).stack_limit.get() && throwflag == 0 && (*thread).mode.get() != Mode::Outside {
            return run_or_raise(ts, frame, here);
        }
        match (*thread).mode.get() {
            Mode::Outside => run_foreign(&*thread, ts, frame, throwflag),
            Mode::Suspended if (*thread).refused.get().is_null() => run(ts, frame, throwflag),
            Mode::Suspended => refused::run_or_refuse(&*thread, ts, frame, throwflag),
            Mode::Active | Mode::Probing if throwflag != 0 || !frames::is_fresh(frame) => run(ts, frame, throwflag),
            Mode::Active | Mode::Probing => evaluate(&*thread, ts, frame, waiting),
        }
    }
}

/// Raises `RecursionError` instead of running a frame if the C stack is nearly used up, as CPython does for too many
/// calls.
///
/// # Safety
/// Called as CPython calls an evaluator.
#[cold]
unsafe fn run_or_raise(ts: *mut ffi::PyThreadState, frame: *mut Frame, here: usize) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller; a frame that is thrown into has the exception set.
    unsafe {
        match Python::try_attach(|py| c_stack::overflow(here).map(|error| error.restore(py))).flatten() {
            None => run(ts, frame, 0),
            Some(()) if frames::is_fresh(frame) => {
                frames::release(ts, frame);
                null_mut()
            }
            Some(()) => run(ts, frame, 1),
        }
    }
}

/// Runs a frame as CPython would.
///
/// # Safety
/// Called as CPython calls an evaluator.
#[inline]
pub(in crate::cpython) unsafe fn run(
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    throwflag: c_int,
) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller.
    unsafe { call_eval(default_eval, ts, frame, throwflag) }
}

/// Runs a frame as if this hook were not in the slot. Two hooks may each have found the other in the slot, in nested
/// sections. A frame that comes back to this hook is left to CPython.
///
/// # Safety
/// Called as CPython calls an evaluator.
#[inline]
unsafe fn run_foreign(
    thread: &Thread,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    throwflag: c_int,
) -> *mut ffi::PyObject {
    let foreign = FOREIGN.load(Ordering::Relaxed);
    if foreign.is_null() || thread.passed_on.get() == frame {
        thread.passed_on.set(null_mut());
        // SAFETY: guaranteed by the caller.
        return unsafe { run(ts, frame, throwflag) };
    }
    thread.passed_on.set(frame);
    // SAFETY: the pointer was read from the evaluation slot, so it is an evaluator; the rest is guaranteed by the caller.
    let result = unsafe { call_eval(std::mem::transmute::<*mut (), EvalFrame>(foreign), ts, frame, throwflag) };
    thread.passed_on.set(null_mut());
    result
}

/// A verdict in raw references, which can be dropped without an interpreter token.
enum RawVerdict {
    Original {
        suspend: bool,
    },
    Replace {
        code: *mut ffi::PyObject,
        suspend: bool,
    },
    /// The exception has been set.
    Raised,
}

/// Asks the evaluator about a fresh frame, and does what it says.
///
/// # Safety
/// `frame` is fresh, of this thread, and was passed to the hook. `waiting` is the frame that waits for it, or null.
unsafe fn evaluate(
    thread: &Thread,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    waiting: *mut Frame,
) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller. Code that runs while the evaluator is asked, such as a module it imports, is
    // called by the waiting frame, because the fresh frame is not in the chain yet.
    unsafe {
        if thread.direct.get() == (*frame).code {
            thread.direct.set(null_mut());
            return run(ts, frame, 0);
        }
        thread.frames.set(thread.frames.get().wrapping_add(1));
        if thread.mode.get() == Mode::Active && waiting.is_null() {
            if let Some(head) = idle::left_alone(frame) {
                return idle::leave(thread, ts, frame, head);
            }
        }
        let mode = thread.mode.replace(Mode::Suspended);
        chain::go_back(waiting);
        let answer =
            recursion::forgetting_overflow(|| ask(mode, ts, frame), |answer| !matches!(answer, RawVerdict::Raised));
        chain::step_off(waiting);
        if !matches!(answer, RawVerdict::Original { .. }) {
            thread.found.set(thread.found.get().wrapping_add(1));
        }
        let suspended =
            matches!(answer, RawVerdict::Original { suspend: true } | RawVerdict::Replace { suspend: true, .. });
        if !suspended {
            thread.mode.set(mode);
        }
        let result = match answer {
            RawVerdict::Original { suspend: false } if mode == Mode::Active => idle::leave_asked(thread, ts, frame),
            RawVerdict::Original { suspend: true } if mode == Mode::Active => {
                idle::leave_with_callees(thread, ts, frame)
            }
            RawVerdict::Original { .. } => run(ts, frame, 0),
            RawVerdict::Replace { code, .. } => replace::replace(thread, ts, frame, code),
            RawVerdict::Raised => {
                frames::release(ts, frame);
                null_mut()
            }
        };
        if suspended {
            thread.mode.set(mode);
        }
        if result.is_null() {
            signals::release_held();
        }
        result
    }
}

/// Calls the evaluator, and handles its panics.
///
/// # Safety
/// `frame` is fresh, of this thread, and was passed to the hook. Nothing else touches it meanwhile.
unsafe fn ask(mode: Mode, ts: *mut ffi::PyThreadState, frame: *mut Frame) -> RawVerdict {
    let asked = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { ask_with(mode, ts, frame, |evaluator, frame| evaluator.evaluate(frame)) }
    }));
    asked.unwrap_or_else(|payload| {
        note_panic(&*payload);
        // SAFETY: guaranteed by the caller; CPython holds the GIL while it evaluates a frame.
        unsafe {
            ffi::PyErr_Clear();
            tell_of_panic(mode, ts, frame, &panic_text(&*payload))
        }
    })
}

/// Asks the evaluator what to do with a frame after a panic.
///
/// # Safety
/// `frame` is fresh, of this thread, and was passed to the hook. Nothing else touches it meanwhile.
#[cold]
unsafe fn tell_of_panic(mode: Mode, ts: *mut ffi::PyThreadState, frame: *mut Frame, text: &str) -> RawVerdict {
    let asked = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { ask_with(mode, ts, frame, |evaluator, frame| evaluator.panicked(frame, text)) }
    }));
    asked.unwrap_or_else(|payload| {
        note_panic(&*payload);
        // SAFETY: CPython holds the GIL while it evaluates a frame.
        unsafe { ffi::PyErr_Clear() };
        RawVerdict::Original { suspend: false }
    })
}

/// Asks the evaluator one question about a frame.
///
/// # Safety
/// `frame` is fresh, of this thread, and was passed to the hook. Nothing else touches it meanwhile.
#[inline]
unsafe fn ask_with(
    mode: Mode,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    verdict: impl FnOnce(&dyn FrameEvaluator, &FreshFrame<'_, '_>) -> Verdict,
) -> RawVerdict {
    // SAFETY: CPython holds the GIL while it evaluates a frame. Attached code has opened the section that the frame
    // runs in, as `enter` demands.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: guaranteed by the caller.
    let frame = unsafe { FreshFrame::new(py, ts, frame) };
    match evaluator(mode) {
        Some(evaluator) => answer(py, verdict(evaluator, &frame)),
        None => RawVerdict::Original { suspend: false },
    }
}

#[inline]
fn evaluator(mode: Mode) -> Option<&'static dyn FrameEvaluator> {
    if mode == Mode::Probing {
        return Some(&crate::cpython::hook::self_test::PROBE);
    }
    EVALUATOR.get().copied()
}

fn answer(py: Python<'_>, verdict: Verdict) -> RawVerdict {
    match verdict {
        Verdict::Original { disable_eval_frame } => RawVerdict::Original { suspend: disable_eval_frame },
        Verdict::Replace { code, disable_eval_frame } => {
            RawVerdict::Replace { code: code.into_ptr(), suspend: disable_eval_frame }
        }
        Verdict::Raise(error) => {
            error.restore(py);
            RawVerdict::Raised
        }
    }
}

pub(in crate::cpython) fn note_panic(payload: &(dyn Any + Send)) {
    let text = panic_text(payload);
    Tally::bump(&TALLY.panics);
    *LAST_PANIC.lock() = Some(text);
}

/// Message of a panic.
pub(in crate::cpython) fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a text".to_owned())
}
