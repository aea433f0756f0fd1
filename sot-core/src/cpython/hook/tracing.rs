//! Detects tools that watch the running lines: debuggers and coverage tools use `sys.settrace` or `sys.monitoring`.

use std::ffi::c_void;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::import;
use crate::cpython::layout::TRACE_FUNCTION;

/// True if a trace function is set for this thread.
#[inline]
pub fn is_traced(_: Python<'_>) -> bool {
    // SAFETY: the state of this thread, which holds the GIL, is alive and larger than that.
    unsafe { !(*ffi::PyThreadState_Get().cast::<*const c_void>().add(TRACE_FUNCTION)).is_null() }
}

/// True if a profile function is set for this thread (before 3.12, `cProfile` sets one, too).
#[inline]
pub fn is_profiled(_: Python<'_>) -> bool {
    // SAFETY: as above; `c_profilefunc` lies before `c_tracefunc`.
    unsafe { !(*ffi::PyThreadState_Get().cast::<*const c_void>().add(TRACE_FUNCTION - 1)).is_null() }
}

/// True if a debugger is registered (`sys.monitoring.DEBUGGER_ID`, from 3.12 on).
pub fn has_debugger(py: Python<'_>) -> PyResult<bool> {
    let Some(monitoring) = import(py, "sys")?.getattr_opt("monitoring")? else { return Ok(false) };
    let tool = monitoring.call_method1("get_tool", (monitoring.getattr("DEBUGGER_ID")?,))?;
    Ok(!tool.is_none())
}
