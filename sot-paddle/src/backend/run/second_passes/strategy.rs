//! How a graph that backward passes may follow is called.
//!
//! [`Replay`] is the plain way: in the backward pass each operation is a node of its own, as in eager mode, and
//! whatever pass comes finds what it finds there. [`OneNode`] is the fast one: a program, with all that the other
//! modules do about what its single node lacks. [`FirstRuns`] replays until a backward pass has come, and takes one of
//! the two then. [`Exceptions`] replays the runs that no program can stand for.

use std::sync::{Arc, Mutex, OnceLock};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sot_core::{cpython, graph, log, translate};

use super::histories::Histories;
use super::trial::Trial;
use super::{are_everywhere, locked, watch};
use crate::backend::graph::planned::Planned;
use crate::backend::run::{saved_tensors, Graph};

/// A way of calling a graph that backward passes may follow.
trait Strategy: Send + Sync + 'static {
    /// One run.
    fn call<'py>(&self, py: Python<'py>, inputs: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>>;
}

/// The callable of a graph with gradients; `calls` calls its statements one by one. Who says by `MIN_GRAPH_SIZE` which
/// graphs are programs gets the program at once.
pub(crate) fn callable(py: Python<'_>, planned: Planned, calls: Py<PyAny>) -> PyResult<Py<PyAny>> {
    if are_everywhere() {
        return Ok(calls);
    }
    watch(py)?;
    if planned.flow.must_be_replayed(&planned.plan) {
        return Ok(calls);
    }
    let histories = Histories::new(py, &planned.paddle, &planned.flow.partial, &planned.parameters)?;
    let replay = Arc::new(Replay(calls));
    if graph::said_min_size().is_some() {
        let program = OneNode { graph: Arc::new(planned.compile(py)?), replay: Arc::clone(&replay) };
        return callable_of(py, Exceptions { histories, replay, strategy: program });
    }
    let undecided = Mutex::new(Some(Undecided { planned, trial: Arc::default() }));
    let first_runs = FirstRuns { replay: Arc::clone(&replay), undecided, program: OnceLock::new() };
    callable_of(py, Exceptions { histories, replay, strategy: first_runs })
}

fn callable_of(py: Python<'_>, strategy: impl Strategy) -> PyResult<Py<PyAny>> {
    cpython::graph_function(py, move |py, inputs| strategy.call(py, inputs).map(Bound::unbind))
}

/// The graph's statements, called one by one in eager mode.
struct Replay(Py<PyAny>);

impl Strategy for Replay {
    fn call<'py>(&self, py: Python<'py>, inputs: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
        self.0.bind(py).call1(PyTuple::new(py, inputs)?)
    }
}

/// A program, which is one node of the backward pass, as long as passes let go of it.
struct OneNode {
    graph: Arc<Graph>,
    replay: Arc<Replay>,
}

impl Strategy for OneNode {
    fn call<'py>(&self, py: Python<'py>, inputs: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
        if self.graph.flow.has_chances() {
            self.graph.call(py, inputs)
        } else {
            self.replay.call(py, inputs)
        }
    }
}

/// Replay until a backward pass has come, or three runs have been without one. By then it is known whether second
/// passes go through the graph, which programs do not have: it stays as it is, or becomes a program at its next run.
struct FirstRuns {
    replay: Arc<Replay>,
    /// `None` once it is settled what becomes of the graph. The lock is never held over a call into Python.
    undecided: Mutex<Option<Undecided>>,
    /// The program, if it has become one.
    program: OnceLock<OneNode>,
}

struct Undecided {
    planned: Planned,
    trial: Arc<Trial>,
}

impl FirstRuns {
    /// Makes the program, unless it may not be, or is another thread's business.
    fn settle(&self, py: Python<'_>, is_gone_through_again: bool) {
        if is_gone_through_again || are_everywhere() {
            self.take();
            return;
        }
        let compile = || self.take().map(|undecided| undecided.planned.compile(py));
        match translate::compile_later(py, compile).flatten() {
            Some(Ok(graph)) => {
                drop(self.program.set(OneNode { graph: Arc::new(graph), replay: Arc::clone(&self.replay) }));
            }
            // Paddle has no program for it: the calls go on.
            Some(Err(error)) => log::write(log::BREAKS, &format!("[Graph]: not compiled, called one by one: {error}")),
            None => {}
        }
    }

    fn take(&self) -> Option<Undecided> {
        locked(&self.undecided).take()
    }
}

impl Strategy for FirstRuns {
    fn call<'py>(&self, py: Python<'py>, inputs: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
        if let Some(program) = self.program.get() {
            return program.call(py, inputs);
        }
        let undecided = locked(&self.undecided)
            .as_ref()
            .map(|undecided| (Arc::clone(&undecided.trial), Arc::clone(&undecided.planned.flow.through)));
        if let Some((trial, through)) = undecided {
            if !are_everywhere() && !trial.is_over() {
                let results = self.replay.call(py, inputs)?;
                trial.note(&results, &through)?;
                return Ok(results);
            }
            self.settle(py, trial.is_gone_through_again());
        }
        match self.program.get() {
            Some(program) => program.call(py, inputs),
            None => self.replay.call(py, inputs),
        }
    }
}

/// Replays the runs that no program can stand for, whatever becomes of the others: where `saved_tensors_hooks` are set,
/// and where the graph is given what has a history ([`Histories`]).
struct Exceptions<S> {
    histories: Histories,
    replay: Arc<Replay>,
    strategy: S,
}

impl<S: Strategy> Strategy for Exceptions<S> {
    fn call<'py>(&self, py: Python<'py>, inputs: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
        if saved_tensors::have_hooks() || self.histories.are_there(py, inputs)? {
            self.replay.call(py, inputs)
        } else {
            self.strategy.call(py, inputs)
        }
    }
}
