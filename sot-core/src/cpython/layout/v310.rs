//! CPython 3.10: the last version whose frames are heap objects; a frame has a state.

use std::ffi::{c_int, c_long};
use std::mem::offset_of;

use pyo3::ffi;

pub(in crate::cpython) use crate::cpython::hook::eval_slot::{call_eval, default_eval, EvalSlot};
use crate::cpython::hook::on_frame;
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
    trace: *mut ffi::PyObject,
    stackdepth: c_int,
    trace_flags: [u8; 4],
    pub(in crate::cpython) generator: *mut ffi::PyObject,
    lasti: c_int,
    lineno: c_int,
    iblock: c_int,
    state: i8,
    blockstack: [[c_int; 3]; 20],
    pub(in crate::cpython) localsplus: [*mut ffi::PyObject; 1],
}

const _: () = assert!(offset_of!(Frame, code) == 32);
const _: () = assert!(offset_of!(Frame, state) == 108);
const _: () = assert!(offset_of!(Frame, localsplus) == 352);

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
    linetable: *mut ffi::PyObject,
    zombieframe: *mut Frame,
    weakreflist: *mut ffi::PyObject,
    pub(in crate::cpython) extra: *mut crate::cpython::hook::code_state::ExtraTable,
}

const _: () = assert!(offset_of!(Code, cell2arg) == 96);
const _: () = assert!(offset_of!(Code, extra) == 144);

/// The start of `PyThreadState`.
#[repr(C)]
struct ThreadState {
    links: [usize; 3],
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
    SignalFields { main_interpreter: 40, main_thread: 72, waiting: 344, beside: 352 };

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

/// `FRAME_CREATED`.
const CREATED: i8 = -2;

/// True if the frame has not started.
///
/// # Safety
/// `frame` is a live frame.
#[inline]
pub(in crate::cpython) unsafe fn is_unstarted(frame: *mut Frame) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe { (*frame).state == CREATED }
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
