//! Fetches that a plug-in defines for objects the core knows nothing of: an item of a container of a C extension, or
//! the parts of an object for which the program has registered a function that takes it apart.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How a value is fetched from an object. A tracker holds the fetch ([`crate::tracker::Tracker::Foreign`]); guards
/// fetch with it at each call, and new code loads with it.
pub trait ForeignFetch: Send + Sync {
    /// Name of the plug-in, for reports.
    fn plugin(&self) -> String;
    /// True if the fetch runs a function that the program has registered.
    fn is_of_program(&self) -> bool {
        false
    }
    /// Fetches the value from the object. `None` fails the guard. New code, which runs only where the guards hold,
    /// uses this too.
    fn fetch<'py>(&self, object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>>;
    /// Fetches the value for new code, just after the guards have fetched it. The error is raised in the program.
    fn load<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let gone = || PyRuntimeError::new_err(format!("what {} has found is gone", self.plugin()));
        self.fetch(object).ok_or_else(gone)
    }
    /// The value as a Python expression, for texts; `of` is the expression of the object.
    fn text(&self, of: &str) -> String;
    /// Identifies the fetch within its plug-in: fetches with equal keys fetch the same value.
    fn key(&self) -> String;
}

/// A shared [`ForeignFetch`], compared by plug-in and key.
#[derive(Clone)]
pub struct Foreign(pub Arc<dyn ForeignFetch>);

impl PartialEq for Foreign {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key() && self.0.plugin() == other.0.plugin()
    }
}

impl Eq for Foreign {}

impl Hash for Foreign {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key().hash(state);
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.plugin(), self.0.key())
    }
}
