//! The backward passes that are running, and what each has reached.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sot_core::cpython;

use super::trial::Passes;
use super::unreached::PartlyReachedRun;
use super::PastRun;
use crate::backend::run::collector::{Collector, CollectorScope};

/// A backward pass.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    pub(super) id: u64,
    pub(super) kind: PassKind,
    /// True if it has reached a program.
    pub(super) through_program: bool,
    /// True if it has reached a run that another pass has gone through before.
    pub(super) is_second: bool,
    /// The error with which it was stopped at a program.
    pub(super) stopped: Option<&'static str>,
    pub(super) hooks: Hooks,
    /// The number of a run at whose only result the pass ends, because only its gradient is asked for. The pass does
    /// not go through the program.
    pub(super) ends_at: Option<u64>,
}

/// Says whether a pass calls hooks. If gradients are computed several times, only one of the passes calls hooks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hooks {
    Called,
    Muted,
    /// Muted, and at least one hook would have been called.
    MutedSome,
}

/// The treatment of the graph that a pass goes through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PassKind {
    /// Releases the graph.
    Frees,
    /// Keeps the graph, without saying that another pass follows.
    Leaves,
    /// Keeps the graph for another pass.
    Keeps,
    /// Keeps the graph. Gradients that reach a program are recorded and go no further.
    StopsAtPrograms,
}

impl PassKind {
    /// True if another pass follows.
    pub(super) fn is_for_another(self) -> bool {
        matches!(self, PassKind::Keeps | PassKind::StopsAtPrograms)
    }

    /// True if another pass may follow.
    pub(super) fn may_be_followed(self) -> bool {
        self != PassKind::Frees
    }
}

impl Pass {
    /// A pass that began before passes were watched.
    pub(super) const UNKNOWN: Pass = Pass {
        id: 1,
        kind: PassKind::Frees,
        through_program: false,
        is_second: false,
        stopped: None,
        hooks: Hooks::Called,
        ends_at: None,
    };

    pub(super) fn new(kind: PassKind) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(Pass::UNKNOWN.id + 1);
        Pass { id: NEXT.fetch_add(1, Ordering::Relaxed), kind, ..Pass::UNKNOWN }
    }

    /// A pass without hooks: if it reaches a program, the gradients are computed again.
    pub(super) fn without_hooks(kind: PassKind) -> Self {
        Pass { hooks: Hooks::Muted, ..Pass::new(kind) }
    }
}

/// A pass while it runs.
pub(super) struct RunningPass {
    pub(super) pass: Pass,
    /// The text of the error with which eager mode refuses the pass, because it reads a tensor that was written to in
    /// place since the forward pass.
    pub(super) refusal: Option<String>,
    /// While it lives, executors are made with the collector of the last program that the pass reached.
    pub(super) collector_scope: Option<CollectorScope>,
    /// `sot._second_passes.Kept` of the tensors that programs were given, by identity.
    pub(super) given: Option<Py<PyDict>>,
    /// The runs of programs that it has gone through and keeps.
    pub(super) kept: Vec<Arc<PastRun>>,
    /// Leaves without a gradient among the inputs and parameters of the runs that it has reached.
    pub(super) leaves: Vec<Py<PyAny>>,
    /// Gradients that have reached programs and went no further.
    pub(super) met: Vec<MetGradient>,
    /// Runs that it has reached from some of their results.
    pub(super) partly_reached: Vec<PartlyReachedRun>,
    /// Runs of replayed graphs that it has reached.
    pub(super) trials: Vec<Arc<Passes>>,
}

impl RunningPass {
    pub(super) fn new(pass: Pass) -> Self {
        RunningPass {
            pass,
            refusal: None,
            collector_scope: None,
            given: None,
            kept: Vec::new(),
            leaves: Vec::new(),
            met: Vec::new(),
            partly_reached: Vec::new(),
            trials: Vec::new(),
        }
    }

