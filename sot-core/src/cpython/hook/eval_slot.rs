//! The interpreter's frame evaluation slot, from 3.9 on: an accessor pair of CPython's.

use std::ffi::c_int;
use std::mem::transmute;

use pyo3::ffi;

use crate::cpython::hook::session::HookError;
use crate::cpython::layout::{EvalFrame, Frame};

extern "C-unwind" {
    /// CPython's own evaluator.
    #[link_name = "_PyEval_EvalFrameDefault"]
    pub(in crate::cpython) fn default_eval(
        ts: *mut ffi::PyThreadState,
        frame: *mut Frame,
        throwflag: c_int,
    ) -> *mut ffi::PyObject;
}

/// The type pyo3 gives the answer.
#[cfg(Py_3_11)]
type Declared = ffi::_PyFrameEvalFunction;
/// The type pyo3 gives the answer.
#[cfg(not(Py_3_11))]
type Declared = Option<ffi::_PyFrameEvalFunction>;

/// The evaluator now in the slot.
///
/// # Safety
/// The GIL is held.
#[allow(clippy::unnecessary_wraps, reason = "3.8 has to search for the slot and may fail")]
pub(in crate::cpython) unsafe fn current_eval() -> Result<EvalFrame, HookError> {
    // SAFETY: the GIL is held, so there is a current interpreter; the signature pyo3 declares differs only in the
    // opaque frame type; the answer is never null, where nothing is set it is the default.
    unsafe {
        let found = ffi::_PyInterpreterState_GetEvalFrameFunc(ffi::PyInterpreterState_Get());
        Ok(transmute::<Declared, EvalFrame>(found))
    }
}

/// Puts an evaluator into the slot.
///
/// # Safety
/// The GIL is held.
pub(in crate::cpython) unsafe fn set_eval(eval: EvalFrame) {
    // SAFETY: the GIL is held; the signature pyo3 declares differs only in the opaque frame type.
    unsafe {
        let eval = transmute::<EvalFrame, ffi::_PyFrameEvalFunction>(eval);
        ffi::_PyInterpreterState_SetEvalFrameFunc(ffi::PyInterpreterState_Get(), Some(eval));
    }
}

/// Calls an evaluator.
///
/// # Safety
/// As CPython calls it: the GIL is held and `frame` is about to run on this thread.
#[inline]
pub(in crate::cpython) unsafe fn call_eval(
    eval: EvalFrame,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    throwflag: c_int,
) -> *mut ffi::PyObject {
    // SAFETY: the caller's promise.
    unsafe { eval(ts, frame, throwflag) }
}
