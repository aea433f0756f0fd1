//! The evaluator's read-only view of a frame that is about to run: code, namespaces, arguments and closure.

use std::fmt;
use std::marker::PhantomData;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyFunction};
use pyo3::Borrowed;

use crate::cpython::hook::frames;
use crate::cpython::layout::{Code, Frame};

/// The frame of a function that is about to run its first instruction. Nothing else can access it while this view
/// lives.
pub struct FreshFrame<'f, 'py> {
    py: Python<'py>,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    lives: PhantomData<&'f ()>,
}

impl<'py> FreshFrame<'_, 'py> {
    /// Creates the view of a frame.
    ///
    /// # Safety
    /// `ts` is the state of this thread. `frame` is fresh, of this thread, is not touched otherwise while the view lives,
    /// and outlives it.
    pub(in crate::cpython) unsafe fn new(py: Python<'py>, ts: *mut ffi::PyThreadState, frame: *mut Frame) -> Self {
        FreshFrame { py, ts, frame, lives: PhantomData }
    }

    /// Returns the interpreter token of the thread that the frame runs on.
    pub fn py(&self) -> Python<'py> {
        self.py
    }

    /// The frame's own code.
    #[inline]
    pub fn code(&self) -> Borrowed<'_, 'py, PyCode> {
        // SAFETY: the frame outlives the view, as `new` demands, and owns its code.
        unsafe { Borrowed::from_ptr(self.py, self.raw_code().cast()).cast_unchecked() }
    }

    /// The globals.
    #[inline]
    pub fn globals(&self) -> Borrowed<'_, 'py, PyDict> {
        // SAFETY: the frame outlives the view, and owns its globals, which are a dict.
        unsafe { Borrowed::from_ptr(self.py, (*self.frame).globals).cast_unchecked() }
    }

    /// The builtins: a dict, unless somebody has put another object into `__builtins__`.
    #[inline]
    pub fn builtins(&self) -> Borrowed<'_, 'py, PyAny> {
        // SAFETY: the frame outlives the view, and owns its builtins.
        unsafe { Borrowed::from_ptr(self.py, (*self.frame).builtins) }
    }

    /// Number of arguments, including keyword-only ones, `*args` and `**kwargs`.
    #[inline]
    pub fn arg_count(&self) -> usize {
        // SAFETY: the frame owns its code.
        unsafe { total_args(self.raw_code()) }
    }

    /// Argument `i`, in the order of `co_varnames`; `None` behind the last one.
    #[inline]
    pub fn arg(&self, i: usize) -> Option<Bound<'py, PyAny>> {
        if i >= self.arg_count() {
            return None;
        }
        // SAFETY: the frame is fresh, as `new` demands, and `i` is in range, as was checked.
        unsafe { Bound::from_borrowed_ptr_or_opt(self.py, frames::argument(self.frame, i)) }
    }

    /// The called function. CPython provides it from 3.11 on.
    #[inline]
    pub fn function(&self) -> Option<Bound<'py, PyFunction>> {
        // SAFETY: the frame is fresh, as `new` demands, and holds a function or null.
        unsafe {
            let function = Bound::from_borrowed_ptr_or_opt(self.py, frames::function(self.frame).cast())?;
            Some(function.cast_into_unchecked())
        }
    }

    /// Number of free variables.
    #[inline]
    pub fn closure_len(&self) -> usize {
        // SAFETY: the frame owns its code.
        unsafe { frames::free_count(self.raw_code()) }
    }

    /// The cell of free variable `i`, in the order of `co_freevars`; `None` behind the last one.
    #[inline]
    pub fn closure(&self, i: usize) -> Option<Bound<'py, PyAny>> {
        if i >= self.closure_len() {
            return None;
        }
        // SAFETY: the frame is fresh, as `new` demands, and `i` is in range, as was checked.
        unsafe { Bound::from_borrowed_ptr_or_opt(self.py, frames::closure_cell(self.frame, i)) }
    }

    /// Returns an inconsistency between the thread's data stack and the frame, for the self test.
    pub(in crate::cpython) fn stack_problem(&self) -> Option<&'static str> {
        // SAFETY: the frame is fresh and of this thread, as `new` demands.
        unsafe { frames::stack_problem(self.ts, self.frame) }
    }

    pub(in crate::cpython) fn raw_code(&self) -> *mut Code {
        // SAFETY: the frame outlives the view, as `new` demands.
        unsafe { (*self.frame).code }
    }
}

impl fmt::Debug for FreshFrame<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FreshFrame").field("code", &self.code()).finish_non_exhaustive()
    }
}

/// Number of arguments of a code object, `*args` and `**kwargs` included.
///
/// # Safety
/// `code` is a live code object.
#[inline]
pub(in crate::cpython) unsafe fn total_args(code: *mut Code) -> usize {
    // SAFETY: guaranteed by the caller.
    let (positional, kwonly, flags) = unsafe { ((*code).argcount, (*code).kwonlyargcount, (*code).flags) };
    let starred = i32::from(flags & ffi::CO_VARARGS != 0) + i32::from(flags & ffi::CO_VARKEYWORDS != 0);
    (positional + kwonly + starred) as usize
}
