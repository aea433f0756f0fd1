//! Code that must not run while a statement is built: its frames raise instead. Building calls the framework's own
//! code, which may call functions that the program has put in place of framework functions. If these ran here, they
//! would run at another time, or more often, than in the program.

use std::ptr::{from_ref, null, null_mut};

use pyo3::exceptions::PyNotImplementedError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCode;
use rustc_hash::FxHashMap;

use crate::cpython::hook::{frames, run, session, Mode, Thread, THREAD};
use crate::cpython::layout::Frame;

/// Code objects whose frames raise `NotImplementedError`, with the text of the error. They are identified by address:
/// the owner of this value has to keep them alive.
#[derive(Debug, Default)]
pub struct RefusedCode(FxHashMap<usize, String>);

impl RefusedCode {
    /// Adds a code object.
    pub fn add(&mut self, code: &Bound<'_, PyCode>, text: String) {
        self.0.insert(code.as_ptr() as usize, text);
    }
}

/// Does work in which frames of the code raise. Returns `None`, without doing the work, if frames do not reach the
/// hook here.
pub fn refusing<T>(py: Python<'_>, code: &RefusedCode, work: impl FnOnce() -> T) -> Option<T> {
    if THREAD.with(|thread| thread.mode.get()) != Mode::Suspended || !session::has_slot(py) {
        return None;
    }
    let _scope = RefusalScope(THREAD.with(|thread| thread.refused.replace(from_ref(code))));
    Some(work())
}

/// The code refused before; it is refused again when this is dropped.
struct RefusalScope(*const RefusedCode);

impl Drop for RefusalScope {
    fn drop(&mut self) {
        THREAD.with(|thread| thread.refused.set(self.0));
    }
}

/// No code is refused.
pub(in crate::cpython) const NONE: *const RefusedCode = null();

/// Runs a frame of a suspended thread, or raises.
///
/// # Safety
/// Called as CPython calls an evaluator.
#[cold]
pub(in crate::cpython) unsafe fn run_or_refuse(
    thread: &Thread,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    throwflag: std::ffi::c_int,
) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller. The refused code lives until the work is done, and the frame runs within this
    // work.
    unsafe {
        let text = (*thread.refused.get()).0.get(&((*frame).code as usize));
        let Some(text) = text.filter(|_| throwflag == 0 && frames::is_fresh(frame)) else {
            return run(ts, frame, throwflag);
        };
        let raised = Python::try_attach(|py| PyNotImplementedError::new_err(text.clone()).restore(py));
        if raised.is_none() {
            return run(ts, frame, throwflag);
        }
        frames::release(ts, frame);
        null_mut()
    }
}
