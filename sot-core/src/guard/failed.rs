//! Which guard of a translation does not hold for a frame, for people: what it expects, and what it has found.

use std::fmt::{self, Display, Formatter};

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::program::{length, Check, Failure, FrameView, GuardProgram, Registers, Step};
use crate::cpython;
use crate::tracker::repr;

/// A guard that does not hold.
pub struct FailedTest {
    /// The condition.
    pub guard: String,
    /// What it expects, where that can be said apart from the condition.
    pub expected: Option<String>,
    /// What the frame has.
    pub seen: Option<String>,
}

impl Display for FailedTest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.guard)?;
        self.seen.as_ref().map_or(Ok(()), |seen| write!(f, "; seen: {seen}"))
    }
}

impl GuardProgram {
    /// The first guard that does not hold for `frame`.
    pub fn failed<'py>(&self, frame: &impl FrameView<'py>) -> Option<FailedTest> {
        let py = frame.py();
        if let Some(test) = self.state.iter().find(|test| !test.check(py)) {
            let guard = test.describe();
            return Some(FailedTest { expected: Some(guard.clone()), guard, seen: test.seen(py) });
        }
        let (failure, registers) = self.run_to_failure(frame)?;
        let Failure::Step(at) = failure else { return None };
        let (expected, seen) = match &self.steps[at] {
            Step::Test(register, check) => check.told(registers.at(*register)),
            Step::Fetch(_) => (None, Some("nothing is there".to_owned())),
        };
        let guard = self.texts.get(at).map_or("a guard", |text| text).to_owned();
        Some(FailedTest { guard, expected, seen })
    }
}

impl Check {
    fn told(&self, value: &Bound<'_, PyAny>) -> (Option<String>, Option<String>) {
        let py = value.py();
        let shown = || Some(repr(py, value.as_unbound()));
        match self {
            Check::Is(object) => (Some(object.text(py)), shown()),
            Check::TypeIs(class) => {
                (Some(class.text(py)), Some(format!("<class '{}'>", cpython::type_name(&value.get_type()))))
            }
            Check::Equals(constant) => (Some(repr(py, constant)), shown()),
            Check::Length(expected) => {
                (Some(format!("{expected} items")), length(value).map(|seen| format!("{seen} items")).or_else(shown))
            }
            Check::Keys(_) => (None, keys(value).or_else(shown)),
            Check::Object(test) => (test.expected(), test.seen(value).or_else(shown)),
            _ => (None, shown()),
        }
    }
}

fn keys(value: &Bound<'_, PyAny>) -> Option<String> {
    let dict = value.cast::<PyDict>().ok()?;
    let keys: Vec<_> = dict.iter().map(|(key, _)| repr(value.py(), key.as_unbound())).collect();
    Some(format!("[{}]", keys.join(", ")))
}
