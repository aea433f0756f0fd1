//! CPython 3.8: frames are heap objects, the evaluator takes no thread state, and the slot has no accessor functions.
//! The slot is found in the interpreter's struct by the value in it.

use std::ffi::{c_int, c_long};
use std::mem::offset_of;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::hook::on_frame;
use crate::cpython::hook::peers;
use crate::cpython::hook::session::HookError;
use crate::cpython::hook::signals::SignalFields;

/// `PyFrameObject`.
#[repr(C)]
pub(in crate::cpython) struct Frame {
    ob_base: ffi::PyVarObject,
    pub(in crate::cpython) back: *mut Frame,
    pub(in crate::cpython) code: *mut Code,
    pub(in crate::cpython) builtins: *mut ffi::PyObject,
    pub(in crate::cpython) globals: *mut ffi::PyObject,
    pub(in crate::cpython) locals: *mut ffi::PyObject,
    valuestack: *mut *mut ffi::PyObject,
    stacktop: *mut *mut ffi::PyObject,
    trace: *mut ffi::PyObject,
    trace_flags: [u8; 8],
    pub(in crate::cpython) generator: *mut ffi::PyObject,
    pub(in crate::cpython) lasti: c_int,
    lineno: c_int,
    iblock: c_int,
    executing: u8,
    blockstack: [[c_int; 3]; 20],
    pub(in crate::cpython) localsplus: [*mut ffi::PyObject; 1],
}

const _: () = assert!(offset_of!(Frame, code) == 32);
const _: () = assert!(offset_of!(Frame, lasti) == 104);
const _: () = assert!(offset_of!(Frame, localsplus) == 360);

/// `PyCodeObject`.
#[repr(C)]
pub(in crate::cpython) struct Code {
    ob_base: ffi::PyObject,
    pub(in crate::cpython) argcount: c_int,
    posonlyargcount: c_int,
    pub(in crate::cpython) kwonlyargcount: c_int,
    pub(in crate::cpython) nlocals: c_int,
    pub(in crate::cpython) stacksize: c_int,
    pub(in crate::cpython) flags: c_int,
    firstlineno: c_int,
    bytecode: *mut ffi::PyObject,
    consts: *mut ffi::PyObject,
    names: *mut ffi::PyObject,
    varnames: *mut ffi::PyObject,
    pub(in crate::cpython) freevars: *mut ffi::PyObject,
    pub(in crate::cpython) cellvars: *mut ffi::PyObject,
    pub(in crate::cpython) cell2arg: *mut isize,
    filename: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    lnotab: *mut ffi::PyObject,
    zombieframe: *mut Frame,
    weakreflist: *mut ffi::PyObject,
    pub(in crate::cpython) extra: *mut crate::cpython::hook::code_state::ExtraTable,
}

const _: () = assert!(offset_of!(Code, cell2arg) == 96);
const _: () = assert!(offset_of!(Code, extra) == 144);

/// The start of `PyThreadState`.
#[repr(C)]
struct ThreadState {
    prev: *mut ThreadState,
    next: *mut ThreadState,
    interp: *mut usize,
    frame: *mut Frame,
}

/// Address of the running frame in the thread state.
///
/// # Safety
/// `ts` is a live thread state.
#[inline]
pub(in crate::cpython) unsafe fn running(ts: *mut ffi::PyThreadState) -> *mut *mut Frame {
    // SAFETY: guaranteed by the caller; only an address is made.
    unsafe { &raw mut (*ts.cast::<ThreadState>()).frame }
}

/// Index of the word `c_tracefunc` in `PyThreadState`.
pub(in crate::cpython) const TRACE_FUNCTION: usize = 8;

/// Index of the word `async_exc` in `PyThreadState`.
pub(in crate::cpython) const THREAD_EXCEPTION: usize = 21;

/// Offsets in `_PyRuntime` of the fields that decide about signals.
pub(in crate::cpython) const SIGNALS: SignalFields =
    SignalFields { main_interpreter: 40, main_thread: 72, waiting: 1144, beside: 1152 };

/// Offset of `ceval` in `_PyRuntime`.
pub(in crate::cpython) const CEVAL: usize = 584;

/// Type of the evaluator in the slot.
pub(in crate::cpython) type EvalFrame = unsafe extern "C-unwind" fn(*mut Frame, c_int) -> *mut ffi::PyObject;

