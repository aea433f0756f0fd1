//! The backward passes that are running, and what each has met.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sot_core::cpython;

use super::unreached::Partly;
use super::PastRun;
use crate::backend::run::collector::{Collector, Stretch};

/// A backward pass that is running.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    pub(super) id: u64,
    pub(super) kind: PassKind,
    /// Whether it went through a program.
    pub(super) through_program: bool,
    /// Whether another one went through a program before it.
    pub(super) is_second: bool,
    /// The error that it was stopped with before one.
    pub(super) stopped: Option<&'static str>,
    pub(super) hooks: Hooks,
}

/// Whether a pass calls hooks. Where gradients are made several times, one pass of these does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hooks {
    Called,
    Muted,
    /// At least one was to be called.
    MutedSome,
}

/// What a pass does with what it goes through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PassKind {
    /// Lets go of it.
    Frees,
    /// Leaves it as it is, and does not say that it is for another pass.
    Leaves,
    /// Keeps it for another pass.
    Keeps,
    /// Keeps it; what comes to a program is taken down and goes no further.
    StopsAtPrograms,
}

impl PassKind {
    /// Whether another pass is to come.
    pub(super) fn is_for_another(self) -> bool {
        matches!(self, PassKind::Keeps | PassKind::StopsAtPrograms)
    }

    /// Whether another pass may come.
    pub(super) fn may_be_followed(self) -> bool {
        self != PassKind::Frees
    }
}

impl Pass {
    /// One that began before passes were looked at.
    pub(super) const UNKNOWN: Pass = Pass {
        id: 1,
        kind: PassKind::Frees,
        through_program: false,
        is_second: false,
        stopped: None,
        hooks: Hooks::Called,
    };

    pub(super) fn new(kind: PassKind) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(Pass::UNKNOWN.id + 1);
        Pass { id: NEXT.fetch_add(1, Ordering::Relaxed), kind, ..Pass::UNKNOWN }
    }

    /// One after which the gradients are made again if it meets a program.
    pub(super) fn mute(kind: PassKind) -> Self {
        Pass { hooks: Hooks::Muted, ..Pass::new(kind) }
    }
}

/// A pass while it runs.
pub(super) struct Running {
    pub(super) pass: Pass,
    /// That in which it makes executors with the collector of the last program.
    pub(super) stretch: Option<Stretch>,
    /// What programs have been given, as it was.
    pub(super) given: Option<Py<PyDict>>,
    /// The runs of programs that it has gone through and keeps.
    pub(super) kept: Vec<Arc<PastRun>>,
    /// The leaves without a gradient that the runs it has come to were given.
    pub(super) leaves: Vec<Py<PyAny>>,
    /// What has come to programs and went no further.
    pub(super) met: Vec<Met>,
    /// The programs that it has come to from some of their results.
    pub(super) partly: Vec<Partly>,
}

impl Running {
    pub(super) fn new(pass: Pass) -> Self {
        Running {
            pass,
            stretch: None,
            given: None,
            kept: Vec::new(),
            leaves: Vec::new(),
            met: Vec::new(),
            partly: Vec::new(),
        }
    }

    /// Whether there are hooks that it has not called, or that are on what it has not come to.
    pub(super) fn has_hooks(&self, py: Python<'_>) -> bool {
        self.pass.hooks == Hooks::MutedSome || self.kept.iter().any(|run| run.late.get(py).is_some())
    }
}

/// The gradient that has come to a result of a program.
pub(super) struct Met {
    pub(super) run: Arc<PastRun>,
    pub(super) result: usize,
    pub(super) gradient: Py<PyAny>,
}

thread_local! {
    /// Those of this thread, the innermost last: recomputed parts and Python's own gradients ask for others inside of
    /// one.
    pub(super) static RUNNING: RefCell<Vec<Running>> = const { RefCell::new(Vec::new()) };
}

/// Looks at the pass that is running in this thread.
pub(super) fn with_running<T>(look: impl FnOnce(&mut Pass) -> T) -> T {
    RUNNING.with_borrow_mut(|running| match running.last_mut() {
        Some(running) => look(&mut running.pass),
        None => look(&mut { Pass::UNKNOWN }),
    })
}

/// Takes down the gradient that has come to a result of a program.
pub(super) fn note_gradient(run: &Arc<PastRun>, result: usize, gradient: &Bound<'_, PyAny>) {
    RUNNING.with_borrow_mut(|running| {
        if let Some(running) = running.last_mut() {
            running.met.push(Met { run: Arc::clone(run), result, gradient: gradient.clone().unbind() });
        }
    });
}

/// The pass that is running comes to a run that was given these leaves.
pub(super) fn note_leaves(leaves: Vec<Bound<'_, PyAny>>) {
    RUNNING.with_borrow_mut(|running| {
        if let Some(running) = running.last_mut() {
            running.leaves.extend(leaves.into_iter().map(Bound::unbind));
        }
    });
}

/// The pass that is running keeps what it has gone through.
pub(super) fn note_run(run: &Arc<PastRun>) {
    RUNNING.with_borrow_mut(|running| {
        if let Some(running) = running.last_mut() {
            running.kept.push(Arc::clone(run));
        }
    });
}

/// What the pass that is running keeps of what programs have been given.
pub(super) fn kept(py: Python<'_>) -> Bound<'_, PyDict> {
    RUNNING.with_borrow_mut(|running| match running.last_mut() {
        Some(running) => running.given.get_or_insert_with(|| PyDict::new(py).unbind()).bind(py).clone(),
        None => PyDict::new(py),
    })
}

/// The executor that the pass makes next has this collector.
pub(super) fn make_executor(py: Python<'_>, collector: Collector) -> PyResult<()> {
    let _exceptions = cpython::hold_exceptions(py);
    let stretch = Stretch::new(py, collector)?;
    // What goes lets the flag be what it was, in Python: not while the list is borrowed.
    let gone = RUNNING.with_borrow_mut(|running| match running.last_mut() {
        Some(running) => std::mem::replace(&mut running.stretch, stretch),
        None => stretch,
    });
    drop(gone);
    Ok(())
}
