//! Gradients by what a graph has given. A program is one node of the backward pass: what one of its results is of
//! another shows nowhere, and by one of several Paddle gives no gradient at all, or that of another.

use std::collections::BTreeMap;
use std::sync::{Mutex, Weak};

use pyo3::prelude::*;
use sot_core::cpython::WeakRef;

use super::trial::Passes;
use super::{locked, takes_hook, PastRun};

/// What a tensor is a result of.
#[derive(Clone)]
pub(super) enum ResultOf {
    /// A first run, operation by operation; whether gradients come through it from another result.
    Trial(Weak<Passes>, bool),
    /// A run of a program that has several; the index among them.
    Program(Weak<PastRun>, usize),
    /// A run of a program that has no other. Only its hooks count: Paddle knows gradients by it.
    Only(Weak<PastRun>),
    /// A run of a program, from one of whose results it was made; the index among the outputs.
    Made(Weak<PastRun>, usize),
    /// It was made from what a program was given; gradients come through it from a result.
    MadeOfInput,
}

/// Results that are alive, and some that were, by address.
static RESULTS: Mutex<BTreeMap<usize, (WeakRef, ResultOf)>> = Mutex::new(BTreeMap::new());

/// From so many on the dead are looked for.
const MANY: usize = 256;

/// Notes the results that a gradient may be asked for by.
pub(super) fn note(results: &Bound<'_, PyAny>, of: impl Fn(usize) -> Option<ResultOf>) -> PyResult<()> {
    let mut found = Vec::new();
    for (at, result) in results.try_iter()?.enumerate() {
        let result = result?;
        if let Some(of) = of(at).filter(|_| takes_hook(&result).unwrap_or(false)) {
            found.push((WeakRef::new(&result, None)?, of));
        }
    }
    note_found(results.py(), found);
    Ok(())
}

/// Notes those that are known to take hooks.
pub(super) fn note_found(py: Python<'_>, found: Vec<(WeakRef, ResultOf)>) {
    let mut known = locked(&RESULTS);
    if known.len() >= MANY {
        known.retain(|_, (result, _)| result.is_alive(py));
    }
    known.extend(found.into_iter().map(|(result, of)| (result.address(), (result, of))));
}

/// What the tensor is a result of.
pub(super) fn origin(tensor: &Bound<'_, PyAny>) -> Option<ResultOf> {
    let known = locked(&RESULTS);
    let (result, of) = known.get(&(tensor.as_ptr() as usize))?;
    result.is(tensor).then(|| of.clone())
}
