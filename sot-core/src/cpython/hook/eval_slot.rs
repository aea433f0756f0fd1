//! The interpreter's frame evaluation slot, from 3.9 on: accessed by a pair of C functions.

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

/// The type that pyo3 declares for the getter's result.
#[cfg(Py_3_11)]
type Declared = ffi::_PyFrameEvalFunction;
/// The type that pyo3 declares for the getter's result.
#[cfg(not(Py_3_11))]
type Declared = Option<ffi::_PyFrameEvalFunction>;

/// The slot of the running interpreter.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpython) struct EvalSlot(*mut ffi::PyInterpreterState);

impl EvalSlot {
    /// Finds the slot.
    ///
    /// # Safety
    /// The GIL is held.
    #[inline]
    #[allow(clippy::unnecessary_wraps, reason = "3.8 has to search for the slot and may fail")]
    pub(in crate::cpython) unsafe fn find() -> Result<EvalSlot, HookError> {
        // SAFETY: the GIL is held, so there is a current interpreter.
        Ok(EvalSlot(unsafe { ffi::PyInterpreterState_Get() }))
    }

    /// Returns the evaluator in the slot.
    ///
    /// # Safety
    /// The GIL is held, and code of the interpreter's runs.
    #[inline]
    pub(in crate::cpython) unsafe fn get(self) -> EvalFrame {
        // SAFETY: the interpreter is alive because its code runs. The signature that pyo3 declares differs only in
        // the opaque frame type. The result is never null: if nothing is set it is the default evaluator.
        unsafe { transmute::<Declared, EvalFrame>(ffi::_PyInterpreterState_GetEvalFrameFunc(self.0)) }
    }

    /// Puts an evaluator into the slot.
    ///
    /// # Safety
    /// As of [`EvalSlot::get`].
    #[inline]
    pub(in crate::cpython) unsafe fn set(self, eval: EvalFrame) {
        // SAFETY: as above.
        unsafe {
            let eval = transmute::<EvalFrame, ffi::_PyFrameEvalFunction>(eval);
            ffi::_PyInterpreterState_SetEvalFrameFunc(self.0, Some(eval));
        }
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
    // SAFETY: guaranteed by the caller.
    unsafe { eval(ts, frame, throwflag) }
}
