//! Backward passes through graphs. A program is one node of the backward pass, which eager mode's many operations are
//! not, and lacks three things:
//!
//! - *Second gradients.* To them the backward pass of a program is a constant, and what flows through it is left out
//!   without a word.
//! - *A second pass.* Once one has run, the program's memory is freed or another run's. Passes through two results that
//!   have no operation in common, and that eager mode keeps apart, are a second pass to it.
//! - *Hooks and gradients inside.* What one result is of another shows nowhere.
//!
//! [`strategy`] decides whether a graph is called operation by operation, which has all of it, or is a program. The
//! others serve programs:
//!
//! | module | |
//! |---|---|
//! | `watch`, `pass`, `trial`, `results` | which passes run, what they do, which runs they go through |
//! | `flow`, `reach`, `through`, `made`, `histories` | how gradients flow through a graph |
//! | `past_run`, `random` | a run that passes go through again: the scope is filled again, or the program runs again |
//! | `copies` | runs that `paddle.grad` does not go through, and disturbs |
//! | `partial_grad`, `late_hooks` | gradients by results, and hooks |
//! | `rehearsal` | runs and passes that verify mode takes back, which decide nothing |
//! | `unreached`, `gradient_flags` | what `backward` leaves on leaves: gradients that are none, and their `stop_gradient` |
//!
//! What Paddle cannot do with a program is made from the run's statements, called one by one
//! (`sot/_second_passes.py`). Where that is impossible, the pass is an error that says what to do.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use sot_core::cpython;

mod copies;
mod flow;
mod gradient_flags;
mod histories;
mod late_hooks;
mod made;
mod partial_grad;
mod pass;
mod past_run;
mod random;
mod reach;
mod rehearsal;
mod results;
mod strategy;
mod through;
mod trial;
mod unreached;
mod watch;

pub(crate) use flow::{GradientFlow, ProgramFlow};
pub(crate) use made::key as made_key;
pub(crate) use past_run::{PastRun, Tenancy};
pub(crate) use rehearsal::{rehearse_pass, rehearse_runs};
pub(crate) use strategy::callable;
pub(crate) use watch::{are_everywhere, register, reset, watch};

/// What is called in the place of a function: it is given that function and the arguments.
pub(crate) type Instead = for<'py> fn(&Bound<'py, PyAny>, &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>>;

/// Puts `instead` in the place of a function.
pub(crate) fn replace(module: &Bound<'_, PyAny>, name: &str, instead: Instead) -> PyResult<()> {
    let function = module.getattr(name)?.unbind();
    let watched = move |py: Python<'_>, args: &[Bound<'_, PyAny>]| instead(function.bind(py), args).map(Bound::unbind);
    module.setattr(name, cpython::fastcall(module.py(), name, "", watched)?)
}

fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    cpython::import(py, "sot._second_passes")
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a backward pass may come to it.
fn takes_hook(result: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is = |name| result.getattr(name)?.is_truthy();
    Ok(!is(intern!(result.py(), "stop_gradient"))? && !is(intern!(result.py(), "is_leaf"))?)
}

/// Calls `on_pass` with the gradient whenever a backward pass comes to the tensor; what it gives takes the gradient's
/// place.
fn hook<'py>(
    tensor: &Bound<'py, PyAny>,
    on_pass: impl Fn(&Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> + Send + Sync + 'static,
) -> PyResult<Hook<'py>> {
    let py = tensor.py();
    // Paddle calls it in the middle of its own work: no handler of a signal raises there.
    let hook = cpython::fastcall(py, "hook", "", move |py, gradient| {
        let _signals = cpython::defer_signals(py);
        Ok(on_pass(&gradient[0])?.unwrap_or_else(|| py.None()))
    })?;
    let id = tensor.call_method1(intern!(py, "_register_grad_hook"), (hook,))?;
    Ok(Hook { tensor: tensor.clone(), id })
}

/// A hook on a tensor, by Paddle's number.
struct Hook<'py> {
    tensor: Bound<'py, PyAny>,
    id: Bound<'py, PyAny>,
}

impl Hook<'_> {
    fn remove(self) -> PyResult<()> {
        self.tensor.call_method1("_remove_grad_hook", (self.id,)).map(drop)
    }
}
