//! CPython 3.11: frames are on the thread's data stack; the code that pushed a frame also clears and pops it.

use std::ffi::{c_int, c_long};
use std::mem::offset_of;

use pyo3::ffi;

pub(in crate::cpython) use crate::cpython::hook::eval_slot::{call_eval, default_eval, EvalSlot};
use crate::cpython::hook::on_frame;
use crate::cpython::hook::signals::SignalFields;

/// `_PyInterpreterFrame`.
#[repr(C)]
pub(in crate::cpython) struct Frame {
    pub(in crate::cpython) func: *mut ffi::PyFunctionObject,
    pub(in crate::cpython) globals: *mut ffi::PyObject,
    pub(in crate::cpython) builtins: *mut ffi::PyObject,
    pub(in crate::cpython) locals: *mut ffi::PyObject,
    pub(in crate::cpython) code: *mut Code,
    pub(in crate::cpython) object: *mut ffi::PyObject,
    pub(in crate::cpython) previous: *mut Frame,
    pub(in crate::cpython) instr: *mut u8,
    pub(in crate::cpython) stacktop: c_int,
    is_entry: bool,
    pub(in crate::cpython) owner: u8,
    pub(in crate::cpython) localsplus: [*mut ffi::PyObject; 1],
}

const _: () = assert!(offset_of!(Frame, code) == 32);
const _: () = assert!(offset_of!(Frame, instr) == 56);
const _: () = assert!(offset_of!(Frame, owner) == 69);
const _: () = assert!(offset_of!(Frame, localsplus) == 72);

/// `PyCodeObject`.
#[repr(C)]
pub(in crate::cpython) struct Code {
    ob_base: ffi::PyVarObject,
    consts: *mut ffi::PyObject,
    names: *mut ffi::PyObject,
    exceptiontable: *mut ffi::PyObject,
    pub(in crate::cpython) flags: c_int,
    warmup: [i16; 2],
    pub(in crate::cpython) argcount: c_int,
    posonlyargcount: c_int,
    pub(in crate::cpython) kwonlyargcount: c_int,
    pub(in crate::cpython) stacksize: c_int,
    firstlineno: c_int,
    pub(in crate::cpython) nlocalsplus: c_int,
    pub(in crate::cpython) nlocals: c_int,
    nplaincellvars: c_int,
    ncellvars: c_int,
    pub(in crate::cpython) nfreevars: c_int,
    pub(in crate::cpython) localsplusnames: *mut ffi::PyObject,
    kinds: *mut ffi::PyObject,
    filename: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
    qualname: *mut ffi::PyObject,
    linetable: *mut ffi::PyObject,
    weakreflist: *mut ffi::PyObject,
    skipped: [usize; 3],
    pub(in crate::cpython) extra: *mut crate::cpython::hook::code_state::ExtraTable,
    adaptive: [u8; 2],
}

const _: () = assert!(offset_of!(Code, localsplusnames) == 96);
const _: () = assert!(offset_of!(Code, extra) == 176);
const _: () = assert!(offset_of!(Code, adaptive) == 184);

/// The part of `PyThreadState` that frames need.
#[repr(C)]
pub(in crate::cpython) struct ThreadState {
    skipped: [usize; 7],
    cframe: *mut CFrame,
    skipped_too: [usize; 29],
    chunk: *mut u8,
    pub(in crate::cpython) datastack_top: *mut *mut ffi::PyObject,
    pub(in crate::cpython) datastack_limit: *mut *mut ffi::PyObject,
}

const _: () = assert!(offset_of!(ThreadState, cframe) == 56);
const _: () = assert!(offset_of!(ThreadState, datastack_top) == 304);

/// The start of `_PyCFrame`.
#[repr(C)]
struct CFrame {
    use_tracing: u8,
    current: *mut Frame,
}

/// Address of the running frame in the thread state.
///
/// # Safety
/// `ts` is a live thread state.
#[inline]
pub(in crate::cpython) unsafe fn running(ts: *mut ffi::PyThreadState) -> *mut *mut Frame {
    // SAFETY: guaranteed by the caller; there is always a C frame.
    unsafe { &raw mut (*(*ts.cast::<ThreadState>()).cframe).current }
}

/// Index of the word `c_tracefunc` in `PyThreadState`.
pub(in crate::cpython) const TRACE_FUNCTION: usize = 9;

/// Index of the word `async_exc` in `PyThreadState`.
pub(in crate::cpython) const THREAD_EXCEPTION: usize = 18;

/// Offsets in `_PyRuntime` of the fields that decide about signals.
pub(in crate::cpython) const SIGNALS: SignalFields =
    SignalFields { main_interpreter: 48, main_thread: 80, waiting: 352, beside: 360 };

/// Type of the evaluator in the slot.
pub(in crate::cpython) type EvalFrame =
    unsafe extern "C-unwind" fn(*mut ffi::PyThreadState, *mut Frame, c_int) -> *mut ffi::PyObject;

/// The function that goes into the slot.
///
/// # Safety
/// CPython calls it, as the evaluator in its slot.
pub(in crate::cpython) unsafe extern "C-unwind" fn hook_entry(
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    throwflag: c_int,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls the evaluator with the GIL held and a frame about to run.
    unsafe { on_frame(ts, frame, throwflag) }
}

/// Slots of a frame before its locals.
const FRAME_SPECIALS: usize = 9;

/// Size of a frame of `code` on the data stack, in slots.
///
/// # Safety
/// `code` is a live code object.
pub(in crate::cpython) unsafe fn frame_size(code: *mut Code) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { (*code).nlocalsplus as usize + (*code).stacksize as usize + FRAME_SPECIALS }
}

/// Value of `instr` in a frame of `code` before its first instruction: one unit before that instruction.
///
/// # Safety
/// `code` is a live code object.
#[inline]
pub(in crate::cpython) unsafe fn start_of(code: *mut Code) -> *mut u8 {
    // SAFETY: guaranteed by the caller; the result is an address inside the code object.
    unsafe { code.cast::<u8>().add(offset_of!(Code, adaptive) - 2) }
}

/// Clears and pops a frame that will not be run. Nothing to do, because the caller of the hook does it.
///
/// # Safety
/// None needed on this version.
pub(in crate::cpython) unsafe fn release_frame(_ts: *mut ThreadState, _frame: *mut Frame) {}

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
