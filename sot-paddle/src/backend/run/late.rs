//! Programs made late. A graph with gradients is called operation by operation in its first runs, until a backward pass has
//! come: by then it is known whether second passes go through it, which programs do not have. One they go through stays as
//! it is, any other becomes a program at its next run.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sot_core::{cpython, graph, log, translate};

use crate::backend::graph::planned::Planned;
use crate::backend::run::saved_tensors;
use crate::backend::run::second_passes::{self, Histories, Trial};
use crate::backend::run::Graph;

/// The callable of a graph with gradients that also exists as `calls` of its statements. Who says by `MIN_GRAPH_SIZE` which
/// graphs are programs gets the program at once.
pub(crate) fn callable(py: Python<'_>, planned: Planned, calls: Py<PyAny>) -> PyResult<Py<PyAny>> {
    if second_passes::are_everywhere() {
        return Ok(calls);
    }
    second_passes::watch(py)?;
    if planned.must_be_calls() {
        return Ok(calls);
    }
    let histories = Histories::new(py, &planned.paddle, &planned.partial, &planned.parameters)?;
    let late = if graph::said_min_size().is_none() {
        let undecided = Undecided { planned, trial: Arc::default() };
        Late { calls, histories, undecided: Mutex::new(Some(undecided)), graph: OnceLock::new() }
    } else {
        let graph = OnceLock::from(Arc::new(planned.compile(py)?));
        Late { calls, histories, undecided: Mutex::default(), graph }
    };
    cpython::graph_function(py, move |py, args| late.call(py, args).map(Bound::unbind))
}

struct Late {
    calls: Py<PyAny>,
    /// Calls that are given one are made one by one, whatever becomes of the graph.
    histories: Histories,
    /// `None` once it is settled what becomes of it. The lock is never held over a call into Python.
    undecided: Mutex<Option<Undecided>>,
    /// The program, if it has become one.
    graph: OnceLock<Arc<Graph>>,
}

struct Undecided {
    planned: Planned,
    trial: Arc<Trial>,
}

impl Late {
    fn call<'py>(&self, py: Python<'py>, inputs: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
        if saved_tensors::have_hooks() || self.histories.are_there(py, inputs)? {
            return self.call_one_by_one(py, inputs);
        }
        if let Some(graph) = self.graph.get() {
            return if graph.chances.are_left() { graph.call(py, inputs) } else { self.call_one_by_one(py, inputs) };
        }
        let trial = self
            .undecided()
            .as_ref()
            .map(|undecided| (Arc::clone(&undecided.trial), Arc::clone(&undecided.planned.through)));
        if let Some((trial, through)) = trial {
            if !second_passes::are_everywhere() && !trial.is_over() {
                let results = self.call_one_by_one(py, inputs)?;
                trial.note(&results, &through)?;
                return Ok(results);
            }
            self.settle(py, trial.is_gone_through_again());
        }
        match self.graph.get() {
            Some(graph) => graph.call(py, inputs),
            None => self.call_one_by_one(py, inputs),
        }
    }

    fn call_one_by_one<'py>(&self, py: Python<'py>, inputs: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
        self.calls.bind(py).call1(PyTuple::new(py, inputs)?)
    }

    /// Makes the program, unless it may not be, or is another thread's business.
    fn settle(&self, py: Python<'_>, again: bool) {
        if again || second_passes::are_everywhere() {
            self.take();
            return;
        }
        let compile = || self.take().map(|undecided| undecided.planned.compile(py));
        match translate::compile_later(py, compile).flatten() {
            Some(Ok(graph)) => drop(self.graph.set(Arc::new(graph))),
            // Paddle has no program for it: the calls go on.
            Some(Err(error)) => log::write(log::BREAKS, &format!("[Graph]: not compiled, called one by one: {error}")),
            None => {}
        }
    }

    fn take(&self) -> Option<Undecided> {
        self.undecided().take()
    }

    fn undecided(&self) -> MutexGuard<'_, Option<Undecided>> {
        self.undecided.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
