//! Second backward passes, which Paddle's programs do not have: through a backward pass, or once more through the same graph.
//! `sot/_second_passes.py` looks at where they go; here is what the backend asks and tells it.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use sot_core::cpython;
use sot_core::stats;

const MODULE: &str = "sot._second_passes";

/// Whether one was to go through a program: no graph with gradients becomes one from then on.
static EVERYWHERE: AtomicBool = AtomicBool::new(false);

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_second_passes_everywhere, module)?)
}

/// Whether no graph with gradients may become a program.
pub(super) fn are_everywhere() -> bool {
    EVERYWHERE.load(Ordering::Relaxed)
}

/// As before the first.
pub(crate) fn reset() {
    EVERYWHERE.store(false, Ordering::Relaxed);
}

/// From here on backward passes are looked at.
pub(super) fn watch(py: Python<'_>) -> PyResult<()> {
    cpython::import(py, MODULE)?.call_method0("watch").map(drop)
}

/// What is given the results of each run of a program, so that only one backward pass goes through them.
pub(super) fn run_noter(py: Python<'_>) -> PyResult<Py<PyAny>> {
    watch(py)?;
    Ok(cpython::import(py, MODULE)?.getattr("note_run")?.unbind())
}

/// The first runs of a graph.
pub(super) struct Trial(Py<PyAny>);

impl Trial {
    pub(super) fn new(py: Python<'_>) -> PyResult<Self> {
        Ok(Trial(cpython::import(py, MODULE)?.call_method0("Trial")?.unbind()))
    }

    /// Looks at the results of one of them.
    pub(super) fn note(&self, results: &Bound<'_, PyAny>) -> PyResult<()> {
        let _quiet = cpython::suspend(results.py());
        self.0.bind(results.py()).call_method1("note", (results,)).map(drop)
    }

    /// Whether they suffice to tell whether second passes go through the graph.
    pub(super) fn is_over(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.bind(py).call_method0("is_over")?.is_truthy()
    }

    /// Whether second passes go through the graph.
    pub(super) fn is_gone_through_again(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.bind(py).call_method0("is_gone_through_again")?.is_truthy()
    }
}

/// Says that one was to go through a program.
#[pyfunction]
fn _second_passes_everywhere() {
    if !EVERYWHERE.swap(true, Ordering::Relaxed) {
        stats::forget();
    }
}
