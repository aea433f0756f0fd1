//! Frames from 3.11 on: they are on the thread's data stack. A fresh frame is on its top, and nobody else can access
//! it. Arguments hold their raw values; cells and free variables do not exist yet. Code is replaced in place.

use std::ptr::null_mut;

use pyo3::ffi;

use crate::cpython::hook::replace::Arguments;
use crate::cpython::layout::{call_eval, default_eval, frame_size, release_frame, start_of, Code, Frame, ThreadState};

/// `CO_OPTIMIZED | CO_NEWLOCALS`: a function, not a module or class body.
const FUNCTION: i32 = ffi::CO_OPTIMIZED | ffi::CO_NEWLOCALS;

/// `FRAME_OWNED_BY_THREAD`.
const OWNED_BY_THREAD: u8 = 0;

/// True if the frame belongs to a function about to run its first instruction. False for resumed generators.
///
/// # Safety
/// `frame` was passed to the hook.
#[inline]
pub(in crate::cpython) unsafe fn is_fresh(frame: *mut Frame) -> bool {
    // SAFETY: guaranteed by the caller. A frame passed to the hook has a code object.
    unsafe {
        let code = (*frame).code;
        (*frame).owner == OWNED_BY_THREAD
            && (*frame).object.is_null()
            && (*frame).instr == start_of(code)
            && (*code).flags & FUNCTION == FUNCTION
    }
}

/// `FRAME_OWNED_BY_CSTACK`: a frame that does not belong to the program (from 3.12 on).
const OWNED_BY_C_STACK: u8 = 3;

/// The frame that called this one; null if there is none.
///
/// # Safety
/// `frame` runs.
#[inline]
pub(in crate::cpython) unsafe fn caller(frame: *mut Frame) -> *mut Frame {
    // SAFETY: guaranteed by the caller. Running frames are alive, and their chain ends with null.
    unsafe {
        let mut caller = (*frame).previous;
        while !caller.is_null() && (*caller).owner == OWNED_BY_C_STACK {
            caller = (*caller).previous;
        }
        caller
    }
}

/// The start of `PyFrameObject`.
#[repr(C)]
struct FrameObject {
    ob_base: ffi::PyObject,
    back: *mut ffi::PyObject,
    frame: *mut Frame,
}

/// True if this is the frame of a frame object.
///
/// # Safety
/// `object` is a live frame object.
pub(in crate::cpython) unsafe fn is_frame_of(frame: *mut Frame, object: *mut ffi::PyObject) -> bool {
    // SAFETY: guaranteed by the caller; a frame object begins as `FrameObject` declares.
    unsafe { (*object.cast::<FrameObject>()).frame == frame }
}

/// The slots of locals, cells and free variables of a frame.
///
/// # Safety
/// `frame` points to a frame.
unsafe fn slots(frame: *mut Frame) -> *mut *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller; only an address within the frame is made.
    unsafe { (&raw mut (*frame).localsplus).cast() }
}

/// Number of free variables.
///
/// # Safety
/// `code` is a live code object.
pub(in crate::cpython) unsafe fn free_count(code: *mut Code) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { (*code).nfreevars as usize }
}

/// Name of free variable `i`, borrowed from the code.
///
/// # Safety
/// `code` is a live code object and `i < free_count(code)`.
pub(in crate::cpython) unsafe fn free_name(code: *mut Code, i: usize) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller; free variables are the last of the names.
    unsafe {
        let first = (*code).nlocalsplus - (*code).nfreevars;
        ffi::PyTuple_GET_ITEM((*code).localsplusnames, first as isize + i as isize)
    }
}

/// Argument `i`. Borrowed; null if unbound.
///
/// # Safety
/// `frame` is fresh and `i` is less than the number of its arguments.
pub(in crate::cpython) unsafe fn argument(frame: *mut Frame, i: usize) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller.
    unsafe { *slots(frame).add(i) }
}

