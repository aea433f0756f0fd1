//! In-place versions of results. Paddle counts the in-place writes to a tensor, and a backward pass refuses a saved
//! tensor that was written to since. Its executor gives all results that it computes in one scope the same counter, so
//! a write to the result of one call would spoil the results of earlier calls. A result gets a counter of its own if an
//! earlier one still has the scope's, or has been written to.

use std::sync::OnceLock;

use pyo3::prelude::*;

use crate::backend::paddle::Paddle;

/// The counters that the executor gives the results of runs in one scope.
#[derive(Default)]
pub(crate) struct VersionCounters {
    /// For each result, the number of tensors that have its counter when no result of an earlier run has it: the
    /// result, the scope's variable, and those that the backward pass needs.
    owners: OnceLock<Vec<i32>>,
}

impl VersionCounters {
    /// Gives each result of a run a counter that no result of an earlier run has. The first run in the scope has no
    /// earlier ones.
    pub(crate) fn separate(&self, paddle: &Paddle, results: &Bound<'_, PyAny>) -> PyResult<()> {
        let Some(native) = &paddle.native else { return Ok(()) };
        let Some(owners) = self.owners.get() else {
            let owners = |result: PyResult<_>| Ok(native.version(&result?).map_or(i32::MAX, |version| version.owners));
            let _ = self.owners.set(results.try_iter()?.map(owners).collect::<PyResult<_>>()?);
            return Ok(());
        };
        for (result, owners) in results.try_iter()?.zip(owners) {
            let result = result?;
            if native.version(&result).is_some_and(|version| version.owners > *owners || version.number != 0) {
                native.renew_version(&result)?;
            }
        }
        Ok(())
    }
}
