//! Which guard of a translation does not hold for a frame, for people: what was expected, and what is there.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::program::{Check, FrameView, GuardProgram, Registers, Step};
use crate::tracker::repr;

impl GuardProgram {
    /// The first guard that does not hold for `frame`, and the value that is there in its place.
    pub fn failure<'py>(&self, frame: &impl FrameView<'py>) -> Option<String> {
        let py = frame.py();
        if let Some(test) = self.state.iter().find(|test| !test.check(py)) {
            let seen = test.seen(py).map_or_else(String::new, |seen| format!("; seen: {seen}"));
            return Some(format!("{}{seen}", test.describe()));
        }
        let mut registers: Vec<Bound<'py, PyAny>> = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Fetch(fetch) => match fetch.run(frame, &registers) {
                    Some(value) => registers.push(value),
                    None => return Some(format!("{}; seen: nothing, it is not there", self.text(at))),
                },
                Step::Test(register, check) => {
                    let value = registers.at(*register);
                    if !check.run(value, &registers) {
                        return Some(format!("{}; seen: {}", self.text(at), seen(check, value)));
                    }
                }
            }
        }
        None
    }

    fn text(&self, step: usize) -> &str {
        self.texts.get(step).map_or("a guard", |text| text)
    }
}

/// What a test has found instead of what it expects.
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
