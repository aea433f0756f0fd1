//! CPython 3.13: like 3.12 (but a frame's code may be any executable), with a C function that clears and pops frames.

use std::ffi::{c_int, c_long};
use std::mem::offset_of;

use pyo3::ffi;

pub(in crate::cpython) use crate::cpython::hook::eval_slot::{call_eval, default_eval, EvalSlot};
use crate::cpython::hook::on_frame;
use crate::cpython::hook::signals::SignalFields;

/// `_PyInterpreterFrame`.
#[repr(C)]
pub(in crate::cpython) struct Frame {
    pub(in crate::cpython) code: *mut Code,
    pub(in crate::cpython) previous: *mut Frame,
    pub(in crate::cpython) func: *mut ffi::PyFunctionObject,
    pub(in crate::cpython) globals: *mut ffi::PyObject,
    pub(in crate::cpython) builtins: *mut ffi::PyObject,
    pub(in crate::cpython) locals: *mut ffi::PyObject,
    pub(in crate::cpython) object: *mut ffi::PyObject,
    pub(in crate::cpython) instr: *mut u8,
    pub(in crate::cpython) stacktop: c_int,
    return_offset: u16,
    pub(in crate::cpython) owner: u8,
    pub(in crate::cpython) localsplus: [*mut ffi::PyObject; 1],
}

const _: () = assert!(offset_of!(Frame, func) == 16);
const _: () = assert!(offset_of!(Frame, instr) == 56);
const _: () = assert!(offset_of!(Frame, owner) == 70);
const _: () = assert!(offset_of!(Frame, localsplus) == 72);

/// `PyCodeObject`.
#[repr(C)]
pub(in crate::cpython) struct Code {
    ob_base: ffi::PyVarObject,
    consts: *mut ffi::PyObject,
    names: *mut ffi::PyObject,
    exceptiontable: *mut ffi::PyObject,
    pub(in crate::cpython) flags: c_int,
    pub(in crate::cpython) argcount: c_int,
    posonlyargcount: c_int,
    pub(in crate::cpython) kwonlyargcount: c_int,
    pub(in crate::cpython) stacksize: c_int,
    firstlineno: c_int,
    pub(in crate::cpython) nlocalsplus: c_int,
    framesize: c_int,
    pub(in crate::cpython) nlocals: c_int,
    ncellvars: c_int,
    pub(in crate::cpython) nfreevars: c_int,
    version: u32,
    pub(in crate::cpython) localsplusnames: *mut ffi::PyObject,
    kinds: *mut ffi::PyObject,
    filename: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    qualname: *mut ffi::PyObject,
    linetable: *mut ffi::PyObject,
    weakreflist: *mut ffi::PyObject,
    skipped: [usize; 5],
    pub(in crate::cpython) extra: *mut crate::cpython::hook::code_state::ExtraTable,
    adaptive: [u8; 2],
}

const _: () = assert!(offset_of!(Code, framesize) == 76);
const _: () = assert!(offset_of!(Code, localsplusnames) == 96);
const _: () = assert!(offset_of!(Code, extra) == 192);
const _: () = assert!(offset_of!(Code, adaptive) == 200);

/// The part of `PyThreadState` that frames need.
#[repr(C)]
pub(in crate::cpython) struct ThreadState {
    links: [usize; 4],
    skipped: [c_int; 5],
    pub(in crate::cpython) c_recursion_remaining: c_int,
    skipped_too: [usize; 2],
    current: *mut Frame,
    skipped_behind: [usize; 19],
    chunk: *mut u8,
    pub(in crate::cpython) datastack_top: *mut *mut ffi::PyObject,
    pub(in crate::cpython) datastack_limit: *mut *mut ffi::PyObject,
}

const _: () = assert!(offset_of!(ThreadState, c_recursion_remaining) == 52);
const _: () = assert!(offset_of!(ThreadState, current) == 72);
const _: () = assert!(offset_of!(ThreadState, datastack_top) == 240);

