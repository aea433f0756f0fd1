//! Leaves that a backward pass does not reach in eager mode. A program gives them zeros, because the pass reaches it
//! from results that do not depend on them. They must end up without a gradient.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use sot_core::cpython;

use super::pass::{RunningPass, RUNNING};
use super::reach::{PartlyUsedInput, ProgramInput, Results};
use super::results::{self, ResultOf};
use super::{module, PastRun};

/// A run of a program that the pass has reached, possibly not from all results.
pub(super) struct PartlyReachedRun {
    run: u64,
    reached: Results,
    given: Vec<ReachedByResults>,
}

/// An input or parameter that only some of the results depend on.
struct ReachedByResults {
    tensor: Py<PyAny>,
    results: Results,
    /// True if it is a leaf that had no gradient before the pass.
    is_bare: bool,
}

impl PartlyReachedRun {
    fn new(
        run: u64,
        partial: &[PartlyUsedInput],
        inputs: &Bound<'_, PyTuple>,
        parameters: &Bound<'_, PyTuple>,
    ) -> PyResult<Self> {
        let mut given = Vec::new();
        for PartlyUsedInput { given: place, results } in partial {
            let tensor = match *place {
                ProgramInput::Input(at) => inputs.get_item(at)?,
                ProgramInput::Parameter(at) => parameters.get_item(at)?,
            };
            let is_leaf = tensor.getattr(intern!(tensor.py(), "is_leaf"))?.is_truthy()?;
            let is_bare = is_leaf && tensor.getattr(intern!(tensor.py(), "grad"))?.is_none();
            given.push(ReachedByResults { tensor: tensor.unbind(), results: results.clone(), is_bare });
        }
        Ok(PartlyReachedRun { run, reached: Results::new(), given })
    }

    /// The inputs and parameters that have been given only zeros.
    fn unreached(&self) -> impl Iterator<Item = &ReachedByResults> {
        self.given.iter().filter(|part| part.results.is_disjoint(&self.reached))
    }

    /// True if an unreached input is this result of this run.
    fn leaves_out(&self, py: Python<'_>, run: u64, at: usize) -> bool {
        self.unreached().any(|part| match results::origin(part.tensor.bind(py)) {
            Some(ResultOf::Program(origin, place)) => {
                place == at && origin.upgrade().is_some_and(|from| from.number == run)
            }
            Some(ResultOf::Only(origin)) => origin.upgrade().is_some_and(|from| from.number == run),
            _ => false,
        })
    }
}

impl PastRun {
    /// Records that a pass has reached the run, which has inputs that only some results depend on.
    pub(super) fn note_partial(
        &self,
        partial: &[PartlyUsedInput],
        inputs: &Bound<'_, PyTuple>,
        parameters: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        let partly_reached = PartlyReachedRun::new(self.number, partial, inputs, parameters)?;
        RUNNING.with_borrow_mut(|running| {
            if let Some(running) = running.last_mut() {
                running.partly_reached.push(partly_reached);
            }
        });
        Ok(())
    }

    /// Records that a result was reached, if there is a gradient.
    pub(super) fn note_reached(self: &Arc<Self>, at: usize, gradient: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = gradient.py();
        let (is_noted, is_left_out) = RUNNING.with_borrow(|running| {
            let partly_reached = running.last().map(|running| running.partly_reached.as_slice()).unwrap_or_default();
            let is_noted = partly_reached.iter().any(|partly_reached| partly_reached.run == self.number);
            (
                is_noted,
                is_noted && partly_reached.iter().any(|partly_reached| partly_reached.leaves_out(py, self.number, at)),
            )
        });
        if !is_noted || !is_defined(gradient)? || is_left_out && is_all_zeros(gradient)? {
            return Ok(());
        }
        RUNNING.with_borrow_mut(|running| {
            let partly_reached = running.last_mut().into_iter().flat_map(|running| &mut running.partly_reached);
            for partly_reached in partly_reached.filter(|partly_reached| partly_reached.run == self.number) {
                partly_reached.reached.insert(at);
            }
        });
        Ok(())
    }
}

/// True if no run of a program that the pass has gone through has given the tensor a gradient.
fn is_unreached(py: Python<'_>, passed: &RunningPass, tensor: &Bound<'_, PyAny>) -> bool {
    let of_runs = passed.leaves.iter().filter(|leaf| leaf.bind(py).is(tensor)).count();
    let unreached = passed.partly_reached.iter().flat_map(PartlyReachedRun::unreached);
    let of_unreached = unreached.filter(|part| part.tensor.bind(py).is(tensor)).count();
    of_unreached > 0 && of_unreached >= of_runs
}

/// After the pass, removes the zero gradients from leaves that had none before.
pub(super) fn clear(py: Python<'_>, passed: &RunningPass) -> PyResult<()> {
    let unreached = passed.partly_reached.iter().flat_map(PartlyReachedRun::unreached);
    for part in unreached.filter(|part| part.is_bare) {
        let tensor = part.tensor.bind(py);
        if !is_unreached(py, passed, tensor) {
            continue;
        }
        let gradient = tensor.getattr(intern!(py, "grad"))?;
        if !gradient.is_none() && is_all_zeros(&gradient)? {
            tensor.call_method1("clear_gradient", (false,))?;
        }
    }
    Ok(())
}

/// Replaces the gradients of unreached inputs by `None`. Raises if no input may be unreached.
pub(super) fn without<'py>(
    passed: &RunningPass,
    inputs: &Bound<'py, PyAny>,
    gradients: Bound<'py, PyAny>,
    may_be_unused: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = inputs.py();
    if passed.partly_reached.is_empty() {
        return Ok(gradients);
    }
    let kept = PyList::empty(py);
    let count = inputs.len()?;
    for (at, (input, gradient)) in inputs.try_iter()?.zip(gradients.try_iter()?).enumerate() {
        let (input, gradient) = (input?, gradient?);
        if !gradient.is_none() && is_unreached(py, passed, &input) && is_all_zeros(&gradient)? {
            if !may_be_unused {
                module(py)?.call_method1("say_unused", (count, at))?;
            }
            kept.append(py.None())?;
        } else {
            kept.append(gradient)?;
        }
    }
    Ok(kept.into_any())
}

pub(super) fn is_defined(gradient: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(!gradient.is_none() && gradient.call_method0(intern!(gradient.py(), "_is_initialized"))?.is_truthy()?)
}

fn is_all_zeros(gradient: &Bound<'_, PyAny>) -> PyResult<bool> {
    let _quiet = cpython::suspend(gradient.py());
    module(gradient.py())?.call_method1("is_all_zeros", (gradient,))?.is_truthy()
}
