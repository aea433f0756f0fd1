//! Whether somebody looks at the lines that run: debuggers and coverage tools do, by `sys.settrace`.

use std::ffi::c_void;

use pyo3::ffi;
use pyo3::prelude::*;

use super::layout::TRACE_FUNCTION;

/// Whether a trace function is set for this thread.
#[inline]
pub fn is_traced(_: Python<'_>) -> bool {
    // SAFETY: the state of this thread, which holds the GIL, is alive and larger than that.
    unsafe { !(*ffi::PyThreadState_Get().cast::<*const c_void>().add(TRACE_FUNCTION)).is_null() }
}
