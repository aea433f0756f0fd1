//! Gradients with respect to results of a graph. A program is one node of the backward pass. The gradient of one
//! result with respect to another is not visible, and with respect to one of several results Paddle gives no gradient,
//! or that with respect to another result.

use std::collections::BTreeMap;
use std::sync::Weak;

use parking_lot::Mutex;
use pyo3::prelude::*;
use sot_core::cpython::WeakRef;

use super::trial::Passes;
use super::{takes_hook, PastRun};

/// What produced a tensor.
#[derive(Clone)]
pub(super) enum ResultOf {
    /// A first run, operation by operation. True if the gradient of another result flows through the tensor.
    Trial(Weak<Passes>, bool),
    /// A run of a program with several results, and the index of the result.
    Program(Weak<PastRun>, usize),
    /// A run of a program with one result. Only its hooks matter: Paddle computes gradients with respect to it.
    Only(Weak<PastRun>),
    /// A view that was made from a result of a run, and its index among the outputs.
    Made(Weak<PastRun>, usize),
    /// A view that was made from an input of a program. The gradient of a result flows through it.
    MadeOfInput,
}

/// Results by address; some entries may be of dead results.
static RESULTS: Mutex<BTreeMap<usize, (WeakRef, ResultOf)>> = Mutex::new(BTreeMap::new());

/// Number of entries from which on dead results are removed.
const MANY: usize = 256;

/// Notes the results with respect to which a gradient may be asked for.
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

/// Notes results that are known to take hooks.
pub(super) fn note_found(py: Python<'_>, found: Vec<(WeakRef, ResultOf)>) {
    let mut known = RESULTS.lock();
    if known.len() >= MANY {
        known.retain(|_, (result, _)| result.is_alive(py));
    }
    known.extend(found.into_iter().map(|(result, of)| (result.address(), (result, of))));
}

/// Returns what produced the tensor, if it is a result of a graph.
pub(super) fn origin(tensor: &Bound<'_, PyAny>) -> Option<ResultOf> {
    let known = RESULTS.lock();
    let (result, of) = known.get(&(tensor.as_ptr() as usize))?;
    result.is(tensor).then(|| of.clone())
}
