//! Tests that only a framework can make: of its tensors, and of its global state.

use pyo3::prelude::*;

use crate::cpython::{Place, Recorder};

/// What tells tests of one object from each other that ask for different things.
#[derive(PartialEq, Eq, Hash, Debug)]
pub enum TestKey {
    /// What they say.
    Text(String),
    /// What they are made of, of one kind.
    Parts(&'static str, Vec<i64>),
}

/// A test of one object, made from an example object that passed. It must be cheap and must not run Python code.
pub trait ObjectTest: Send + Sync {
    /// Whether `object` passes; an object of any type may be asked about.
    fn check(&self, object: &Bound<'_, PyAny>) -> bool;
    /// Records the memory that the answer for what is in the place rests on. `false`, and it is asked anew each time.
    fn note(&self, place: &Place<'_>, recorder: &mut Recorder) -> bool {
        let _ = (place, recorder);
        false
    }
    /// The dimensions whose sizes, and nothing else, keep a tensor from passing.
    fn differing_sizes(&self, object: &Bound<'_, PyAny>) -> Vec<usize> {
        let _ = object;
        Vec::new()
    }
    /// What of `object` the condition is about, for people, if the object's own text does not say it.
    fn seen(&self, object: &Bound<'_, PyAny>) -> Option<String> {
        let _ = object;
        None
    }
    /// What the test expects, as `seen` says it.
    fn expected(&self) -> Option<String> {
        None
    }
    /// The condition as a Python-like expression over `subject` (the text that loads the object).
    fn describe(&self, subject: &str) -> String;
    /// Equal for tests of an object that ask for the same; worth its own method where the text takes long to make.
    fn key(&self) -> TestKey {
        TestKey::Text(self.describe("x"))
    }
    /// The name of the Rust type, which begins with that of its crate: whose test it is.
    fn type_name(&self) -> &'static str {
        std::any::type_name::<Self>()
    }
}

/// A test of several objects and how they are related, made from objects that passed. It must be cheap and must not run
/// Python code.
pub trait ObjectsTest: Send + Sync {
    /// Whether the objects pass, which come in the order of those it was made from; they may be of any type.
    fn check(&self, objects: &[&Bound<'_, PyAny>]) -> bool;
    /// The condition as a Python-like expression over the texts that load the objects.
    fn describe(&self, subjects: &[String]) -> String;
    /// The name of the Rust type, which begins with that of its crate: whose test it is.
    fn type_name(&self) -> &'static str {
        std::any::type_name::<Self>()
    }
}

/// A test of the framework's global state (grad mode, AMP, default dtype, device), made from the state while tracing.
pub trait StateTest: Send + Sync {
    /// Whether the state still is what it was.
    fn check(&self, py: Python<'_>) -> bool;
    /// Makes the state what it was, as far as calls of the program may change it in a trace.
    fn restore(&self, py: Python<'_>) -> PyResult<()>;
    /// The state as it is now, for people.
    fn seen(&self, py: Python<'_>) -> Option<String> {
        let _ = py;
        None
    }
    /// The condition as a Python-like expression.
    fn describe(&self) -> String;
    /// The name of the Rust type, which begins with that of its crate: whose test it is.
    fn type_name(&self) -> &'static str {
        std::any::type_name::<Self>()
    }
}
