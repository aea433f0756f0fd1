//! Defers signal handlers while the tracer works. CPython runs them on the thread that it considers the main thread;
//! while signals are deferred, it considers no thread as that. Signals that arrive stay pending in CPython. Their
//! handlers run when the program continues: in the program's own frame, within the program's own `try` statements.
//!
//! Nothing that the program could see is changed: neither handlers nor the process's signal mask or wakeup
//! descriptor.

use std::cell::Cell;
use std::ffi::c_ulong;
use std::marker::PhantomData;
use std::sync::atomic::{compiler_fence, AtomicI32, AtomicU64, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::cpython::hook::thread_exceptions::exception_waits;
use crate::cpython::import;
use crate::cpython::layout::SIGNALS;

/// Offsets of the fields of `_PyRuntime` that decide when handlers run.
pub(in crate::cpython) struct SignalFields {
    /// `interpreters.main`
    pub(in crate::cpython) main_interpreter: usize,
    /// `main_thread`, an `unsigned long`
    pub(in crate::cpython) main_thread: usize,
    /// An `int` that is not 0 if a signal has arrived: `ceval.signals_pending`, from 3.12 on `signals.is_tripped`.
    pub(in crate::cpython) waiting: usize,
    /// A field nearby with a known value, for the self test: `ceval.gil.interval`, from 3.12 on `signals.handlers`.
    pub(in crate::cpython) beside: usize,
}

const _: () = assert!(size_of::<c_ulong>() == size_of::<AtomicU64>());

extern "C" {
    static mut _PyRuntime: [u8; 0];
    fn PyThread_get_thread_ident() -> c_ulong;
    #[cfg_attr(not(Py_3_9), link_name = "_PyInterpreterState_Get")]
    #[cfg_attr(Py_3_9, link_name = "PyInterpreterState_Get")]
    pub(super) fn current_interpreter() -> *mut ffi::PyInterpreterState;
    /// The argument is `_PyRuntime.ceval`, from 3.9 on the interpreter.
    #[cfg(not(Py_3_13))]
    fn _PyEval_SignalReceived(of: *mut u8);
}

/// Address of a field of the runtime.
fn field<T>(offset: usize) -> *mut T {
    // SAFETY: the offset lies inside the struct, as the self test has seen.
    unsafe { (&raw mut _PyRuntime).cast::<u8>().add(offset).cast() }
}

fn main_thread() -> &'static AtomicU64 {
    // SAFETY: an aligned word that lives as long as the process; CPython changes it in a forked child only.
    unsafe { &*field::<AtomicU64>(SIGNALS.main_thread) }
}

/// Id of this thread.
#[inline]
pub(super) fn thread_number() -> c_ulong {
    // SAFETY: the function has no preconditions; it asks the system for a number.
    unsafe { PyThread_get_thread_ident() }
}

/// True if a signal has arrived whose handler is deferred, or if another thread has set an exception that is held.
pub fn signal_waits() -> bool {
    main_thread().load(Ordering::Relaxed) == 0 && has_signals() || exception_waits()
}

/// True if a signal has arrived whose handler has not run yet.
#[inline]
pub fn has_signals() -> bool {
    // SAFETY: an aligned `int` that lives as long as the process, and that CPython reads and writes atomically.
    unsafe { (*field::<AtomicI32>(SIGNALS.waiting)).load(Ordering::Relaxed) != 0 }
}

thread_local! {
    /// True if signals stay deferred when the running function returns.
    static HELD: Cell<bool> = const { Cell::new(false) };
}

/// Signal handlers are deferred while this lives.
#[must_use = "handlers run again when this is dropped"]
#[derive(Debug)]
pub struct Deferred<'py> {
    /// Id of this thread, if it is the main thread and signals were not deferred before.
    thread: Option<c_ulong>,
    token: PhantomData<(Python<'py>, *const ())>,
}

/// Defers signal handlers. Has no effect on threads other than the main thread.
#[inline]
pub fn defer_signals(_: Python<'_>) -> Deferred<'_> {
    let here = thread_number();
    let is_main = main_thread().load(Ordering::Relaxed) == here;
    if is_main {
        main_thread().store(0, Ordering::Relaxed);
    }
    Deferred { thread: is_main.then_some(here), token: PhantomData }
}

impl Deferred<'_> {
    /// Keeps signals deferred when the running function returns. Its caller has to take this over ([`take_held`]).
    pub fn hold(self) {
        if self.thread.is_some() {
            HELD.set(true);
            std::mem::forget(self);
        }
    }
}

