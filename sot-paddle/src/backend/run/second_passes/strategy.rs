//! How a graph is called that backward passes may go through.
//!
//! [`Replay`] is the plain strategy: each operation is a node of the backward pass, as in eager mode, so every pass
//! works. [`OneNode`] is the fast one: a program, with the other modules supplying what its single node lacks.
//! [`FirstRuns`] replays until a backward pass has come, and then chooses one of the two. [`Exceptions`] replays runs
//! for which no program is possible.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sot_core::{backend, cpython, log, translate};

use super::histories::Histories;
use super::trial::Trial;
use super::{programs_are_disabled, watch};
use crate::backend::graph::planned::PlannedProgram;
use crate::backend::run::{saved_tensors, Graph};

/// A way of calling a graph that backward passes may go through.
trait Strategy: Send + Sync + 'static {
    /// Runs the graph once.
    fn call<'py>(&self, py: Python<'py>, inputs: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>>;
}

/// Makes the callable of a graph with gradients. `calls` calls its statements one by one. If the user says by
/// `MIN_GRAPH_SIZE` which graphs become programs, the graph is a program from the first run.
pub(crate) fn callable(py: Python<'_>, planned: PlannedProgram, calls: Py<PyAny>) -> PyResult<Py<PyAny>> {
    if programs_are_disabled() {
        return Ok(calls);
    }
    watch(py)?;
    if planned.flow.must_be_replayed(&planned.plan) {
        called_one_by_one("backward passes from its results have no operation in common");
        return Ok(calls);
    }
    let histories = Histories::new(py, &planned.paddle, &planned.flow.partial, &planned.parameters)?;
    // Without first runs, nothing shows which outputs passes reach.
    let has_first_runs = backend::min_size_setting().is_none();
    if !has_first_runs && planned.flow.may_make_nan(&planned.plan, &BTreeSet::new()) {
        called_one_by_one(MAY_MAKE_NAN);
        return Ok(calls);
    }
    let replay = Arc::new(Replay(calls));
    if !has_first_runs {
        let graph = match planned.compile(py) {
            Ok(graph) => Arc::new(graph),
            Err(error) if error.is_instance_of::<PyException>(py) => {
                not_compiled(&error);
                return Ok(replay.0.clone_ref(py));
            }
            Err(error) => return Err(error),
        };
        let program = OneNode { graph, replay: Arc::clone(&replay) };
        return callable_of(py, Exceptions { histories, replay, strategy: program });
    }
    let translation = translate::here().unwrap_or_default();
    let undecided = Mutex::new(Some(Undecided { planned, trial: Arc::default() }));
    let first_runs = FirstRuns { translation, replay: Arc::clone(&replay), undecided, program: OnceLock::new() };
    callable_of(py, Exceptions { histories, replay, strategy: first_runs })
}

fn callable_of(py: Python<'_>, strategy: impl Strategy) -> PyResult<Py<PyAny>> {
    cpython::graph_function(py, move |py, inputs| strategy.call(py, inputs).map(Bound::unbind))
}

/// Why a graph is no program although Paddle could compile it.
const MAY_MAKE_NAN: &str =
    "a backward pass that does not come from all results sends zeros through the others, which an \
    infinite derivative would make NaN";

/// Says in the log why a graph is no program.
fn called_one_by_one(why: &str) {
    log::write(log::GRAPHS, &format!("[Graph]: called one by one: {why}"));
}

/// Says in the log that Paddle cannot compile a graph, whose statements are therefore called one by one.
fn not_compiled(error: &PyErr) {
    log::write(log::BREAKS, &format!("[Graph]: not compiled, called one by one: {error}"));
}

/// Calls the graph's statements one by one in eager mode.
struct Replay(Py<PyAny>);

impl Strategy for Replay {
    fn call<'py>(&self, py: Python<'py>, inputs: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
        self.0.bind(py).call1(PyTuple::new(py, inputs)?)
    }
}

