//! Whose fault it is that a translation came to a bug: which registration was running, the innermost one, when it
//! panicked or raised what nobody expected, and where the panic was. Nothing is written while all goes well.

use std::cell::Cell;
use std::panic;
use std::sync::{Once, OnceLock};

use pyo3::PyResult;

use crate::error::{Flow, Unwind};
use crate::origin::{Linked, Registered};

thread_local! {
    static AT_FAULT: Cell<Option<Linked>> = const { Cell::new(None) };
    static PANICKED_AT: Cell<Option<String>> = const { Cell::new(None) };
}

/// Runs what a registration holds. A panic in it, or an exception that is no exception of the program's, is laid at its
/// door.
#[inline]
pub fn running<T>(registration: &impl Registered, work: impl FnOnce() -> Flow<T>) -> Flow<T> {
    let result = watching(registration, work);
    if let Err(Unwind::Internal(_)) = &result {
        note(registration);
    }
    result
}

/// The same, of what cannot fail but by a panic.
#[inline]
pub fn watching<T>(registration: &impl Registered, work: impl FnOnce() -> T) -> T {
    let on_panic = OnPanic(registration);
    let result = work();
    std::mem::forget(on_panic);
    result
}

static BACKEND: OnceLock<Linked> = OnceLock::new();

/// Says which backend is in use.
pub(crate) fn backend_is(backend: &impl Registered) {
    let _ = BACKEND.set(backend.linked());
}

/// The backend in use.
pub(crate) fn backend() -> Option<Linked> {
    BACKEND.get().copied()
}

/// Runs what is the backend's and may refuse: only a panic is laid at its door.
pub(crate) fn in_backend<T>(work: impl FnOnce() -> T) -> T {
    match BACKEND.get() {
        Some(backend) => watching(backend, work),
        None => work(),
    }
}

/// Runs what is the backend's and has nothing to refuse.
pub(crate) fn of_backend<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    in_backend(work).inspect_err(|_| BACKEND.get().into_iter().for_each(note))
}

/// Dropped by a panic only.
struct OnPanic<'a, R: Registered>(&'a R);

impl<R: Registered> Drop for OnPanic<'_, R> {
    fn drop(&mut self) {
        note(self.0);
    }
}

/// The first to be noted is the innermost.
#[cold]
fn note(registration: &impl Registered) {
    AT_FAULT.with(|at_fault| {
        if at_fault.get().is_none() {
            at_fault.set(Some(registration.linked()));
        }
    });
}

/// The registration at fault since the last call, if any.
pub(crate) fn take() -> Option<Linked> {
    AT_FAULT.with(Cell::take)
}

/// From now on it is known where a panic was, as the program's own report of it says.
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

/// Where the last panic of the thread was.
pub(crate) fn panicked_at() -> Option<String> {
    PANICKED_AT.with(Cell::take)
}
