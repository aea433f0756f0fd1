//! Holds back exceptions that other threads set for this one (`PyThreadState_SetAsyncExc`) while the tracer works or
//! a graph runs. CPython raises such an exception in any Python code that the thread runs; code of the tracer or the
//! framework would take it for an error of its own.
//!
//! CPython finds a thread by its id, in a list of thread states in which newer states come first. So each thread gets
//! a second state, which runs nothing. While exceptions are held, the second state has the thread's id, and is found
//! first; otherwise it has no id. Afterwards an exception that was set for it is set for the thread's own state, and
//! raised in the program's own frame.

use std::cell::Cell;
use std::ffi::{c_int, c_ulong};
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::Once;

use parking_lot::Mutex;
use pyo3::exceptions::PySystemExit;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::hook::signals::{current_interpreter, thread_number};
use crate::cpython::layout::THREAD_EXCEPTION;

extern "C" {
    fn PyThreadState_SetAsyncExc(thread: c_ulong, exception: *mut ffi::PyObject) -> c_int;
}

/// Number of forks that led to this process. In a child process, only the state of the forking thread exists.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Second states of threads that have ended, to be deleted by the next holder of the GIL. Nobody waits for the lock,
/// because in a child process it may be held by a thread that does not exist there. A state that could not be added
/// stays until the process ends.
static ORPHANS: Mutex<Vec<AtomicPtr<ffi::PyThreadState>>> = Mutex::new(Vec::new());

/// The second state of this thread.
struct SecondThreadState {
    state: Cell<*mut ffi::PyThreadState>,
    /// [`FORKS`] when the state was created.
    forks: Cell<u32>,
}

thread_local! {
    static SECOND_THREAD_STATE: SecondThreadState =
        const { SecondThreadState { state: Cell::new(null_mut()), forks: Cell::new(0) } };
}

impl SecondThreadState {
    /// Returns the state, if there is one.
    #[inline]
    fn get(&self) -> Option<*mut ffi::PyThreadState> {
        let state = self.state.get();
        (!state.is_null() && self.forks.get() == FORKS.load(Ordering::Relaxed)).then_some(state)
    }

    /// Creates the state. Null if CPython has no memory for it.
    #[cold]
    fn make(&self, _: Python<'_>) -> *mut ffi::PyThreadState {
        static WATCHED: Once = Once::new();
        extern "C" fn in_child() {
            FORKS.fetch_add(1, Ordering::Relaxed);
            // The states have gone with their threads.
            if let Some(mut orphans) = ORPHANS.try_lock() {
                orphans.clear();
            }
        }
        // SAFETY: the handler uses atomics, and a mutex for which it does not wait.
        WATCHED.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        });
        let orphans = ORPHANS.try_lock().map(|mut orphans| std::mem::take(&mut *orphans)).unwrap_or_default();
        for orphan in orphans {
            let orphan = orphan.into_inner();
            // SAFETY: the GIL is held. The state has run nothing, and only its thread knew it, which has ended.
            unsafe {
                ffi::PyThreadState_Clear(orphan);
                ffi::PyThreadState_Delete(orphan);
            }
        }
        // SAFETY: the GIL is held, so this thread has a state; the new one is never made current.
        let state = unsafe { ffi::PyThreadState_New(current_interpreter()) };
        if !state.is_null() {
            // SAFETY: the state was just made, and nothing has freed it.
            unsafe { *number(state) = 0 };
        }
        self.state.set(state);
        self.forks.set(FORKS.load(Ordering::Relaxed));
        state
    }
}

impl Drop for SecondThreadState {
    fn drop(&mut self) {
        if let Some(state) = self.get() {
            if let Some(mut orphans) = ORPHANS.try_lock() {
                orphans.push(AtomicPtr::new(state));
            }
        }
    }
}

/// This thread's second state, if there is one and the thread has not ended.
#[inline]
fn known() -> Option<*mut ffi::PyThreadState> {
    SECOND_THREAD_STATE.try_with(SecondThreadState::get).ok().flatten()
}

/// Address of the exception that is to be raised, in a thread's state.
///
/// # Safety
/// The state is alive.
#[inline]
unsafe fn waiting(state: *mut ffi::PyThreadState) -> *mut *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller; the word lies inside the struct, as the self test has seen.
    unsafe { state.cast::<*mut ffi::PyObject>().add(THREAD_EXCEPTION) }
}

