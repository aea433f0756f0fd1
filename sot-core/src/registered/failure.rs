//! Exceptions in what a program has registered, while guards are tested. They are not the program's own: the program
//! does not make these calls. The program is warned of the first one, and the frame whose guards were tested is left
//! to CPython. An exception that ends the program, such as `KeyboardInterrupt`, reaches the caller of the frame.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use super::Registration;
use crate::cpython;
use crate::warning::{told, warn};

thread_local! {
    static FAILURE: RefCell<Option<RegistrationFailure>> = const { RefCell::new(None) };
}

/// What was raised by registered code for a guard.
#[derive(Debug)]
pub enum RegistrationFailure {
    /// An `Exception`, as text that names the registration.
    Failed(String),
    /// An exception of another class, which the program must get.
    Ended(PyErr),
}

/// Runs registered code untranslated. Signal handlers, and exceptions that other threads raise in this one, wait until
/// it has ended: they are the program's, and are raised in the program's own frame.
pub(super) fn run<T>(py: Python<'_>, work: impl FnOnce() -> T) -> T {
    let (_signals, _exceptions) = (cpython::defer_signals(py), cpython::hold_exceptions(py));
    let _quiet = cpython::suspend(py);
    work()
}

impl Registration {
    /// Runs registered code for a guard. `what` names the code. Returns `None` if it raises, which [`take_failure`]
    /// then tells.
    pub fn ask<T>(&self, py: Python<'_>, what: &str, work: impl FnOnce() -> PyResult<T>) -> Option<T> {
        run(py, work).map_err(|error| self.note(py, what, error)).ok()
    }

    #[cold]
    fn note(&self, py: Python<'_>, what: &str, error: PyErr) {
        let failure = if error.is_instance_of::<PyException>(py) {
            let text = format!("{}: {what} raises {}", self.text_and_place(py), told(py, &error));
            if !self.has_failed.swap(true, Ordering::Relaxed) {
                let text = format!("{text}; calls for which it raises are left to CPython");
                run(py, || warn(py, &text));
            }
            RegistrationFailure::Failed(text)
        } else {
            RegistrationFailure::Ended(error)
        };
        let before = FAILURE.replace(Some(failure));
        if matches!(before, Some(RegistrationFailure::Ended(_))) {
            FAILURE.set(before);
        }
    }
}

/// True if registered code has raised while guards were tested, and nobody has asked for it yet.
pub fn has_failure() -> bool {
    FAILURE.with_borrow(Option::is_some)
}

/// Takes what registered code has raised in this thread while guards were tested.
pub fn take_failure() -> Option<RegistrationFailure> {
    FAILURE.take()
}
