//! Second gradients: Paddle's backward pass of a program cannot be differentiated again. `sot/_second_gradients.py` looks at
//! where they are taken; here is what the backend asks and tells it.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use sot_core::stats;

const MODULE: &str = "sot._second_gradients";

/// Whether they were taken through a program: no graph with gradients becomes one from then on.
static EVERYWHERE: AtomicBool = AtomicBool::new(false);

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_second_gradients_everywhere, module)?)
}

/// Whether no graph with gradients may become a program.
pub(super) fn are_everywhere() -> bool {
    EVERYWHERE.load(Ordering::Relaxed)
}

/// As before the first was taken.
pub(crate) fn reset() {
    EVERYWHERE.store(false, Ordering::Relaxed);
}

/// From here on Paddle's `grad` is looked at.
pub(super) fn watch(py: Python<'_>) -> PyResult<()> {
    py.import(MODULE)?.call_method0("watch").map(drop)
}

/// The first runs of a graph.
pub(super) struct Trial(Py<PyAny>);

impl Trial {
    pub(super) fn new(py: Python<'_>) -> PyResult<Self> {
        Ok(Trial(py.import(MODULE)?.call_method0("Trial")?.unbind()))
    }

    /// Looks at the results of one of them.
    pub(super) fn note(&self, results: &Bound<'_, PyAny>) -> PyResult<()> {
        self.0.bind(results.py()).call_method1("note", (results,)).map(drop)
    }

    /// Whether they suffice to tell whether second gradients are taken through the graph.
    pub(super) fn is_over(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.bind(py).call_method0("is_over")?.is_truthy()
    }

    /// Whether second gradients are taken through the graph.
    pub(super) fn went_through(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.bind(py).call_method0("went_through")?.is_truthy()
    }
}

/// Says that they were taken through a program.
#[pyfunction]
fn _second_gradients_everywhere() {
    if !EVERYWHERE.swap(true, Ordering::Relaxed) {
        stats::forget();
    }
}
