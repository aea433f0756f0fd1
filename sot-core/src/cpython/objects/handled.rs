//! The exception that the thread is handling.

use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

/// True if the thread is in an exception handler of some frame, as `sys.exc_info()` tells.
pub fn is_handling(py: Python<'_>) -> bool {
    let [mut class, mut value, mut traceback] = [null_mut(); 3];
    // SAFETY: the thread is attached; each place gets an owned reference or null.
    unsafe { ffi::PyErr_GetExcInfo(&raw mut class, &raw mut value, &raw mut traceback) };
    // SAFETY: as above.
    let [_, value, _] = [class, value, traceback].map(|part| unsafe { Bound::from_owned_ptr_or_opt(py, part) });
    value.is_some_and(|value| !value.is_none())
}
