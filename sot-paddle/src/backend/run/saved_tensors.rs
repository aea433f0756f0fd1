//! Hooks on what operations save for their backward pass (`paddle.autograd.saved_tensors_hooks`, which recomputation
//! without reentrance sets). A program saves nothing that they could see: under them a graph with gradients is called
//! operation by operation.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use sot_core::cpython;

use crate::backend::run::second_passes::replace;

static ARE_SET: AtomicBool = AtomicBool::new(false);

/// Whether there are any, for all threads, as Paddle has it.
pub(crate) fn have_hooks() -> bool {
    ARE_SET.load(Ordering::Relaxed)
}

/// From here on it is known.
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
