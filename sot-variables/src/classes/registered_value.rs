//! Objects of classes that the program has registered as values: immutable, and compared by `==`.

use std::sync::Arc;

use pyo3::prelude::*;
use sot_core::backend::ObjectTest;
use sot_core::registered::{self, Registration};
use sot_core::tracker::repr;

/// True if the object is an instance of a class that was registered as a value class.
pub(crate) fn is_one(object: &Bound<'_, PyAny>) -> bool {
    registered::value_class(object.get_type().as_any()).is_some()
}

/// Guard: the object is of the same class, and equal.
pub(crate) struct EqualValue {
    pub(crate) value: Py<PyAny>,
    pub(crate) registration: Arc<Registration>,
}

impl ObjectTest for EqualValue {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        let value = self.value.bind(object.py());
        let is_equal = || self.registration.ask(object.py(), "`==` of instances", || value.eq(object)).unwrap_or(false);
        value.is(object) || value.get_type().is(object.get_type()) && is_equal()
    }

    fn describe(&self, subject: &str) -> String {
        Python::attach(|py| format!("{subject} == {}", repr(py, &self.value)))
    }
}