/// Address of the running frame in the thread state.
///
/// # Safety
/// `ts` is a live thread state.
#[inline]
pub(in crate::cpython) unsafe fn running(ts: *mut ffi::PyThreadState) -> *mut *mut Frame {
    // SAFETY: guaranteed by the caller; only an address is made.
    unsafe { &raw mut (*ts.cast::<ThreadState>()).current }
}

/// Index of the word `c_tracefunc` in `PyThreadState`.
pub(in crate::cpython) const TRACE_FUNCTION: usize = 11;

/// Index of the word `async_exc` in `PyThreadState`.
pub(in crate::cpython) const THREAD_EXCEPTION: usize = 18;

/// Offsets in `_PyRuntime` of the fields that decide about signals.
pub(in crate::cpython) const SIGNALS: SignalFields =
    SignalFields { main_interpreter: 640, main_thread: 656, waiting: 2128, beside: 1080 };

/// Index of the word `eval_breaker` in `PyThreadState`, and its bit for a signal that has arrived.
pub(in crate::cpython) const EVAL_BREAKER: usize = 3;
pub(in crate::cpython) const SIGNALS_PENDING: usize = 1 << 1;

/// Type of the evaluator in the slot.
pub(in crate::cpython) type EvalFrame =
    unsafe extern "C-unwind" fn(*mut ffi::PyThreadState, *mut Frame, c_int) -> *mut ffi::PyObject;

/// Units of the C recursion limit that the default evaluator charges for a call. Under a hook, every Python call is
/// charged.
const C_UNITS: c_int = 2;

/// The function that goes into the slot. It gives back the units that its level is charged for C recursion, so that a
/// program can recurse as deeply as without the hook. `sys.setrecursionlimit` still holds.
///
/// # Safety
/// CPython calls it, as the evaluator in its slot.
pub(in crate::cpython) unsafe extern "C-unwind" fn hook_entry(
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    throwflag: c_int,
) -> *mut ffi::PyObject {
    let state = ts.cast::<ThreadState>();
    // SAFETY: CPython calls the evaluator with the GIL held, its thread state, and a frame about to run.
    unsafe {
        (*state).c_recursion_remaining += C_UNITS;
        let result = on_frame(ts, frame, throwflag);
        (*state).c_recursion_remaining -= C_UNITS;
        result
    }
}

/// Size of a frame of `code` on the data stack, in slots.
///
/// # Safety
/// `code` is a live code object.
pub(in crate::cpython) unsafe fn frame_size(code: *mut Code) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { (*code).framesize as usize }
}

/// Value of `instr` in a frame of `code` before its first instruction: at that instruction.
///
/// # Safety
/// `code` is a live code object.
#[inline]
pub(in crate::cpython) unsafe fn start_of(code: *mut Code) -> *mut u8 {
    // SAFETY: guaranteed by the caller; the result is an address inside the code object.
    unsafe { code.cast::<u8>().add(offset_of!(Code, adaptive)) }
}

extern "C-unwind" {
    #[link_name = "_PyEval_FrameClearAndPop"]
    fn clear_and_pop(ts: *mut ThreadState, frame: *mut Frame);
}

/// Clears and pops a frame that will not be run.
///
/// # Safety
/// `frame` is fresh (see `stack_frame::is_fresh`), was passed to the hook on this thread, and is not used afterwards.
pub(in crate::cpython) unsafe fn release_frame(ts: *mut ThreadState, frame: *mut Frame) {
    // SAFETY: guaranteed by the caller.
    unsafe { clear_and_pop(ts, frame) }
}

/// `_PyRangeIterObject`
#[repr(C)]
pub(in crate::cpython) struct RangeIterator {
    ob_base: ffi::PyObject,
    next: c_long,
    step: c_long,
    left: c_long,
}

impl RangeIterator {
    /// The next number, the step, and how many numbers are left.
    pub(in crate::cpython) fn left(&self) -> (c_long, c_long, c_long) {
        (self.next, self.step, self.left)
    }
}
