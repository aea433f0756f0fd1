//! Tests that only a framework (or a plug-in) can define: tests of its objects, and of its global state.

use pyo3::prelude::*;

use crate::cpython::{Place, Recorder};

/// Identifies the condition that a test of an object checks. Tests with equal keys check the same condition.
#[derive(PartialEq, Eq, Hash, Debug)]
pub enum TestKey {
    /// The description of the test.
    Text(String),
    /// The kind of the test, and the numbers that the test compares with.
    Parts(&'static str, Vec<i64>),
}

/// A test of one object, made from an example that passed. It must be cheap, and must not run Python code.
pub trait ObjectTest: Send + Sync {
    /// True if `object` passes. The object may be of any type.
    fn check(&self, object: &Bound<'_, PyAny>) -> bool;
    /// Records the memory that the test's answer for the object in the place depends on. Returns `false` if memory
    /// does not determine the answer: then the object is tested at each call.
    fn note(&self, place: &Place<'_>, recorder: &mut Recorder) -> bool {
        let _ = (place, recorder);
        false
    }
    /// The axes of a tensor, if their sizes are the only reason why the tensor does not pass.
    fn differing_sizes(&self, object: &Bound<'_, PyAny>) -> Vec<usize> {
        let _ = object;
        Vec::new()
    }
    /// The property of `object` that the test looks at, for people; `None` if the object's own text shows it.
    fn seen(&self, object: &Bound<'_, PyAny>) -> Option<String> {
        let _ = object;
        None
    }
    /// The expected property, in the form in which `seen` shows it.
    fn expected(&self) -> Option<String> {
        None
    }
    /// The condition as a Python-like expression over `subject` (the text that loads the object).
    fn describe(&self, subject: &str) -> String;
    /// Identifies the condition that the test checks. Override this method if the description takes long to make.
    fn key(&self) -> TestKey {
        TestKey::Text(self.describe("x"))
    }
    /// Name of the Rust type. Its first segment is the crate, which tells whose test it is.
    fn type_name(&self) -> &'static str {
        std::any::type_name::<Self>()
    }
}

/// A test of several objects and of their relation, made from objects that passed. It must be cheap, and must not run
/// Python code.
pub trait ObjectsTest: Send + Sync {
    /// True if the objects pass. They come in the order of the examples, and may be of any type.
    fn check(&self, objects: &[&Bound<'_, PyAny>]) -> bool;
    /// The condition as a Python-like expression over the texts that load the objects.
    fn describe(&self, subjects: &[String]) -> String;
    /// Name of the Rust type. Its first segment is the crate, which tells whose test it is.
    fn type_name(&self) -> &'static str {
        std::any::type_name::<Self>()
    }
}

/// A test of the framework's global state (grad mode, AMP, default dtype, device), made from the state while tracing.
pub trait StateTest: Send + Sync {
    /// True if the state is still as it was when the test was made.
    fn check(&self, py: Python<'_>) -> bool;
    /// Restores the state of the time when the test was made, as far as calls of a traced program can change the
    /// state.
    fn restore(&self, py: Python<'_>) -> PyResult<()>;
    /// The present state, for people.
    fn seen(&self, py: Python<'_>) -> Option<String> {
        let _ = py;
        None
    }
    /// The condition as a Python-like expression.
    fn describe(&self) -> String;
    /// Name of the Rust type. Its first segment is the crate, which tells whose test it is.
    fn type_name(&self) -> &'static str {
        std::any::type_name::<Self>()
    }
}