/// Address of the thread's id, by which CPython finds it, in a thread's state.
///
/// # Safety
/// The state is alive.
#[inline]
unsafe fn number(state: *mut ffi::PyThreadState) -> *mut c_ulong {
    // SAFETY: guaranteed by the caller; it comes right behind, as the self test has seen.
    unsafe { waiting(state).add(1).cast() }
}

/// True if an exception set by another thread is held.
pub(in crate::cpython) fn exception_waits() -> bool {
    // SAFETY: a known state is alive: it is freed only after its thread has ended.
    known().is_some_and(|taker| unsafe { *number(taker) != 0 && !(*waiting(taker)).is_null() })
}

/// While this lives, exceptions set by other threads are not raised in this one.
#[must_use = "what was set is raised when this is dropped"]
#[derive(Debug)]
pub struct HeldExceptions<'py> {
    /// The thread's second state, if exceptions were not held before.
    taker: Option<*mut ffi::PyThreadState>,
    /// [`FORKS`] when exceptions began to be held.
    forks: u32,
    token: PhantomData<(Python<'py>, *const ())>,
}

/// Holds exceptions that other threads set for this one, including one that has been set already.
#[inline]
pub fn hold_exceptions(py: Python<'_>) -> HeldExceptions<'_> {
    let taker = known().unwrap_or_else(|| SECOND_THREAD_STATE.try_with(|taker| taker.make(py)).unwrap_or(null_mut()));
    // SAFETY: the state is null, or was just made, or is known, and so alive until its thread has ended.
    if taker.is_null() || unsafe { *number(taker) != 0 } {
        return HeldExceptions { taker: None, forks: 0, token: PhantomData };
    }
    // SAFETY: the GIL is held, so nobody else looks at these fields, and both states are alive.
    unsafe {
        let thread = ffi::PyThreadState_Get();
        *number(taker) = *number(thread);
        let own = waiting(thread);
        if !(*own).is_null() {
            *waiting(taker) = (*own).cast();
            *own = null_mut();
        }
    }
    HeldExceptions { taker: Some(taker), forks: FORKS.load(Ordering::Relaxed), token: PhantomData }
}

impl Drop for HeldExceptions<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(taker) = self.taker else { return };
        // If the process has been forked meanwhile, the child does not have the state.
        if self.forks != FORKS.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: the GIL is held, and the state is alive: a thread that holds exceptions has not ended.
        unsafe {
            *number(taker) = 0;
            if !(*waiting(taker)).is_null() {
                raise_later(taker);
            }
        }
    }
}

/// Sets the second state's exception for this thread's own state.
///
/// # Safety
/// The GIL is held, and the state is alive.
#[cold]
unsafe fn raise_later(taker: *mut ffi::PyThreadState) {
    // SAFETY: guaranteed by the caller; the exception belongs to the state, and CPython takes a reference of its own.
    unsafe {
        let exception = std::mem::replace(&mut *waiting(taker), null_mut());
        PyThreadState_SetAsyncExc(thread_number(), exception);
        ffi::Py_DECREF(exception);
    }
}

/// Returns the first field that is not at its expected place.
///
/// A sample exception is set, held, and raised in some code, like one of the program's. It has to be raised: up to
/// 3.12, CPython checks for such exceptions again and again until it has raised the announced one, and 3.11 never
/// gets past the start of a function that is traced meanwhile.
pub(in crate::cpython) fn layout_problem(py: Python<'_>) -> Option<&'static str> {
    let sample = py.get_type::<PySystemExit>();
    // SAFETY: the GIL is held.
    let own = unsafe { ffi::PyThreadState_Get() };
    // SAFETY: the running thread's own state is alive.
    if unsafe { *number(own) } != thread_number() {
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
        // SAFETY: the GIL is held. Null clears an exception that was not raised, and the exception set before is
        // alive.
        unsafe {
            PyThreadState_SetAsyncExc(thread_number(), before);
            ffi::Py_XDECREF(before);
        }
    }
    (!(arrived && is_raised)).then_some("PyThreadState.async_exc")
}
