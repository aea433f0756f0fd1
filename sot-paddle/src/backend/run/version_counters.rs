//! In-place versions of results. Paddle counts the in-place writes to a tensor, and a backward pass refuses a saved
//! tensor that was written to since. Its executor gives all results that it computes in one scope the same counter, so
//! a write to the result of one call would spoil the results of earlier calls. A result gets a counter of its own if an
//! earlier one still has the scope's, or has been written to.

use std::sync::OnceLock;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::backend::paddle::native::DenseTensorReader;
use crate::backend::paddle::Paddle;

/// The counters that the executor gives the results of runs in one scope.
#[derive(Default)]
pub(crate) struct VersionCounters {
    results: OnceLock<Vec<ResultCounter>>,
}

/// The counter of one result.
struct ResultCounter {
    /// Number of tensors that have the counter when no result of an earlier run has it: the result, the scope's
    /// variable, and those that the backward pass needs.
    owners: i32,
    /// A tensor whose counter a result may have instead. It is used again when that result is gone.
    spare: Mutex<Option<Py<PyAny>>>,
}

impl VersionCounters {
    /// Gives each result of a run a counter that no result of an earlier run has. The first run in the scope has no
    /// earlier ones.
    pub(crate) fn separate(&self, paddle: &Paddle, results: &Bound<'_, PyAny>) -> PyResult<()> {
        let Some(native) = &paddle.native else { return Ok(()) };
        let Some(counters) = self.results.get() else {
            let counter = |result: PyResult<_>| {
                let owners = native.version(&result?).map_or(i32::MAX, |version| version.owners);
                Ok(ResultCounter { owners, spare: Mutex::new(None) })
            };
            let _ = self.results.set(results.try_iter()?.map(counter).collect::<PyResult<_>>()?);
            return Ok(());
        };
        // Paddle's executor gives a list, which is read without an iterator object.
        if let Ok(results) = results.cast_exact::<PyList>() {
            for (at, counter) in counters.iter().enumerate() {
                counter.separate(native, &results.get_item(at)?)?;
            }
        } else {
            for (counter, result) in counters.iter().zip(results.try_iter()?) {
                counter.separate(native, &result?)?;
            }
        }
        Ok(())
    }
}

impl ResultCounter {
    /// Gives the result a counter of its own if a result of an earlier run has its counter, or it was written to.
    fn separate(&self, native: &DenseTensorReader, result: &Bound<'_, PyAny>) -> PyResult<()> {
        if native.version(result).is_some_and(|version| version.owners > self.owners || version.number != 0) {
            // The lock is not held while Python code may run.
            let mut spare = self.spare.lock().take();
            native.renew_version(result, &mut spare)?;
            *self.spare.lock() = spare;
        }
        Ok(())
    }
}
