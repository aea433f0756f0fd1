//! How deep in calls a thread is, as CPython 3.8 to 3.10 counts them. Where one too many has raised, 3.8 and 3.9 allow
//! fifty more until so many have returned, and end the process behind these. The program knows of what it was raised
//! to; it does not know of what the tracer's own calls came to.

use pyo3::prelude::*;

#[cfg(not(Py_3_11))]
use pyo3::ffi;

/// With fewer calls left than this no simulation begins: it calls far down into the framework.
#[cfg(not(Py_3_11))]
const TO_BEGIN: i32 = 200;

/// The count of a thread's state, and whether one too many has raised (a number of calls on 3.10).
#[cfg(not(Py_3_11))]
#[repr(C)]
struct Counted {
    links: [*mut u8; 4],
    depth: i32,
    #[cfg(not(Py_3_10))]
    overflowed: u8,
}

#[cfg(not(Py_3_11))]
fn counted() -> *mut Counted {
    // SAFETY: the thread is attached.
    unsafe { ffi::PyThreadState_Get().cast() }
}

/// Whether enough calls are left to simulate a frame.
pub(in crate::cpython) fn has_calls_to_begin() -> bool {
    #[cfg(not(Py_3_11))]
    // SAFETY: the state of this thread is alive.
    unsafe {
        let limit = ffi::Py_GetRecursionLimit();
        return (*counted()).depth + TO_BEGIN.min(limit / 4) <= limit;
    }
    #[cfg(Py_3_11)]
    true
}

/// Does work of the tracer's; that it was one call too many is forgotten, if `is_over` says that nobody is told of it.
#[inline]
pub(in crate::cpython) fn forgetting_overflow<T>(work: impl FnOnce() -> T, is_over: impl FnOnce(&T) -> bool) -> T {
    #[cfg(not(Py_3_10))]
    // SAFETY: the state of this thread is alive; it is not replaced while Python code runs.
    unsafe {
        let before = (*counted()).overflowed;
        let result = work();
        if before == 0 && is_over(&result) {
            (*counted()).overflowed = 0;
        }
        return result;
    }
    #[cfg(Py_3_10)]
    {
        let _ = is_over;
        work()
    }
}

/// That there was one call too many is forgotten: what it raised is dropped.
pub fn forget_overflow(_: Python<'_>) {
    #[cfg(not(Py_3_10))]
    // SAFETY: as above.
    unsafe {
        if (*counted()).depth < ffi::Py_GetRecursionLimit() {
            (*counted()).overflowed = 0;
        }
    }
}
