//! Explains to people which guard of a translation fails for a frame: what was expected, and what was found.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::program::{FrameView, GuardProgram};
use super::steps::{Check, Registers, Step};
use crate::tracker::repr;

/// A guard that does not hold for a frame.
pub struct UnmetGuard {
    /// Text of the guard.
    pub guard: String,
    /// The expected value, if the guard's text alone does not say it.
    pub expected: Option<String>,
    /// The value found instead.
    pub seen: Option<String>,
    /// Index of the step in the program; `None` for a test of the framework's state.
    pub(crate) step: Option<usize>,
    /// Rust type of the test, if a backend or a variable kind defines it.
    pub(crate) tested_by: Option<&'static str>,
}

impl GuardProgram {
    /// Returns the first guard that fails for `frame`; `None` if all guards hold.
    pub fn unmet<'py>(&self, frame: &impl FrameView<'py>) -> Option<UnmetGuard> {
        let py = frame.py();
        if let Some(test) = self.state.iter().find(|test| !test.check(py)) {
            return Some(UnmetGuard {
                guard: test.describe(),
                expected: Some(test.describe()),
                seen: test.seen(py),
                step: None,
                tested_by: Some(test.type_name()),
            });
        }
        let mut registers: Vec<Bound<'py, PyAny>> = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Fetch(fetch) => match fetch.run(frame, &registers) {
                    Some(value) => registers.push(value),
                    None => {
                        let seen = Some("nothing, it is not there".to_owned());
                        let guard = self.text(py, at);
                        return Some(UnmetGuard { guard, expected: None, seen, step: Some(at), tested_by: None });
                    }
                },
                Step::Test(register, check) => {
                    let value = registers.at(*register);
                    if !check.run(value, &registers) {
                        return Some(UnmetGuard {
                            guard: self.text(py, at),
                            expected: expected(py, check),
                            seen: Some(seen(check, value)),
                            step: Some(at),
                            tested_by: tested_by(check),
                        });
                    }
                }
            }
        }
        None
    }

    /// Text of the guard to which a step belongs.
    fn text(&self, py: Python<'_>, step: usize) -> String {
        let Some((start, end)) = self.texts.at(step) else { return "a guard".to_owned() };
        let object = self.steps[step..end].iter().rev().find_map(|step| match step {
            Step::Test(_, Check::Is(object) | Check::TypeIs(object)) => Some(object.text(py)),
            _ => None,
        });
        format!("{start}{}", object.unwrap_or_default())
    }
}

fn tested_by(check: &Check) -> Option<&'static str> {
    match check {
        Check::Object(test) => Some(test.type_name()),
        Check::Objects(_, test) => Some(test.type_name()),
        _ => None,
    }
}

/// The value a test expects, in the form in which `seen` shows the value found.
fn expected(py: Python<'_>, check: &Check) -> Option<String> {
    match check {
        Check::Is(object) | Check::TypeIs(object) => Some(object.text(py)),
        Check::Equals(constant) => Some(repr(py, constant)),
        Check::Length(length) => Some(length.to_string()),
        Check::Keys(keys) => {
            let keys: Vec<_> = keys.iter().map(|key| key.text(py)).collect();
            Some(format!("[{}]", keys.join(", ")))
        }
        Check::Object(test) => test.expected(),
        _ => None,
    }
}

/// The value found where a test fails.
fn seen(check: &Check, value: &Bound<'_, PyAny>) -> String {
    let py = value.py();
    match check {
        Check::TypeIs(_) => repr(py, value.get_type().as_any().as_unbound()),
        Check::Length(_) => value.len().map_or_else(|_| repr(py, value.as_unbound()), |length| length.to_string()),
        Check::Keys(_) => keys(value).unwrap_or_else(|| repr(py, value.as_unbound())),
        Check::Object(test) => test.seen(value).unwrap_or_else(|| repr(py, value.as_unbound())),
        _ => repr(py, value.as_unbound()),
    }
}

fn keys(value: &Bound<'_, PyAny>) -> Option<String> {
    let dict = value.cast::<PyDict>().ok()?;
    let keys: Vec<_> = dict.iter().map(|(key, _)| repr(value.py(), key.as_unbound())).collect();
    Some(format!("[{}]", keys.join(", ")))
}
