//! Hooks that come to results of a program when it has run, where others of its results are computed from these. Paddle would have
//! them see what comes from outside alone. They are called as the graph's statements have it instead, which are called one by one for
//! that when a backward pass has come to all results (`sot/_late_hooks.py`).

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sot_core::cpython;

use super::{give_up_programs, locked, stop_pass, Pass, PastRun, ERROR_HOOK};

thread_local! {
    static IS_PLAIN: Cell<bool> = const { Cell::new(false) };
}

/// Whether `paddle.grad` goes through statements that were called again, and through no program.
pub(super) fn is_plain() -> bool {
    IS_PLAIN.get()
}

/// `paddle.grad` that goes through statements that were called again.
#[pyfunction(name = "_plain_grad")]
#[pyo3(signature = (*args, **names))]
pub(super) fn plain_grad<'py>(
    args: &Bound<'py, PyTuple>,
    names: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let grad = cpython::import(args.py(), "paddle")?.getattr("grad")?;
    let was_plain = IS_PLAIN.replace(true);
    let gradients = grad.call(args, names);
    IS_PLAIN.set(was_plain);
    gradients
}

/// Those of one run.
#[derive(Default)]
pub(in super::super) struct LateHooks {
    /// `sot._late_hooks.LateHooks`. The lock is never held over a call into Python.
    hooks: Mutex<Option<Py<PyAny>>>,
    /// Whether statements must be called for them.
    call_again: AtomicBool,
}

impl LateHooks {
    /// Whether statements must be called again.
    pub(super) fn call_again(&self) -> bool {
        self.call_again.load(Ordering::Relaxed)
    }

    /// A pass has come to a result with a gradient.
    pub(super) fn take_down(&self, is_new: bool, pass: Pass, at: usize, gradient: &Bound<'_, PyAny>) -> PyResult<()> {
        if !self.call_again() {
            return Ok(());
        }
        if !pass.may_hold_others {
            return stop_pass(ERROR_HOOK);
        }
        let py = gradient.py();
        let Some(hooks) = locked(&self.hooks).as_ref().map(|hooks| hooks.clone_ref(py)) else { return Ok(()) };
        hooks.call_method1(py, "take_down", (is_new, at, gradient)).map(drop)
    }
}

impl PastRun {
    /// What is given the hooks that come to its results. `None` if no result is computed from another one.
    pub(super) fn late_hooks<'py>(self: &Arc<Self>, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let known = locked(&self.late.hooks).as_ref().map(|hooks| hooks.bind(py).clone());
        let through = self.through();
        if known.is_some() || through.is_empty() {
            return Ok(known);
        }
        let run = Arc::downgrade(self);
        let prepare = cpython::fastcall(py, "prepare", "", {
            let run = run.clone();
            move |py, _| {
                if let Some(run) = run.upgrade() {
                    run.late.call_again.store(true, Ordering::Relaxed);
                    run.copy_given(py)?;
                }
                give_up_programs();
                Ok(py.None())
            }
        })?;
        let again = cpython::fastcall(py, "again", "", move |py, _| {
            let Some(run) = run.upgrade() else { return Ok(py.None()) };
            let results = run.call_again(py)?;
            Ok((results, run.varying(py)?).into_pyobject(py)?.into_any().unbind())
        })?;
        let hooks = cpython::import(py, "sot._late_hooks")?.call_method1("LateHooks", (through, prepare, again))?;
        *locked(&self.late.hooks) = Some(hooks.clone().unbind());
        Ok(Some(hooks))
    }
}