impl Drop for Deferred<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(thread) = self.thread else { return };
        main_thread().store(thread, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if has_signals() {
            request_signal_check();
        }
    }
}

/// Takes over the deferral that a called function has left in effect.
#[inline]
pub fn take_held(_: Python<'_>) -> Option<Deferred<'_>> {
    HELD.take().then(|| Deferred { thread: Some(thread_number()), token: PhantomData })
}

/// Ends a deferral that a function has left in effect before it raised.
#[inline]
pub(in crate::cpython) fn release_held() {
    if HELD.get() {
        Python::try_attach(|py| drop(take_held(py)));
    }
}

/// Makes the evaluation loop check for signals again, because it may have checked while they were deferred.
#[cold]
fn request_signal_check() {
    #[cfg(not(Py_3_9))]
    // SAFETY: this is what the C handler of a signal does, except for recording the signal's number.
    unsafe {
        _PyEval_SignalReceived(field(crate::cpython::layout::CEVAL));
    }
    #[cfg(all(Py_3_9, not(Py_3_13)))]
    // SAFETY: as above; the main thread's interpreter is the one that signals are for.
    unsafe {
        _PyEval_SignalReceived(current_interpreter().cast());
    }
    #[cfg(Py_3_13)]
    // SAFETY: as above; the field is one of the main thread's own state, which CPython changes atomically.
    unsafe {
        use crate::cpython::layout::{EVAL_BREAKER, SIGNALS_PENDING};
        let breaker = ffi::PyThreadState_Get().cast::<std::sync::atomic::AtomicUsize>().add(EVAL_BREAKER);
        (*breaker).fetch_or(SIGNALS_PENDING, Ordering::SeqCst);
    }
}

/// Returns the first field that is not at its expected place.
pub(in crate::cpython) fn layout_problem(py: Python<'_>) -> PyResult<Option<&'static str>> {
    // SAFETY: the GIL is held; both fields are words of the runtime, if the layout is right.
    let is_main = unsafe { *field::<*mut ffi::PyInterpreterState>(SIGNALS.main_interpreter) == current_interpreter() };
    if !is_main {
        return Ok(Some("_PyRuntime.interpreters.main"));
    }
    if !is_at_expected_place(py)? {
        return Ok(Some("_PyRuntime.signals"));
    }
    let module = import(py, "_signal")?;
    let number = module.getattr("SIGINT")?;
    let deferred = defer_signals(py);
    if deferred.thread.is_some() {
        // `signal.signal` is refused outside the main thread; otherwise this call changes nothing.
        let set = module.call_method1("signal", (&number, module.call_method1("getsignal", (&number,))?));
        if !set.is_err_and(|error| error.is_instance_of::<PyValueError>(py)) {
            return Ok(Some("_PyRuntime.main_thread"));
        }
    }
    Ok(None)
}

/// True if the switch interval of threads, in microseconds, is at its expected place.
#[cfg(not(Py_3_12))]
fn is_at_expected_place(py: Python<'_>) -> PyResult<bool> {
    let seconds: f64 = import(py, "sys")?.call_method0("getswitchinterval")?.extract()?;
    // SAFETY: a word of the runtime, if the layout is right.
    let interval = unsafe { *field::<c_ulong>(SIGNALS.beside) };
    Ok((seconds * 1e6 - interval as f64).abs() < 2.0)
}

/// True if the signal handlers are at their expected place.
#[cfg(Py_3_12)]
fn is_at_expected_place(py: Python<'_>) -> PyResult<bool> {
    let module = import(py, "_signal")?;
    let number: usize = module.getattr("SIGINT")?.extract()?;
    let handler = module.call_method1("getsignal", (number,))?;
    // SAFETY: a word of the runtime, if the layout is right: a number and a handler for each signal.
    let found = unsafe { *field::<*mut ffi::PyObject>(SIGNALS.beside + number * 16 + 8) };
    Ok(found == handler.as_ptr() || (found.is_null() && handler.is_none()))
}
