//! What other threads raise in this one (`PyThreadState_SetAsyncExc`) waits while the tracer works: CPython raises it in any
//! Python code that the thread runs, and code of the tracer's or the framework's would take it for an error of its own.
//!
//! CPython finds a thread by its number, in a list in which newer states come first. While the tracer works the thread has
//! a second state, which runs nothing and is there to be found. What was set for it is then set for the thread's own
//! state, and raised in the program's own frame.

use std::cell::Cell;
use std::ffi::{c_int, c_ulong};
use std::marker::PhantomData;
use std::ptr::null_mut;

use pyo3::exceptions::PySystemExit;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::hook::signals::{current_interpreter, thread_number};
use crate::cpython::layout::THREAD_EXCEPTION;

extern "C" {
    fn PyThreadState_SetAsyncExc(thread: c_ulong, exception: *mut ffi::PyObject) -> c_int;
}

/// The second state of a thread.
#[derive(Debug, Clone, Copy)]
struct Taker {
    state: *mut ffi::PyThreadState,
    /// The process that it was made in. A child process has no state but that of the thread that forked.
    process: u32,
}

impl Taker {
    const NONE: Taker = Taker { state: null_mut(), process: 0 };

    fn is_alive(self) -> bool {
        !self.state.is_null() && self.process == std::process::id()
    }
}

thread_local! {
    static TAKER: Cell<Taker> = const { Cell::new(Taker::NONE) };
}

/// Where a thread's state has the exception that is to be raised in it.
///
/// # Safety
/// The state is alive.
unsafe fn waiting(state: *mut ffi::PyThreadState) -> *mut *mut ffi::PyObject {
    // SAFETY: the caller's promise; the word lies inside the struct, as the self test has seen.
    unsafe { state.cast::<*mut ffi::PyObject>().add(THREAD_EXCEPTION) }
}

/// Whether another thread has set an exception that waits.
pub(in crate::cpython) fn exception_waits() -> bool {
    let taker = TAKER.get();
    // SAFETY: the state is alive.
    taker.is_alive() && unsafe { !(*waiting(taker.state)).is_null() }
}

/// While it lives, nothing is raised in this thread that another one has set.
#[must_use = "what was set is raised when this is dropped"]
#[derive(Debug)]
pub struct HeldExceptions<'py> {
    /// Whether nobody held them already.
    is_outermost: bool,
    token: PhantomData<(Python<'py>, *const ())>,
}

/// Has what other threads set for this one wait, and what they have set already.
pub fn hold_exceptions(_: Python<'_>) -> HeldExceptions<'_> {
    if TAKER.get().is_alive() {
        return HeldExceptions { is_outermost: false, token: PhantomData };
    }
    // SAFETY: the GIL is held, so this thread has a state; the new one, which has the thread's number, is never made current.
    unsafe {
        let own = ffi::PyThreadState_Get();
        let state = ffi::PyThreadState_New(current_interpreter());
        if !state.is_null() {
            *waiting(state) = (*waiting(own)).cast();
            *waiting(own) = null_mut();
            TAKER.set(Taker { state, process: std::process::id() });
        }
    }
    HeldExceptions { is_outermost: true, token: PhantomData }
}

impl Drop for HeldExceptions<'_> {
    fn drop(&mut self) {
        if !self.is_outermost {
            return;
        }
        let taker = TAKER.replace(Taker::NONE);
        if !taker.is_alive() {
            return;
        }
        // SAFETY: the GIL is held, and the state is alive: it has not been given to anybody.
        unsafe {
            let exception = *waiting(taker.state);
            *waiting(taker.state) = null_mut();
            ffi::PyThreadState_Clear(taker.state);
            ffi::PyThreadState_Delete(taker.state);
            if !exception.is_null() {
                PyThreadState_SetAsyncExc(thread_number(), exception);
                ffi::Py_DECREF(exception);
            }
        }
    }
}

/// The field that is not where it is expected.
///
/// A sample is set, held, and raised in some code, as the program's would be. It must be raised: up to 3.12 CPython looks for
/// waiting exceptions at every turn until it has raised the one that it was told of, and 3.11 never leaves the start of
/// a function that is traced meanwhile.
pub(in crate::cpython) fn layout_problem(py: Python<'_>) -> Option<&'static str> {
    let sample = py.get_type::<PySystemExit>();
    // SAFETY: the GIL is held.
    let own = unsafe { ffi::PyThreadState_Get() };
    // SAFETY: the state is alive; the thread's number comes right behind.
    if unsafe { *waiting(own).add(1).cast::<c_ulong>() } != thread_number() {
        return Some("PyThreadState.thread_id");
    }
    // SAFETY: as above.
    let before = unsafe { std::mem::replace(&mut *waiting(own), null_mut()) };
    let held = hold_exceptions(py);
    // SAFETY: the GIL is held, and the type is alive.
    unsafe { PyThreadState_SetAsyncExc(thread_number(), sample.as_ptr()) };
    let arrived = exception_waits();
    drop(held);
    let raised = py.run(c"for _ in range(9): pass", None, None);
    let is_raised = raised.is_err_and(|error| error.is_instance(py, &sample));
    if !before.is_null() || !is_raised {
        // SAFETY: the GIL is held; null takes back what was not raised, and what waited before is alive.
        unsafe {
            PyThreadState_SetAsyncExc(thread_number(), before);
            ffi::Py_XDECREF(before);
        }
    }
    (!(arrived && is_raised)).then_some("PyThreadState.async_exc")
}
