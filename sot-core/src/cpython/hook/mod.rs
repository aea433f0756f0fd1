//! The function in CPython's frame evaluation slot: which frames it leaves to CPython at once, and what it does with
//! the evaluator's verdict on the others.
//!
//! While Python code runs above it, the hook keeps no Rust value with a destructor alive (the reference method aside):
//! CPython before 3.14 ends daemon threads by unwinding them.

pub(super) mod c_stack;
pub(super) mod calm;
pub(super) mod chain;
pub(super) mod code_state;
#[cfg(Py_3_9)]
pub(super) mod eval_slot;
pub(super) mod fresh_frame;
pub(super) mod graph_call;
#[cfg(not(Py_3_11))]
pub(super) mod heap_frame;
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
use std::sync::{Mutex, OnceLock, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::hook::c_stack::Stack;
use crate::cpython::hook::fresh_frame::FreshFrame;
use crate::cpython::hook::refused::RefusedCode;
use crate::cpython::hook::session::HookError;
use crate::cpython::layout::{call_eval, default_eval, Code, EvalFrame, Frame};
use crate::cpython::objects::callable::Given;

/// What an evaluator answers.
#[derive(Debug)]
pub enum Verdict {
    /// The frame runs its own code.
    Original {
        /// Whether the hook leaves alone what this frame calls.
        disable_eval_frame: bool,
    },
    /// The frame runs this code, which takes all arguments as positional ones (see
    /// [`crate::cpython::flatten_signature`]). Code that does not fit is counted in [`Counts::rejected`], and the frame
    /// runs its own.
    Replace {
        /// The code object.
        code: Py<PyAny>,
        /// Whether the hook leaves alone what this frame calls.
        disable_eval_frame: bool,
    },
    /// The call raises this.
    Raise(PyErr),
}

/// Decides what a frame runs.
pub trait FrameEvaluator: Send + Sync {
    /// The verdict on a frame about to run. What is called in here is not traced.
    fn evaluate(&self, frame: &FreshFrame<'_, '_>) -> Verdict;

    /// The verdict where `evaluate` has panicked; a panic in here counts as the original code.
    fn panicked(&self, frame: &FreshFrame<'_, '_>, text: &str) -> Verdict {
        let _ = (frame, text);
        Verdict::Original { disable_eval_frame: false }
    }
}

/// Names the evaluator; once.
pub fn set_evaluator(evaluator: &'static dyn FrameEvaluator) -> Result<(), HookError> {
    EVALUATOR.set(evaluator).map_err(|_| HookError::EvaluatorAlreadySet)
}

/// What the hook has done since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that ran other code, in place or in a shadow frame.
    pub native: u64,
    /// Frames that ran other code through a function made for the call.
    pub called: u64,
    /// Verdicts with code that does not fit the frame.
    pub rejected: u64,
    /// Evaluators that panicked.
    pub panics: u64,
}

impl Counts {
    /// All frames that ran other code.
    pub fn replaced(&self) -> u64 {
        self.native + self.called
    }
}

/// What the hook has done since the process started.
pub fn counts() -> Counts {
    let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
    Counts {
        native: read(&TALLY.native),
        called: read(&TALLY.called),
        rejected: read(&TALLY.rejected),
        panics: read(&TALLY.panics),
    }
}

/// How many evaluators have panicked.
pub fn panics() -> u64 {
    counts().panics
}

