//! Scopes, and the runs that use them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::pass::is_running;

/// Links a scope with the run that used it last.
#[derive(Debug)]
pub(crate) struct ScopeTenancy {
    /// The scopes of the graph's programs.
    pub(crate) scopes: Py<PyList>,
    /// The number of the run that uses the scope.
    pub(super) run: AtomicU64,
    /// True if that run keeps the scope, so that no other run may use it.
    pub(super) kept: AtomicBool,
    /// True until the first backward pass in the scope, which makes an executor of its own.
    pub(super) makes_executor: AtomicBool,
    /// True while the first backward pass of that run may still come.
    pub(super) awaits_pass: AtomicBool,
}

impl ScopeTenancy {
    pub(crate) fn new(scopes: Py<PyList>) -> Self {
        ScopeTenancy {
            scopes,
            run: AtomicU64::new(0),
            kept: AtomicBool::new(false),
            makes_executor: AtomicBool::new(true),
            awaits_pass: AtomicBool::new(false),
        }
    }

    /// True if no first backward pass needs the executors of the run, now or later. A pass that has failed leaves
    /// scopes that cannot be used again.
    pub(crate) fn is_idle(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(!self.awaits_pass.load(Ordering::Relaxed) && (!is_running() || self.is_reusable(py)?))
    }

    /// True if Paddle says that no backward pass needs the scopes any more.
    pub(crate) fn is_reusable(&self, py: Python<'_>) -> PyResult<bool> {
        for scope in self.scopes.bind(py) {
            if !scope.getattr(intern!(py, "_can_reused"))?.is_truthy()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Relaxed)
    }
}
