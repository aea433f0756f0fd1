//! Whose fault it is that a translation came to a bug: which registration was running, the innermost one, when it
//! panicked or raised what nobody expected. Nothing is written while all goes well.

use std::cell::Cell;

use crate::error::{Flow, Unwind};
use crate::origin::{Linked, Registered};

thread_local! {
    static AT_FAULT: Cell<Option<Linked>> = const { Cell::new(None) };
}

/// Runs what a registration holds. A panic in it, or an exception that is no exception of the program's, is laid at its
/// door.
#[inline]
pub fn running<T>(registration: &impl Registered, work: impl FnOnce() -> Flow<T>) -> Flow<T> {
    let result = running_infallible(registration, work);
    if let Err(Unwind::Internal(_)) = &result {
        note(registration);
    }
    result
}

/// The same, of what cannot fail but by a panic.
#[inline]
pub fn running_infallible<T>(registration: &impl Registered, work: impl FnOnce() -> T) -> T {
    let on_panic = OnPanic(registration);
    let result = work();
    std::mem::forget(on_panic);
    result
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
pub fn take() -> Option<Linked> {
    AT_FAULT.with(Cell::take)
}
