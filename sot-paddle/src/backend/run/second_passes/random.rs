//! The random numbers of a program's runs. A run that is repeated must draw the same numbers.

use std::sync::OnceLock;

use pyo3::prelude::*;
use sot_core::cpython;

use super::module;

/// Remembers whether a program draws random numbers. This is unknown until the program has run.
#[derive(Debug, Default)]
pub(crate) struct Random(OnceLock<bool>);

impl Random {
    /// Does `run`, and returns the state of the random numbers before it, if the program draws some.
    pub(crate) fn around<T>(
        &self,
        py: Python<'_>,
        run: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<(T, Option<Py<PyAny>>)> {
        if self.0.get() == Some(&false) {
            return run().map(|result| (result, None));
        }
        let state = cpython::import(py, "paddle")?.call_method0("get_rng_state")?.unbind();
        let result = run()?;
        if self.0.get().is_none() {
            let draws = {
                let _quiet = cpython::suspend(py);
                module(py)?.call_method1("draws_since", (&state,))?.is_truthy()?
            };
            // Another thread may have set the same value meanwhile.
            let _ = self.0.set(draws);
        }
        Ok((result, Some(state).filter(|_| self.0.get() == Some(&true))))
    }
}