    /// True if there are hooks that the pass has not called, or hooks on results that it has not reached.
    pub(super) fn has_hooks(&self, py: Python<'_>) -> bool {
        self.pass.hooks == Hooks::MutedSome || self.kept.iter().any(|run| run.late.get(py).is_some())
    }
}

/// A gradient that has reached a result of a program.
pub(super) struct MetGradient {
    pub(super) run: Arc<PastRun>,
    pub(super) result: usize,
    pub(super) gradient: Py<PyAny>,
}

thread_local! {
    /// The running passes of this thread, the innermost last: recomputed parts and Python's own gradients start passes
    /// inside a pass.
    pub(super) static RUNNING: RefCell<Vec<RunningPass>> = const { RefCell::new(Vec::new()) };
}

/// Stops the pass that is running in this thread with an error of eager mode's.
pub(super) fn refuse<T>(text: &str) -> PyResult<T> {
    RUNNING.with_borrow_mut(|running| {
        if let Some(running) = running.last_mut() {
            running.refusal = Some(text.to_owned());
        }
    });
    Err(PyRuntimeError::new_err(text.to_owned()))
}

/// Calls `look` with the pass that is running in this thread.
pub(super) fn with_running<T>(look: impl FnOnce(&mut Pass) -> T) -> T {
    RUNNING.with_borrow_mut(|running| match running.last_mut() {
        Some(running) => look(&mut running.pass),
        None => look(&mut { Pass::UNKNOWN }),
    })
}

/// True if a pass is running in this thread.
pub(crate) fn is_running() -> bool {
    RUNNING.with_borrow(|running| !running.is_empty())
}

/// Records the gradient that has reached a result of a program.
pub(super) fn note_gradient(run: &Arc<PastRun>, result: usize, gradient: &Bound<'_, PyAny>) {
    RUNNING.with_borrow_mut(|running| {
        if let Some(running) = running.last_mut() {
            running.met.push(MetGradient { run: Arc::clone(run), result, gradient: gradient.clone().unbind() });
        }
    });
}

/// Records that the running pass has reached a run that was given these leaves.
pub(super) fn note_leaves(leaves: Vec<Bound<'_, PyAny>>) {
    RUNNING.with_borrow_mut(|running| {
        if let Some(running) = running.last_mut() {
            running.leaves.extend(leaves.into_iter().map(Bound::unbind));
        }
    });
}

/// Records that the running pass has reached the run of a replayed graph.
pub(super) fn note_trial(passes: &Arc<Passes>) {
    RUNNING.with_borrow_mut(|running| {
        if let Some(running) = running.last_mut() {
            running.trials.push(Arc::clone(passes));
        }
    });
}

/// Records that the running pass keeps this run.
pub(super) fn note_run(run: &Arc<PastRun>) {
    RUNNING.with_borrow_mut(|running| {
        if let Some(running) = running.last_mut() {
            running.kept.push(Arc::clone(run));
        }
    });
}

/// Returns the dict in which the running pass keeps copies of what programs were given.
pub(super) fn kept(py: Python<'_>) -> Bound<'_, PyDict> {
    RUNNING.with_borrow_mut(|running| match running.last_mut() {
        Some(running) => running.given.get_or_insert_with(|| PyDict::new(py).unbind()).bind(py).clone(),
        None => PyDict::new(py),
    })
}

/// Makes the next executor of the running pass use this collector.
pub(super) fn make_executor(py: Python<'_>, collector: Collector) -> PyResult<()> {
    let _exceptions = cpython::hold_exceptions(py);
    let collector_scope = CollectorScope::new(py, collector)?;
    // Dropping the former stretch sets the flag back, in Python: that must not happen while the list is borrowed.
    let gone = RUNNING.with_borrow_mut(|running| match running.last_mut() {
        Some(running) => std::mem::replace(&mut running.collector_scope, collector_scope),
        None => collector_scope,
    });
    drop(gone);
    Ok(())
}
