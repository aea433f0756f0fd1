//! The contents of a run's scope, which a backward pass reads. They are kept for the next pass, held in case Paddle
//! empties the scope before the first one, and put back.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;
use sot_core::cpython;

use super::{GivenValues, PastRun};
use crate::backend::run::executors;
use crate::backend::run::second_passes::module;
use crate::backend::run::second_passes::reach::ProgramInput;

impl PastRun {
    /// Prepares the run for another pass.
    pub(super) fn keep(&self, py: Python<'_>) -> PyResult<()> {
        self.tenancy.kept.store(true, Ordering::Relaxed);
        self.keep_given(py)?;
        let found = match self.given.lock().as_ref() {
            Some(given) if given.saved.is_none() => {
                (given.scope.clone_ref(py), given.inputs.clone_ref(py), given.parameters.clone_ref(py))
            }
            _ => return Ok(()),
        };
        let saved = {
            let _quiet = cpython::suspend(py);
            module(py)?.call_method1("save", found)?
        };
        if let Some(given) = self.given.lock().as_mut() {
            given.saved = Some(saved.unbind());
        }
        Ok(())
    }

    /// Returns references to the contents of the scope, which the first pass needs. `None` if a pass has gone through
    /// the run, or the scope has been emptied already.
    pub(in crate::backend::run::second_passes) fn hold(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.pass.load(Ordering::Relaxed) != 0 || self.emptied.lock().is_some() {
            return Ok(None);
        }
        let found =
            |given: &GivenValues| (given.scope.clone_ref(py), given.held.as_ref().map(|held| held.clone_ref(py)));
        let Some((scope, held)) = self.given.lock().as_ref().map(found) else { return Ok(None) };
        if held.is_some() {
            return Ok(held);
        }
        let _quiet = cpython::suspend(py);
        let held = module(py)?.call_method1("hold", (scope,))?.unbind();
        if let Some(given) = self.given.lock().as_mut() {
            given.held = Some(held.clone_ref(py));
        }
        Ok(Some(held))
    }

    /// Keeps the contents `held` for the first pass, if Paddle has emptied the scope since [`PastRun::hold`] and no
    /// pass has gone through the run. Returns whether that is so.
    pub(in crate::backend::run::second_passes) fn take_back(&self, held: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = held.py();
        if self.pass.load(Ordering::Relaxed) != 0 {
            return Ok(false);
        }
        let Some(scope) = self.given.lock().as_ref().map(|given| given.scope.clone_ref(py)) else { return Ok(false) };
        let is_emptied = {
            let _quiet = cpython::suspend(py);
            module(py)?.call_method1("are_emptied", (scope,))?.is_truthy()?
        };
        if is_emptied {
            self.tenancy.kept.store(true, Ordering::Relaxed);
            *self.emptied.lock() = Some(held.clone().unbind());
        }
        Ok(is_emptied)
    }

    /// Puts the contents that the run left back into the scope, if the scope has been emptied before the first pass.
    /// Returns `false` if that is impossible.
    pub(super) fn fill_for_first_pass(&self, py: Python<'_>) -> PyResult<bool> {
        let Some(held) = self.emptied.lock().take() else { return Ok(true) };
        if held.is_none(py) || self.tenancy.run.load(Ordering::Relaxed) != self.number {
            return Ok(false);
        }
        let _quiet = cpython::suspend(py);
        held.bind(py).call_method0("fill").map(|_| true)
    }

    /// True if the next pass computes the same as in eager mode when the scope has the contents that the first pass
    /// found.
    fn may_be_filled(&self, py: Python<'_>) -> PyResult<bool> {
        let known = self.given.lock().as_ref().and_then(|given| {
            let kept = given.kept.as_ref()?.clone_ref(py);
            Some((kept, Arc::clone(&given.graph), given.inputs.clone_ref(py), given.parameters.clone_ref(py)))
        });
        let Some((kept, graph, inputs, parameters)) = known else { return Ok(false) };
        let (inputs, parameters) = (inputs.bind(py), parameters.bind(py));
        let viewed = PyList::empty(py);
        for given in &graph.flow.viewed {
            viewed.append(match *given {
                ProgramInput::Input(at) => inputs.get_item(at)?,
                ProgramInput::Parameter(at) => parameters.get_item(at)?,
            })?;
        }
        let given = inputs.as_sequence().concat(parameters.as_sequence())?;
        let _quiet = cpython::suspend(py);
        module(py)?.call_method1("may_be_filled", (kept, given, viewed))?.is_truthy()
    }

    /// Restores the scope to the state that the first pass found. `false` if that is impossible.
    pub(super) fn fill(&self, py: Python<'_>) -> PyResult<bool> {
        if self.tenancy.run.load(Ordering::Relaxed) != self.number {
            return Ok(false);
        }
        // The former results are dropped first, because that empties the scope.
        let former = self.filled.lock().take();
        drop(former);
        if !self.may_be_filled(py)? {
            return Ok(false);
        }
        let saved = self.given.lock().as_ref().and_then(|given| Some(given.saved.as_ref()?.clone_ref(py)));
        // A new executor for the backward pass needs a new one for the run.
        let has_executors = self.generation == executors::generation();
        if let Some(saved) = saved.filter(|saved| has_executors && !saved.is_none(py)) {
            let _quiet = cpython::suspend(py);
            saved.bind(py).call_method0("fill")?;
            return Ok(true);
        }
        let filled =
            self.again(py, |graph, inputs, _, parameters, scope| graph.run_again(inputs, parameters, scope))?;
        let is_filled = filled.is_some();
        *self.filled.lock() = filled;
        Ok(is_filled)
    }
}
