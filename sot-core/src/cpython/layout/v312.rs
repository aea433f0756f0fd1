//! CPython 3.12: the evaluator owns its frame, so a frame that it does not run has to be cleared and popped.
//! Recursion through C is counted separately from Python's.

use std::ffi::{c_int, c_long, c_void};
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
    skipped: [usize; 4],
    pub(in crate::cpython) extra: *mut crate::cpython::hook::code_state::ExtraTable,
    adaptive: [u8; 2],
}

const _: () = assert!(offset_of!(Code, framesize) == 76);
const _: () = assert!(offset_of!(Code, localsplusnames) == 96);
const _: () = assert!(offset_of!(Code, extra) == 184);
const _: () = assert!(offset_of!(Code, adaptive) == 192);

/// The part of `PyThreadState` that frames need.
#[repr(C)]
pub(in crate::cpython) struct ThreadState {
    links: [usize; 3],
    skipped: [c_int; 3],
    pub(in crate::cpython) c_recursion_remaining: c_int,
    skipped_too: [usize; 2],
    cframe: *mut CFrame,
    skipped_behind: [usize; 21],
    chunk: *mut Chunk,
    pub(in crate::cpython) datastack_top: *mut *mut ffi::PyObject,
    pub(in crate::cpython) datastack_limit: *mut *mut ffi::PyObject,
}

const _: () = assert!(offset_of!(ThreadState, c_recursion_remaining) == 36);
const _: () = assert!(offset_of!(ThreadState, cframe) == 56);
const _: () = assert!(offset_of!(ThreadState, datastack_top) == 240);

/// The start of `_PyCFrame`.
#[repr(C)]
struct CFrame {
    current: *mut Frame,
}

/// `_PyStackChunk`.
#[repr(C)]
struct Chunk {
    previous: *mut Chunk,
    size: usize,
    top: usize,
    data: [*mut ffi::PyObject; 1],
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
pub(in crate::cpython) const THREAD_EXCEPTION: usize = 16;

/// Offsets in `_PyRuntime` of the fields that decide about signals.
pub(in crate::cpython) const SIGNALS: SignalFields =
    SignalFields { main_interpreter: 48, main_thread: 64, waiting: 1512, beside: 464 };

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

/// Value of `instr` in a frame of `code` before its first instruction: one unit before that instruction.
///
/// # Safety
/// `code` is a live code object.
#[inline]
pub(in crate::cpython) unsafe fn start_of(code: *mut Code) -> *mut u8 {
    // SAFETY: guaranteed by the caller; the result is an address inside the code object.
    unsafe { code.cast::<u8>().add(offset_of!(Code, adaptive) - 2) }
}

/// Clears and pops a frame that will not be run.
///
/// # Safety
/// `frame` is fresh (see `stack_frame::is_fresh`), was passed to the hook on this thread, and is not used afterwards.
pub(in crate::cpython) unsafe fn release_frame(ts: *mut ThreadState, frame: *mut Frame) {
    // SAFETY: the frame owns these references, and nothing else can see the frame. They go before the frame is popped,
    // because a finalizer may push frames above it.
    unsafe {
        let slots = (&raw mut (*frame).localsplus).cast::<*mut ffi::PyObject>();
        for i in 0..(*frame).stacktop as usize {
            ffi::Py_XDECREF(*slots.add(i));
        }
        ffi::Py_XDECREF((*frame).locals);
        ffi::Py_DECREF((*frame).func.cast());
        ffi::Py_DECREF((*frame).code.cast());
        pop(ts, frame.cast());
    }
}

/// Pops the topmost frame off the data stack, and its chunk if it was the only frame in the chunk.
///
/// # Safety
/// `base` is the topmost frame of this thread's data stack.
unsafe fn pop(ts: *mut ThreadState, base: *mut *mut ffi::PyObject) {
    // SAFETY: guaranteed by the caller; a chunk that is not the first has a predecessor, and the first one never
    // starts with a frame (CPython leaves its slot 0 unused).
    unsafe {
        let chunk = (*ts).chunk;
        if base != (&raw mut (*chunk).data).cast() {
            (*ts).datastack_top = base;
            return;
        }
        let previous = (*chunk).previous;
        (*ts).datastack_top = (&raw mut (*previous).data).cast::<*mut ffi::PyObject>().add((*previous).top);
        (*ts).chunk = previous;
        (*ts).datastack_limit = previous.cast::<u8>().add((*previous).size).cast();
        let mut arena: ffi::PyObjectArenaAllocator = std::mem::zeroed();
        ffi::PyObject_GetArenaAllocator(&raw mut arena);
        if let Some(free) = arena.free {
            free(arena.ctx, chunk.cast::<c_void>(), (*chunk).size);
        }
    }
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
