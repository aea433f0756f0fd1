//! The chain of a thread's running frames. A frame that waits for a function which continues it is taken out of the
//! chain meanwhile: for the program the two frames are one. Code that counts frames then finds the waiting frame's
//! caller directly above the function's frame.

use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::current_frame;
use crate::cpython::hook::frames;
use crate::cpython::hook::tracing::is_profiled;
use crate::cpython::layout::{running, Frame};

/// Makes the caller of the running frame the running one. Returns the frame, which is passed to [`go_back`]. Does
/// nothing while a profiler is active, because profilers of the program compare callers of frames with the calls that
/// were reported to them.
///
/// # Safety
/// The thread is attached, and called from Python code. That code does not continue before [`go_back`].
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

/// Makes the caller of the given running frame the running one.
///
/// # Safety
/// As [`step_back`].
#[inline]
pub(in crate::cpython) unsafe fn step_off(frame: *mut Frame) {
    if !frame.is_null() {
        // SAFETY: guaranteed by the caller. The caller of a running frame, if any, is alive. A frame that ends
        // restores the chain it found, so code that runs meanwhile leaves the chain as it is now.
        unsafe { *running(ffi::PyThreadState_Get()) = frames::caller(frame) };
    }
}

/// Makes the frame the running one again.
///
/// # Safety
/// `frame` is the result of [`step_back`] in this call of a C function, and all calls since have returned.
#[inline]
pub(in crate::cpython) unsafe fn go_back(frame: *mut Frame) {
    if !frame.is_null() {
        // SAFETY: guaranteed by the caller.
        unsafe { *running(ffi::PyThreadState_Get()) = frame };
    }
}

/// True if the chain agrees with Python's frame objects, for the self test. Has to be called in a function with a
/// caller.
pub(in crate::cpython) fn chain_agrees(py: Python<'_>) -> PyResult<bool> {
    let Some(object) = current_frame(py) else { return Ok(false) };
    let back = object.getattr("f_back")?;
    // SAFETY: the state of an attached thread. The pointer in it is only compared until it is known to be a frame.
    Ok(unsafe {
        let frame = *running(ffi::PyThreadState_Get());
        frames::is_frame_of(frame, object.as_ptr()) && frames::is_frame_of(frames::caller(frame), back.as_ptr())
    })
}
