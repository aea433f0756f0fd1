//! Interrupts of the program that come while the tracer runs.

use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::ffi;
use pyo3::prelude::*;

/// Whether the exception ends the program, as what a signal raises.
pub fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyKeyboardInterrupt>(py) || error.is_instance_of::<PySystemExit>(py)
}

/// Has an interrupt from the keyboard come again, to the frame that runs next; says whether it does.
pub fn interrupt_again(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    let signal = crate::cpython::import(py, "signal")?;
    let handler = signal.getattr("getsignal")?.call1((signal.getattr("SIGINT")?,))?;
    // A handler of the program's has run already.
    if !error.is_instance_of::<PyKeyboardInterrupt>(py) || !handler.is(&signal.getattr("default_int_handler")?) {
        return Ok(false);
    }
    // SAFETY: the thread is attached.
    unsafe { ffi::PyErr_SetInterrupt() };
    Ok(true)
}
