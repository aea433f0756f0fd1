//! The exception that a thread is handling.

use std::ptr::null_mut;

use pyo3::ffi;
use pyo3::prelude::*;

/// Whether the thread runs in a handler of some frame: what `sys.exc_info()` says.
pub fn is_handling(py: Python<'_>) -> bool {
    let [mut class, mut value, mut traceback] = [null_mut(); 3];
    // SAFETY: the thread is attached; each place gets an owned reference or null.
    unsafe { ffi::PyErr_GetExcInfo(&raw mut class, &raw mut value, &raw mut traceback) };
    // SAFETY: as above.
    let [_, value, _] = [class, value, traceback].map(|part| unsafe { Bound::from_owned_ptr_or_opt(py, part) });
    value.is_some_and(|value| !value.is_none())
}
