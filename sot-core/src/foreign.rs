//! What a plug-in finds in objects that the core knows nothing of: an item of a container of a C extension, the parts
//! of an object that the program has said how to take apart.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use pyo3::prelude::*;

/// How something in an object is found. A tracker holds it ([`crate::tracker::Tracker::Foreign`]); guards fetch by it
/// at each call, and new code loads by it.
pub trait ForeignFetch: Send + Sync {
    /// Whose it is, for reports.
    fn plugin(&self) -> String;
    /// What is there now; `None` fails the guard. New code, which runs where the guards hold, loads by it, too.
    fn fetch<'py>(&self, object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>>;
    /// The value as a Python expression, for texts; `of` is the object's.
    fn text(&self, of: &str) -> String;
    /// Fetches of one plug-in with the same key find the same.
    fn key(&self) -> String;
}

/// A handle on how something is found, compared by plug-in and key.
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
