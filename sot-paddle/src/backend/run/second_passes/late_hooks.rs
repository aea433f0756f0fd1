//! Hooks that are registered on results after a program has run, where other results are computed from these. Paddle
//! would call them with the gradient from outside the program only. Instead they are called with the gradient that
//! flows through the graph's statements, which are called one by one for that when a backward pass has reached all
//! results (`sot/_late_hooks.py`).

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use sot_core::cpython;

use super::pass::{note_gradient, with_running, Hooks, Pass, PassKind};
use super::watch::give_up_programs;
use super::{made, PastRun};
use crate::backend::graph::outputs::StepNumbers;

/// True if there may be hooks on results that no output outside depends on.
static ANY_WITH_ROOTS: AtomicBool = AtomicBool::new(false);

/// Returns the arguments of a backward pass (outputs at index 0, weights at `weights`), with results that have late
/// hooks added to the outputs, if the pass reaches their programs.
pub(super) fn add_hooked_roots<'a, 'py>(
    py: Python<'py>,
    args: &'a [Bound<'py, PyAny>],
    weights: usize,
) -> PyResult<Cow<'a, [Bound<'py, PyAny>]>> {
    if !ANY_WITH_ROOTS.load(Ordering::Relaxed) {
        return Ok(Cow::Borrowed(args));
    }
    let _quiet = cpython::suspend(py);
    let module = cpython::import(py, "sot._late_hooks")?;
    ANY_WITH_ROOTS.store(module.getattr("_with_roots")?.is_truthy()?, Ordering::Relaxed);
    let mut args = args.to_vec();
    (args[0], args[weights]) = module.call_method1("add_hooked_roots", (&args[0], &args[weights]))?.extract()?;
    Ok(Cow::Owned(args))
}

/// True if a pass calls late hooks when it reaches a program. Not so if its gradients are computed from statements.
fn goes_through(pass: Pass) -> bool {
    pass.hooks == Hooks::Called && pass.kind != PassKind::StopsAtPrograms
}

/// The late hooks of one run.
#[derive(Default)]
pub(crate) struct LateHooks {
    /// `sot._late_hooks.LateHooks`. The lock is never held over a call into Python.
    hooks: Mutex<Option<Py<PyAny>>>,
    /// True if the run's statements must be called again for the hooks.
    call_again: AtomicBool,
}

impl LateHooks {
    /// True if the run's statements must be called again.
    pub(super) fn call_again(&self) -> bool {
        self.call_again.load(Ordering::Relaxed)
    }

    pub(super) fn get<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.hooks.lock().as_ref().map(|hooks| hooks.bind(py).clone())
    }

    /// Records the gradient with which a pass has reached a result.
    pub(super) fn record_gradient(&self, pass: Pass, at: usize, gradient: &Bound<'_, PyAny>) -> PyResult<()> {
        if !self.call_again() || !goes_through(pass) {
            return Ok(());
        }
        let Some(hooks) = self.get(gradient.py()) else { return Ok(()) };
        hooks.call_method1("record_arrival", (pass.id, pass.kind == PassKind::Frees, at, gradient)).map(drop)
    }

    /// Returns the gradient that goes on from a result instead of the one that has arrived, once a pass has reached
    /// all results.
    pub(super) fn replacement(&self, py: Python<'_>, at: usize) -> PyResult<Option<Py<PyAny>>> {
        match self.get(py).filter(|_| self.call_again() && with_running(|pass| goes_through(*pass))) {
            Some(hooks) => hooks.call_method1("replacement", (at,)).map(|gradient| Some(gradient.unbind())),
            None => Ok(None),
        }
    }
}

impl PastRun {
    /// Returns the object that collects hooks on the results of this run. `None` if a pass has released the run.
    pub(super) fn late_hooks<'py>(self: &Arc<Self>, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let known = self.late.get(py);
        let Some(graph) = self.graph().filter(|_| known.is_none()) else { return Ok(known) };
        let carriers = graph.flow.carriers.iter().copied();
        let made_carriers =
            self.made().iter().filter(|made| made.carries_other_gradients).map(|made| made::key(made.place));
        let carriers: Vec<usize> = carriers.chain(made_carriers).collect();
        let made = PyDict::new(py);
        for output in self.made() {
            let (graph, place) = (Arc::clone(&graph), output.place);
            let numbers: StepNumbers = output
                .numbers
                .iter()
                .map(|numbers| numbers.iter().map(|number| number.clone_ref(py)).collect())
                .collect();
            let again =
                cpython::fastcall(py, "make", "", move |_, source| graph.make_again(place, &source[0], &numbers))?;
            made.set_item(made::key(place), (output.root, again))?;
        }
        let run = Arc::downgrade(self);
        let prepare = cpython::fastcall(py, "prepare", "", {
            let run = run.clone();
            move |py, _| {
                give_up_programs();
                run.upgrade()
                    .map_or_else(|| Ok(PyList::empty(py)), |run| run.prepare(py))
                    .map(|made| made.into_any().unbind())
            }
        })?;
        let again = cpython::fastcall(py, "again", "", move |py, _| {
            let Some(run) = run.upgrade() else { return Ok(py.None()) };
            let results = run.call_apart(py)?;
            if with_running(|pass| pass.kind == PassKind::Frees) {
                run.release_given();
            }
            Ok(results.unwrap_or_else(|| py.None()))
        })?;
        let run = Arc::downgrade(self);
        let take_aside = cpython::fastcall(py, "take_aside", "", move |_, args| {
            if let Some(run) = run.upgrade() {
                note_gradient(&run, args[0].extract()?, &args[1]);
            }
            Ok(args[1].py().None())
        })?;
        let given = (carriers, made, prepare, again, take_aside);
        let hooks = cpython::import(py, "sot._late_hooks")?.call_method1("LateHooks", given)?;
        *self.late.hooks.lock() = Some(hooks.clone().unbind());
        Ok(Some(hooks))
    }

    /// Prepares the run for calling its statements again. Returns the outputs that were made from results and are
    /// alive.
    fn prepare<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.late.call_again.store(true, Ordering::Relaxed);
        ANY_WITH_ROOTS.store(true, Ordering::Relaxed);
        self.keep_given(py)?;
        let alive = PyList::empty(py);
        for output in self.made() {
            if let Some(tensor) = output.tensor.get(py) {
                alive.append((made::key(output.place), tensor))?;
            }
        }
        Ok(alive)
    }
}