/// The cell of free variable `i`, borrowed from the function's closure.
///
/// # Safety
/// `frame` is fresh and `i < free_count(its code)`.
pub(in crate::cpython) unsafe fn closure_cell(frame: *mut Frame, i: usize) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller; a function whose code has free variables has a closure of that many cells.
    unsafe {
        let closure = (*(*frame).func).func_closure;
        if closure.is_null() || i as isize >= ffi::PyTuple_GET_SIZE(closure) {
            return null_mut();
        }
        ffi::PyTuple_GET_ITEM(closure, i as isize)
    }
}

/// The frame's function, borrowed.
///
/// # Safety
/// `frame` is fresh.
pub(in crate::cpython) unsafe fn function(frame: *mut Frame) -> *mut ffi::PyFunctionObject {
    // SAFETY: guaranteed by the caller.
    unsafe { (*frame).func }
}

/// The arguments as a vector for a call.
///
/// # Safety
/// `frame` is fresh and has `n` arguments; it outlives the result.
pub(in crate::cpython) unsafe fn arguments(frame: *mut Frame, _n: usize) -> Arguments {
    // SAFETY: guaranteed by the caller.
    Arguments::Slots(unsafe { slots(frame) })
}

/// True if the data stack has room to turn this frame into a frame of `code`.
///
/// # Safety
/// `frame` is fresh and of this thread; `code` is a live code object.
pub(in crate::cpython) unsafe fn has_room(ts: *mut ffi::PyThreadState, frame: *mut Frame, code: *mut Code) -> bool {
    // SAFETY: guaranteed by the caller; a fresh frame lies in the current chunk, which ends at the limit.
    unsafe {
        let (new, old) = (frame_size(code), frame_size((*frame).code));
        if new == old {
            return true;
        }
        let ts = ts.cast::<ThreadState>();
        let base = frame.cast::<*mut ffi::PyObject>();
        (*ts).datastack_top == base.add(old) && (new as isize) < (*ts).datastack_limit.offset_from(base)
    }
}

/// Turns the frame into a frame of `code`, whose reference is taken over, and runs it.
///
/// # Safety
/// `frame` is fresh and [`has_room`]. `code` is a code object of flat signature with as many arguments and the same
/// free variables. Neither `code` nor the frame's own code is a generator.
pub(in crate::cpython) unsafe fn run_replaced(
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    code: *mut Code,
) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller. The frame is on top of the data stack, which has room for the new size, and
    // nobody else can access it. Slots behind the arguments own no references.
    unsafe {
        let old = (*frame).code;
        if frame_size(code) != frame_size(old) {
            (*ts.cast::<ThreadState>()).datastack_top = frame.cast::<*mut ffi::PyObject>().add(frame_size(code));
        }
        let slots = slots(frame);
        for i in (*code).argcount..(*code).nlocalsplus {
            *slots.add(i as usize) = null_mut();
        }
        (*frame).stacktop = (*code).nlocalsplus;
        (*frame).code = code;
        (*frame).instr = start_of(code);
        ffi::Py_DECREF(old.cast());
        call_eval(default_eval, ts, frame, 0)
    }
}

/// Releases a frame that will not be run.
///
/// # Safety
/// `frame` is fresh, of this thread, and not used afterwards.
pub(in crate::cpython) unsafe fn release(ts: *mut ffi::PyThreadState, frame: *mut Frame) {
    // SAFETY: guaranteed by the caller.
    unsafe { release_frame(ts.cast(), frame) }
}

/// Returns an inconsistency of the data stack around a fresh frame, for the self test.
///
/// # Safety
/// `frame` is fresh and of this thread.
pub(in crate::cpython) unsafe fn stack_problem(ts: *mut ffi::PyThreadState, frame: *mut Frame) -> Option<&'static str> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let ts = ts.cast::<ThreadState>();
        let end = frame.cast::<*mut ffi::PyObject>().add(frame_size((*frame).code));
        if (*ts).datastack_top != end {
            return Some("datastack_top");
        }
        if (*ts).datastack_limit < end {
            return Some("datastack_limit");
        }
        None
    }
}
