//! Releases what compiling a program leaves behind before it can do harm. `Block.kwargs()` of Paddle returns values
//! that are references into the program. `RunnableProgram` keeps them in lists of functions that refer to themselves,
//! so the lists live until the garbage collector runs. If the program dies first, pybind11 takes the next value that
//! happens to lie at such an address for the old one, and Paddle reads freed memory.

use pyo3::intern;
use pyo3::prelude::*;

use sot_core::cpython;

/// Does `work` with automatic garbage collection off, so that its garbage stays in the youngest generation, and then
/// collects that generation.
pub(crate) fn collected<T>(py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let gc = cpython::import(py, "gc")?;
    let enabled = gc.call_method0(intern!(py, "isenabled"))?.is_truthy()?;
    gc.call_method0(intern!(py, "disable"))?;
    let result = work();
    if enabled {
        gc.call_method0(intern!(py, "enable"))?;
    }
    gc.call_method1(intern!(py, "collect"), (0,))?;
    result
}
