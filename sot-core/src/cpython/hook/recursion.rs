//! Depth of a thread's calls, as CPython 3.8 to 3.10 counts them. After a `RecursionError`, 3.8 and 3.9 allow fifty
//! more calls until enough calls have returned, and abort the process if more are made. The program knows of errors
//! that were raised to it, but not of those in the tracer's own calls: these must leave no trace in the count.

use pyo3::prelude::*;

#[cfg(not(Py_3_11))]
use pyo3::ffi;

/// Minimum number of calls left to begin a simulation, which calls deep into the framework.
#[cfg(not(Py_3_11))]
const TO_BEGIN: i32 = 200;

/// Count of calls in the thread state, and whether a call too many has raised (a number of calls on 3.10).
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
    // SAFETY: the callers work for an attached thread, which has a current state.
    unsafe { ffi::PyThreadState_Get().cast() }
}

/// True if enough calls are left to simulate a frame.
pub(in crate::cpython) fn has_calls_to_begin() -> bool {
    #[cfg(not(Py_3_11))]
    // SAFETY: the state of this thread is alive, and begins as `Counted` declares.
    unsafe {
        let limit = ffi::Py_GetRecursionLimit();
        return (*counted()).depth + TO_BEGIN.min(limit / 4) <= limit;
    }
    #[cfg(Py_3_11)]
    true
}

/// Does work of the tracer. If the work makes a call too many, CPython's note of that is cleared, unless the program
/// gets the error: `is_over` returns true if it does not.
#[inline]
pub(in crate::cpython) fn forgetting_overflow<T>(work: impl FnOnce() -> T, is_over: impl FnOnce(&T) -> bool) -> T {
    #[cfg(not(Py_3_10))]
    // SAFETY: the state of this thread is alive, and begins as `Counted` declares; it is not replaced while Python code
    // runs.
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

/// Forgets a call too many, whose error has been dropped.
pub fn forget_overflow(_: Python<'_>) {
    #[cfg(not(Py_3_10))]
    // SAFETY: as above.
    unsafe {
        if (*counted()).depth < ffi::Py_GetRecursionLimit() {
            (*counted()).overflowed = 0;
        }
    }
}
