//! The chain of a thread's running frames. A frame that waits for a function that goes on with it is taken out of it
//! meanwhile: to the program the two are one, and what counts frames finds the caller of the one behind the other.

use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::current_frame;
use crate::cpython::hook::frames;
use crate::cpython::hook::tracing::is_profiled;
use crate::cpython::layout::{running, Frame};

/// Makes the caller of the running frame the one that runs; what [`go_back`] is to be given. Nothing is done while
/// somebody is told of calls and returns: profilers of the program's compare the callers of frames with what they were
/// told.
///
/// # Safety
/// The thread is attached, and called from Python code. Until [`go_back`], that code is not gone on with.
#[inline]
pub(in crate::cpython) unsafe fn step_back(py: Python<'_>) -> *mut Frame {
    if is_profiled(py) {
        return null_mut();
    }
    // SAFETY: the state of an attached thread and the frame that it runs are alive.
    unsafe {
        let frame = *running(ffi::PyThreadState_Get());
        step_off(frame);
        frame
    }
}

/// Makes the caller of the running frame, which is given, the one that runs.
///
/// # Safety
/// As [`step_back`].
#[inline]
pub(in crate::cpython) unsafe fn step_off(frame: *mut Frame) {
    if !frame.is_null() {
        // SAFETY: the caller's promise; the caller of a running frame is alive, if there is one. A frame restores what
        // it found when it ends, so what is run meanwhile leaves the chain as it is now.
        unsafe { *running(ffi::PyThreadState_Get()) = frames::caller(frame) };
    }
}

/// The frame runs again.
///
/// # Safety
/// `frame` is what [`step_back`] gave in this call of a C function, and what was called since has returned.
#[inline]
pub(in crate::cpython) unsafe fn go_back(frame: *mut Frame) {
    if !frame.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *running(ffi::PyThreadState_Get()) = frame };
    }
}

/// Whether the chain is what Python says, for the self test, which asks in a function with a caller.
pub(in crate::cpython) fn chain_agrees(py: Python<'_>) -> PyResult<bool> {
    let Some(object) = current_frame(py) else { return Ok(false) };
    let back = object.getattr("f_back")?;
    // SAFETY: the state of an attached thread; what it says is only compared until it is known to be a frame.
    Ok(unsafe {
        let frame = *running(ffi::PyThreadState_Get());
        frames::is_frame_of(frame, object.as_ptr()) && frames::is_frame_of(frames::caller(frame), back.as_ptr())
    })
}
