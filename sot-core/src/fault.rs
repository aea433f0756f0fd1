//! Blames a bug in a translation on a registration: the innermost handler, kind or backend that was running when the
//! bug showed as a panic or as an unexpected Python exception. Notes the place of the panic, too. Code that succeeds
//! writes nothing.

use std::cell::Cell;
use std::panic;
use std::sync::{Once, OnceLock};

use pyo3::PyResult;

use crate::error::{Flow, Unwind};
use crate::origin::{LinkedRegistration, Registered};

thread_local! {
    static AT_FAULT: Cell<Option<LinkedRegistration>> = const { Cell::new(None) };
    static PANICKED_AT: Cell<Option<String>> = const { Cell::new(None) };
}

/// Runs code of a registration. The registration is blamed for a panic, and for a Python exception that is not the
/// program's (`Unwind::Internal`).
#[inline]
pub fn running<T>(registration: &impl Registered, work: impl FnOnce() -> Flow<T>) -> Flow<T> {
    let result = watching(registration, work);
    if let Err(Unwind::Internal(_)) = &result {
        note(registration);
    }
    result
}

/// Runs code of a registration that can fail only by a panic, and blames the registration for it.
#[inline]
pub fn watching<T>(registration: &impl Registered, work: impl FnOnce() -> T) -> T {
    let on_panic = OnPanic(registration);
    let result = work();
    std::mem::forget(on_panic);
    result
}

static BACKEND: OnceLock<LinkedRegistration> = OnceLock::new();

/// Sets the backend in use.
pub(crate) fn backend_is(backend: &impl Registered) {
    let _ = BACKEND.set(backend.linked());
}

/// The backend in use.
pub(crate) fn backend() -> Option<LinkedRegistration> {
    BACKEND.get().copied()
}

/// Runs code of the backend that may refuse its input by an error: only a panic is blamed on the backend.
pub(crate) fn in_backend<T>(work: impl FnOnce() -> T) -> T {
    match BACKEND.get() {
        Some(backend) => watching(backend, work),
        None => work(),
    }
}

/// Runs code of the backend that has no reason to fail: an error is blamed on the backend, too.
pub(crate) fn of_backend<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    in_backend(work).inspect_err(|_| BACKEND.get().into_iter().for_each(note))
}

/// Returns the backend's answer to a question. If the backend fails, that is noted, and `safe` is the answer: the one
/// that lets the trace assume least.
pub fn answer<T>(answered: PyResult<T>, safe: T) -> T {
    answered.unwrap_or_else(|_| {
        BACKEND.get().into_iter().for_each(note);
        safe
    })
}

/// Blames the registration when a panic drops it; forgotten otherwise.
struct OnPanic<'a, R: Registered>(&'a R);

impl<R: Registered> Drop for OnPanic<'_, R> {
    fn drop(&mut self) {
        note(self.0);
    }
}

/// Notes the registration at fault, unless an inner one is noted already.
#[cold]
fn note(registration: &impl Registered) {
    AT_FAULT.with(|at_fault| {
        if at_fault.get().is_none() {
            at_fault.set(Some(registration.linked()));
        }
    });
}

/// Takes the registration noted since the last call, if any.
pub(crate) fn take() -> Option<LinkedRegistration> {
    AT_FAULT.with(Cell::take)
}

/// Installs a panic hook that notes where a panic happens, and then calls the previous hook.
pub(crate) fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            let place = panicked.location().map(|at| format!("{}:{}", at.file(), at.line()));
            PANICKED_AT.with(|at| at.set(place));
            before(panicked);
        }));
    });
}

/// Takes the place of the thread's last panic.
pub(crate) fn panicked_at() -> Option<String> {
    PANICKED_AT.with(Cell::take)
}
