//! Repeats a run with the inputs and parameters that it was given: by the program, or by its statements, called one by
//! one.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use sot_core::cpython;

use super::PastRun;
use crate::backend::run::second_passes::module;
use crate::backend::run::second_passes::pass::kept;
use crate::backend::run::Graph;

impl PastRun {
    /// Copies the inputs and parameters of the run, so that its statements can be called again.
    pub(in crate::backend::run::second_passes) fn keep_given(&self, py: Python<'_>) -> PyResult<()> {
        let tensors = match self.given.lock().as_ref() {
            Some(given) if given.kept.is_none() => given.tensors(py),
            _ => return Ok(()),
        };
        let kept = kept(py);
        let _quiet = cpython::suspend(py);
        module(py)?.call_method1("keep", (tensors.0, tensors.1, &kept))?;
        if let Some(given) = self.given.lock().as_mut() {
            given.kept = Some(kept.unbind());
        }
        Ok(())
    }

    /// Calls the graph's statements one by one. Returns a dict with the tensor of each result. `None` if that is
    /// impossible, or may give other results.
    pub(in crate::backend::run::second_passes) fn call_again(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let results = self.again(py, |graph, _, inputs, _, _| graph.call_again(inputs))?;
        if let Some(results) = &results {
            if let Some(hooks) = self.late.get(py) {
                hooks.call_method1("register_on_statements", (results,))?;
            }
            let called = results.bind(py).cast::<PyDict>()?.clone().unbind();
            self.called.lock().push(called);
        }
        Ok(results)
    }

    /// Like [`Self::call_again`], with leaves that share the memory of the inputs and parameters in their place.
    pub(in crate::backend::run::second_passes) fn call_apart(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.again(py, |graph, _, inputs, parameters, _| {
            let (py, graph) = (inputs.py(), Arc::clone(graph));
            let call =
                cpython::fastcall(py, "call", "", move |py, inputs| graph.call_again(&PyTuple::new(py, inputs)?))?;
            Ok(cpython::import(py, "sot._late_hooks")?
                .call_method1("call_on_leaves", (call, inputs, parameters))?
                .unbind())
        })
    }

    /// Does `work` with the inputs and parameters of the run, in their state at the run. `None` if the results may
    /// differ from the results of the run.
    pub(super) fn again(
        &self,
        py: Python<'_>,
        work: impl Fn(
                &Arc<Graph>,
                &Bound<'_, PyTuple>,
                &Bound<'_, PyTuple>,
                &Bound<'_, PyTuple>,
                &Bound<'_, PyList>,
            ) -> PyResult<Py<PyAny>>
            + Send
            + Sync
            + 'static,
    ) -> PyResult<Option<Py<PyAny>>> {
        let given = self.given.lock().as_ref().and_then(|given| {
            let kept = given.kept.as_ref()?.clone_ref(py);
            let random_state = given.random_state.as_ref().map(|state| state.clone_ref(py));
            let (inputs, parameters) = (given.inputs.clone_ref(py), given.parameters.clone_ref(py));
            let for_statements = given.for_statements.as_ref().unwrap_or(&given.inputs).clone_ref(py);
            let inputs = (inputs, for_statements);
            Some((Arc::clone(&given.graph), inputs, parameters, given.scope.clone_ref(py), random_state, kept))
        });
        let Some((graph, (inputs, for_statements), parameters, scope, random_state, kept)) = given else {
            return Ok(None);
        };
        let tensors = (inputs.clone_ref(py), parameters.clone_ref(py));
        let work = cpython::fastcall(py, "again", "", move |py, _| {
            work(&graph, inputs.bind(py), for_statements.bind(py), parameters.bind(py), scope.bind(py))
        })?;
        let _quiet = cpython::suspend(py);
        let done = module(py)?.call_method1("again", (work, tensors.0, tensors.1, kept, random_state))?;
        Ok((!done.is_none()).then(|| done.unbind()))
    }
}