extern "C-unwind" {
    /// CPython's own evaluator.
    #[link_name = "_PyEval_EvalFrameDefault"]
    pub(in crate::cpython) fn default_eval(frame: *mut Frame, throwflag: c_int) -> *mut ffi::PyObject;
}

/// The function that goes into the slot.
///
/// # Safety
/// CPython calls it, as the evaluator in its slot.
pub(in crate::cpython) unsafe extern "C-unwind" fn hook_entry(
    frame: *mut Frame,
    throwflag: c_int,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls the evaluator with the GIL held and a frame about to run.
    unsafe { on_frame(std::ptr::null_mut(), frame, throwflag) }
}

/// Calls an evaluator.
///
/// # Safety
/// As CPython calls it: the GIL is held and `frame` is about to run on this thread.
#[inline]
pub(in crate::cpython) unsafe fn call_eval(
    eval: EvalFrame,
    _ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    throwflag: c_int,
) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller.
    unsafe { eval(frame, throwflag) }
}

/// Number of words of `PyInterpreterState` that are searched. In 3.8.18 the slot is word 71, and the field behind it
/// is 2 KB long.
const SEARCHED: usize = 128;

/// Index of the slot's word in `PyInterpreterState`; 0 until it has been found.
static SLOT: AtomicUsize = AtomicUsize::new(0);

/// Returns the slot. It is searched for once, by the evaluator in it: CPython's own, or the hook of another tracer.
///
/// # Safety
/// The GIL is held.
unsafe fn slot() -> Result<*mut EvalFrame, HookError> {
    // SAFETY: the GIL is held, so there is a current thread state and an interpreter; both begin as declared.
    let interp = unsafe { (*ffi::PyThreadState_Get().cast::<ThreadState>()).interp };
    let mut word = SLOT.load(Ordering::Relaxed);
    if word == 0 {
        let wanted = default_eval as *const () as usize;
        // SAFETY: the interpreter's state has more words than `SEARCHED`, and any word can be read as an integer.
        let held = |word: usize| unsafe { *interp.add(word) };
        // Another tracer's hook is in the slot while a section of that tracer is open.
        let found = (1..SEARCHED).find(|&word| held(word) == wanted).or_else(|| {
            let hooks = Python::try_attach(peers::known).unwrap_or_default();
            (1..SEARCHED).find(|&word| hooks.contains(&held(word)))
        });
        word = found.ok_or(HookError::SlotNotFound)?;
        SLOT.store(word, Ordering::Relaxed);
    }
    // SAFETY: the word was found by the search, so it lies inside the struct.
    Ok(unsafe { interp.add(word) }.cast())
}

/// The slot of the running interpreter.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpython) struct EvalSlot(*mut EvalFrame);

impl EvalSlot {
    /// Finds the slot.
    ///
    /// # Safety
    /// The GIL is held.
    pub(in crate::cpython) unsafe fn find() -> Result<EvalSlot, HookError> {
        // SAFETY: guaranteed by the caller.
        unsafe { slot().map(EvalSlot) }
    }

    /// Returns the evaluator in the slot.
    ///
    /// # Safety
    /// The GIL is held, and code of the interpreter's runs.
    pub(in crate::cpython) unsafe fn get(self) -> EvalFrame {
        // SAFETY: the interpreter is alive as its code runs; the slot always holds a function.
        unsafe { *self.0 }
    }

    /// Puts an evaluator into the slot.
    ///
    /// # Safety
    /// As of [`EvalSlot::get`].
    pub(in crate::cpython) unsafe fn set(self, eval: EvalFrame) {
        // SAFETY: the slot is a field of this type, of an interpreter that is alive.
        unsafe { *self.0 = eval };
    }
}

/// True if the frame has not started.
///
/// # Safety
/// `frame` is a live frame.
#[inline]
pub(in crate::cpython) unsafe fn is_unstarted(frame: *mut Frame) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe { (*frame).lasti == -1 }
}

/// `rangeiterobject` (private to `Objects/rangeobject.c`).
#[repr(C)]
pub(in crate::cpython) struct RangeIterator {
    ob_base: ffi::PyObject,
    index: c_long,
    start: c_long,
    step: c_long,
    count: c_long,
}

impl RangeIterator {
    /// The next number, the step, and how many numbers are left.
    pub(in crate::cpython) fn left(&self) -> (c_long, c_long, c_long) {
        (self.start.wrapping_add(self.index.wrapping_mul(self.step)), self.step, self.count - self.index)
    }
}
