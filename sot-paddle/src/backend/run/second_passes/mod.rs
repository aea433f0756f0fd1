//! Backward passes through graphs. In a backward pass a program is one node, where eager mode has a node for each
//! operation. So a program lacks three things:
//!
//! - *Second gradients.* The backward pass of a program is a constant to them: gradients that should flow through it
//!   are silently left out.
//! - *A second pass.* Once a pass has run, the program's memory is freed or used by another run. Passes through two
//!   results that have no operation in common are independent in eager mode; to a program they are two passes.
//! - *Hooks and gradients inside.* The gradient of one result with respect to another is not visible.
//!
//! [`strategy`] decides whether a graph is called operation by operation, which has all three, or runs as a program.
//! The other modules serve programs:
//!
//! | module | |
//! |---|---|
//! | `watch`, `pass`, `trial`, `results` | which passes run, what they do, which runs they go through |
//! | `flow`, `reach`, `carries_other_gradients`, `made`, `histories` | how gradients flow through a graph |
//! | `past_run`, `random` | a run that passes go through again: the scope is filled again, or the program runs again |
//! | `copies` | keeps the scopes of runs that `paddle.grad` copies but does not go through |
//! | `partial_grad`, `late_hooks` | gradients by results, and hooks |
//! | `rehearsal` | runs and passes that verify mode undoes, which must not affect any decision |
//! | `saved_inputs` | refuses passes that would read what was written to since |
//! | `unreached`, `gradient_flags` | gradients of leaves that a pass does not reach; flags of gradients |
//!
//! What Paddle cannot do with a program is computed from the run's statements, called one by one
//! (`sot/_second_passes.py`). Where that is impossible, the pass raises an error that says what to do.

use pyo3::intern;
use pyo3::prelude::*;
use sot_core::cpython;

mod carries_other_gradients;
mod copies;
mod divided;
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
mod saved_inputs;
mod strategy;
mod tenancy;
mod trial;
mod unreached;
mod watch;

pub(crate) use flow::{GradientFlow, ProgramFlow};
pub(crate) use made::key as made_key;
pub(crate) use past_run::PastRun;
pub(crate) use reach::ProgramInput;
pub(crate) use rehearsal::{rehearse_pass, rehearse_runs};
pub(crate) use saved_inputs::{read_backward, SavedInput};
pub(crate) use strategy::callable;
pub(crate) use tenancy::ScopeTenancy;
pub(crate) use watch::{programs_are_disabled, register, reset, watch};

/// A function that is called in the place of another one. Its arguments are the original function and the arguments of
/// the call.
pub(crate) type Replacement = for<'py> fn(&Bound<'py, PyAny>, &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>>;

/// Replaces the function `name` of `module` by `instead`.
pub(crate) fn replace(module: &Bound<'_, PyAny>, name: &str, instead: Replacement) -> PyResult<()> {
    let function = module.getattr(name)?.unbind();
    let watched = move |py: Python<'_>, args: &[Bound<'_, PyAny>]| instead(function.bind(py), args).map(Bound::unbind);
    module.setattr(name, cpython::fastcall(module.py(), name, "", watched)?)
}

fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    cpython::import(py, "sot._second_passes")
}

/// True if a backward pass may reach the tensor.
fn takes_hook(result: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is = |name| result.getattr(name)?.is_truthy();
    Ok(!is(intern!(result.py(), "stop_gradient"))? && !is(intern!(result.py(), "is_leaf"))?)
}

/// Calls `on_pass` with the gradient whenever a backward pass reaches the tensor. The gradient that `on_pass`
/// returns, if any, replaces it.
fn hook<'py>(
    tensor: &Bound<'py, PyAny>,
    on_pass: impl Fn(&Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> + Send + Sync + 'static,
) -> PyResult<Hook<'py>> {
    let py = tensor.py();
    // Paddle calls the hook in the middle of its own work, so no signal handler may raise there.
    let hook = cpython::fastcall(py, "hook", "", move |py, gradient| {
        let _signals = cpython::defer_signals(py);
        Ok(on_pass(&gradient[0])?.unwrap_or_else(|| py.None()))
    })?;
    let id = tensor.call_method1(intern!(py, "_register_grad_hook"), (hook,))?;
    Ok(Hook { tensor: tensor.clone(), id })
}

/// A hook on a tensor, with the number by which Paddle removes it.
struct Hook<'py> {
    tensor: Bound<'py, PyAny>,
    id: Bound<'py, PyAny>,
}

impl Hook<'_> {
    fn remove(self) -> PyResult<()> {
        self.tensor.call_method1("_remove_grad_hook", (self.id,)).map(drop)
    }
}
