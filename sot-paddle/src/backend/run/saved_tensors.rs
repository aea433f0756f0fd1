//! Hooks on the tensors that operations save for their backward pass (`paddle.autograd.saved_tensors_hooks`, which
//! recomputation without reentrance sets). A program saves no tensors that such hooks could see, so while hooks are
//! set a graph with gradients is called operation by operation.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use sot_core::cpython;

use crate::backend::run::second_passes::replace;

static ARE_SET: AtomicBool = AtomicBool::new(false);

/// True if hooks are set. As in Paddle, they are set for all threads.
pub(crate) fn have_hooks() -> bool {
    ARE_SET.load(Ordering::Relaxed)
}

/// Watches Paddle's functions that set and remove the hooks, so that [`have_hooks`] is right from now on.
pub(crate) fn watch(py: Python<'_>) -> PyResult<()> {
    let eager = cpython::import(py, "paddle.base.core")?.getattr("eager")?;
    replace(&eager, "register_saved_tensors_hooks", |function, args| note(function, args, true))?;
    replace(&eager, "reset_saved_tensors_hooks", |function, args| note(function, args, false))
}

fn note<'py>(function: &Bound<'py, PyAny>, args: &[Bound<'py, PyAny>], are_set: bool) -> PyResult<Bound<'py, PyAny>> {
    let result = cpython::call_with_names(function, args, None)?;
    ARE_SET.store(are_set, Ordering::Relaxed);
    Ok(result)
}