/// Runs a program, which is one node of the backward pass, as long as passes release it.
struct OneNode {
    graph: Arc<Graph>,
    replay: Arc<Replay>,
}

impl Strategy for OneNode {
    fn call<'py>(&self, py: Python<'py>, inputs: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
        if self.graph.flow.may_run_as_program() {
            self.graph.call(py, inputs)
        } else {
            self.replay.call(py, inputs)
        }
    }
}

/// Replays until a backward pass has come, or three runs had none. Then it is known if second passes go through the
/// graph, which a program would not support: the graph stays as it is, or becomes a program at its next run.
struct FirstRuns {
    /// Number of the translation that the graph belongs to.
    translation: u64,
    replay: Arc<Replay>,
    /// `None` once the strategy is decided. The lock is never held over a call into Python.
    undecided: Mutex<Option<Undecided>>,
    /// The program, if the graph has become one.
    program: OnceLock<OneNode>,
}

struct Undecided {
    planned: PlannedProgram,
    trial: Arc<Trial>,
}

impl FirstRuns {
    /// Makes the program, unless the graph may not become one, or another thread is making it.
    fn settle(&self, py: Python<'_>, trial: &Trial) {
        let may_make_nan = || {
            let undecided = self.undecided.lock();
            let makes_nan = |it: &Undecided, reached| it.planned.flow.may_make_nan(&it.planned.plan, reached);
            let reached = trial.reached();
            undecided.as_ref().is_some_and(|it| reached.iter().any(|reached| makes_nan(it, reached)))
        };
        let why = if trial.is_gone_through_again() {
            Some("second backward passes go through it")
        } else if programs_are_disabled() {
            Some("a second backward pass could not go through another program")
        } else {
            may_make_nan().then_some(MAY_MAKE_NAN)
        };
        if let Some(why) = why {
            called_one_by_one(why);
            self.take();
            return;
        }
        let compile = || self.take().map(|undecided| undecided.planned.compile(py));
        match translate::compile_later(py, self.translation, compile).flatten() {
            Some(Ok(graph)) => {
                drop(self.program.set(OneNode { graph: Arc::new(graph), replay: Arc::clone(&self.replay) }));
            }
            // Paddle cannot compile the graph, so it is replayed from now on.
            Some(Err(error)) => not_compiled(&error),
            None => {}
        }
    }

    fn take(&self) -> Option<Undecided> {
        self.undecided.lock().take()
    }
}

impl Strategy for FirstRuns {
    fn call<'py>(&self, py: Python<'py>, inputs: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
        if let Some(program) = self.program.get() {
            return program.call(py, inputs);
        }
        let undecided = self.undecided.lock().as_ref().map(|undecided| {
            (Arc::clone(&undecided.trial), Arc::clone(&undecided.planned.flow.carries_other_gradients))
        });
        if let Some((trial, carries)) = undecided {
            if !programs_are_disabled() && !trial.is_over() {
                let results = self.replay.call(py, inputs)?;
                trial.note(&results, &carries)?;
                return Ok(results);
            }
            self.settle(py, &trial);
        }
        match self.program.get() {
            Some(program) => program.call(py, inputs),
            None => self.replay.call(py, inputs),
        }
    }
}

/// Replays single runs for which no program is possible, whatever the strategy of the others: runs under
/// `saved_tensors_hooks`, and runs that are given inputs with a history ([`Histories`]).
struct Exceptions<S> {
    histories: Histories,
    replay: Arc<Replay>,
    strategy: S,
}

impl<S: Strategy> Strategy for Exceptions<S> {
    fn call<'py>(&self, py: Python<'py>, inputs: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
        if saved_tensors::have_hooks() || self.histories.are_any_given(py, inputs)? {
            self.replay.call(py, inputs)
        } else {
            self.strategy.call(py, inputs)
        }
    }
}