/// What the last evaluator that panicked said.
pub fn last_panic() -> Option<String> {
    LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

static EVALUATOR: OnceLock<&'static dyn FrameEvaluator> = OnceLock::new();
static LAST_PANIC: Mutex<Option<String>> = Mutex::new(None);
pub(in crate::cpython) static TALLY: Tally = Tally {
    native: AtomicU64::new(0),
    called: AtomicU64::new(0),
    rejected: AtomicU64::new(0),
    panics: AtomicU64::new(0),
};

/// The counters behind [`Counts`]; written under the GIL only.
pub(in crate::cpython) struct Tally {
    pub(in crate::cpython) native: AtomicU64,
    pub(in crate::cpython) called: AtomicU64,
    pub(in crate::cpython) rejected: AtomicU64,
    panics: AtomicU64,
}

impl Tally {
    /// Adds one; cheaper than an atomic addition, which the GIL makes needless.
    #[inline]
    pub(in crate::cpython) fn bump(counter: &AtomicU64) {
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Whether an evaluator was named.
pub(in crate::cpython) fn has_evaluator() -> bool {
    EVALUATOR.get().is_some()
}

/// What the hook does for a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cpython) enum Mode {
    /// No section is open: frames go to whoever had the slot before.
    Outside,
    /// Frames go to the evaluator.
    Active,
    /// A section is open, but frames go to CPython.
    Suspended,
    /// Frames go to the self test.
    Probing,
}

/// The hook's state of one thread.
pub(in crate::cpython) struct Thread {
    pub(in crate::cpython) mode: Cell<Mode>,
    /// Code whose next frame runs as it is, because it is itself a replacement.
    pub(in crate::cpython) direct: Cell<*mut Code>,
    /// Arguments that a frame about to run is to own alone.
    given: Cell<*mut Given>,
    /// Address in the C stack below which no frame is run; 0 if the stack was not looked at, 1 if nothing is known of
    /// it.
    pub(in crate::cpython) stack_limit: Cell<usize>,
    pub(in crate::cpython) stack: Cell<Stack>,
    /// The frame that whoever had the slot before us is looking at.
    passed_on: Cell<*mut Frame>,
    /// In how many stretches without tracing the thread is that no section ends.
    pub(in crate::cpython) disabled: Cell<usize>,
    /// What code raises instead of running.
    pub(in crate::cpython) refused: Cell<*const RefusedCode>,
    /// Number of open sections of this thread.
    pub(in crate::cpython) open: Cell<usize>,
    /// Frames that have come to the hook in its sections,
    frames: Cell<u64>,
    /// and those of them that ran no code of their own.
    found: Cell<u64>,
}

/// Gives arguments to the next frame of a code object; what was given before.
pub(in crate::cpython) fn give(given: *mut Given) -> *mut Given {
    THREAD.with(|thread| thread.given.replace(given))
}

/// Drops the arguments that the frame now owns itself. The frame that waits for it, if there is one.
///
/// # Safety
/// `frame` was handed to the hook, and what was given is alive.
#[inline]
unsafe fn take_given(thread: *const Thread, frame: *mut Frame) -> *mut Frame {
    // SAFETY: the caller's promise.
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

/// The hook.
///
/// # Safety
/// Called as CPython calls an evaluator.
#[inline]
pub(in crate::cpython) unsafe fn on_frame(
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    throwflag: c_int,
) -> *mut ffi::PyObject {
    // The destructor-free thread local outlives every thread that runs Python.
    let thread: *const Thread = THREAD.with(std::ptr::from_ref);
    // SAFETY: the thread local lives as long as the thread; the rest is the caller's promise.
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

/// Where the C stack is nearly used up the call raises what CPython raises when it counts too many of them.
///
/// # Safety
/// Called as CPython calls an evaluator.
#[cold]
unsafe fn run_or_raise(ts: *mut ffi::PyThreadState, frame: *mut Frame, here: usize) -> *mut ffi::PyObject {
    // SAFETY: the caller's promise; a frame that is thrown into has the exception set.
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
    // SAFETY: the caller's promise.
    unsafe { call_eval(default_eval, ts, frame, throwflag) }
}

/// Runs a frame as if we were not there. Two hooks may each have found the other in the slot, in sections that were
/// opened within one another: a frame that comes back is CPython's.
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
        // SAFETY: called as CPython calls an evaluator.
        return unsafe { run(ts, frame, throwflag) };
    }
    thread.passed_on.set(frame);
    // SAFETY: what is kept there was read out of the evaluation slot.
    let result = unsafe { call_eval(std::mem::transmute::<*mut (), EvalFrame>(foreign), ts, frame, throwflag) };
    thread.passed_on.set(null_mut());
    result
}

/// A verdict in raw references, which need no token to be dropped.
enum RawVerdict {
    Original {
        suspend: bool,
    },
    Replace {
        code: *mut ffi::PyObject,
        suspend: bool,
    },
    /// The exception is set.
    Raised,
}

unsafe fn evaluate(
    thread: &Thread,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    waiting: *mut Frame,
) -> *mut ffi::PyObject {
    // SAFETY: the caller passes a fresh frame of this thread, and the one that waits for it, if any. What runs while
    // the evaluator is asked, a module that it imports, is called by that one: the fresh one is in no chain yet.
    unsafe {
        if thread.direct.get() == (*frame).code {
            thread.direct.set(null_mut());
            return run(ts, frame, 0);
        }
        thread.frames.set(thread.frames.get().wrapping_add(1));
        if thread.mode.get() == Mode::Active && waiting.is_null() {
            if let Some(head) = calm::left_alone(frame) {
                return calm::leave(thread, ts, frame, head);
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
            RawVerdict::Original { suspend: false } if mode == Mode::Active => calm::leave_asked(thread, ts, frame),
            RawVerdict::Original { suspend: true } if mode == Mode::Active => {
                calm::leave_with_callees(thread, ts, frame)
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

/// Calls the evaluator.
unsafe fn ask(mode: Mode, ts: *mut ffi::PyThreadState, frame: *mut Frame) -> RawVerdict {
    let asked = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller's promise.
        unsafe { ask_with(mode, ts, frame, |evaluator, frame| evaluator.evaluate(frame)) }
    }));
    asked.unwrap_or_else(|payload| {
        note_panic(&*payload);
        // SAFETY: the caller's promise; the GIL is held.
        unsafe {
            ffi::PyErr_Clear();
            tell_of_panic(mode, ts, frame, &panic_text(&*payload))
        }
    })
}

/// Asks the evaluator what becomes of a frame over which it has panicked.
#[cold]
unsafe fn tell_of_panic(mode: Mode, ts: *mut ffi::PyThreadState, frame: *mut Frame, text: &str) -> RawVerdict {
    let asked = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller's promise.
        unsafe { ask_with(mode, ts, frame, |evaluator, frame| evaluator.panicked(frame, text)) }
    }));
    asked.unwrap_or_else(|payload| {
        note_panic(&*payload);
        // SAFETY: the GIL is held.
        unsafe { ffi::PyErr_Clear() };
        RawVerdict::Original { suspend: false }
    })
}

#[inline]
unsafe fn ask_with(
    mode: Mode,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    verdict: impl FnOnce(&dyn FrameEvaluator, &FreshFrame<'_, '_>) -> Verdict,
) -> RawVerdict {
    // SAFETY: CPython holds the GIL where it evaluates a frame, and attached code has opened the section that the frame
    // runs in, as `enter` demands.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the caller passes a fresh frame, and does nothing else with it meanwhile.
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
    *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
}

/// What a panic said.
pub(in crate::cpython) fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a text".to_owned())
}
