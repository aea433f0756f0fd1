//! What a guard that does not hold expects, and what it has found: for people.

use pyo3::prelude::*;

use super::program::{length, Check, Failure, FrameView, GuardProgram, Registers, Step};
use crate::cpython;
use crate::tracker::repr;

/// The guard's text, what it expects, and what the frame has.
type Told = (String, Option<String>, Option<String>);

impl GuardProgram {
    /// The first guard that does not hold for `frame`; `state` says what the framework's global state is now.
    pub fn failed<'py>(&self, frame: &impl FrameView<'py>, state: &dyn Fn() -> Option<String>) -> Option<Told> {
        let (failure, registers) = self.run_to_failure(frame)?;
        let text = self.text_of(&failure);
        let Failure::Step(at) = failure else { return Some((text.clone(), Some(text), state())) };
        let (expected, seen) = match &self.steps[at] {
            Step::Test(register, check) => check.told(registers.at(*register)),
            Step::Fetch(_) => (None, Some("nothing is there".to_owned())),
        };
        Some((text, expected, seen))
    }
}

impl Check {
    fn told(&self, value: &Bound<'_, PyAny>) -> (Option<String>, Option<String>) {
        let py = value.py();
        let shown = || Some(repr(py, &value.clone().unbind()));
        match self {
            Check::Is(object) => (Some(object.text(py)), shown()),
            Check::TypeIs(class) => {
                (Some(class.text(py)), Some(format!("<class '{}'>", cpython::type_name(&value.get_type()))))
            }
            Check::Equals(constant) => (Some(repr(py, constant)), shown()),
            Check::Length(expected) => {
                (Some(format!("{expected} items")), length(value).map(|seen| format!("{seen} items")).or_else(shown))
            }
            Check::Object(test) => (test.expected(), test.seen(value).or_else(shown)),
            _ => (None, shown()),
        }
    }
}
