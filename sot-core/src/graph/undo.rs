//! Undoes what the calls of a replay have written, if a later one raises: the frame then runs again in CPython.

use pyo3::prelude::*;

use crate::backend::Backend;

/// The tensors that a replay has written to, with what they held before, in the order of the writes.
pub(super) struct UndoneWrites<'py> {
    backend: &'static dyn Backend,
    saved: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
}

impl<'py> UndoneWrites<'py> {
    pub(super) fn new(backend: &'static dyn Backend) -> Self {
        UndoneWrites { backend, saved: Vec::new() }
    }

    /// Saves what a tensor holds, before a call that may write to it.
    pub(super) fn save(&mut self, tensor: &Bound<'py, PyAny>) -> PyResult<()> {
        if self.saved.iter().any(|(known, _)| known.is(tensor)) {
            return Ok(());
        }
        if let Some(contents) = self.backend.eager_tensors().contents(tensor)? {
            self.saved.push((tensor.clone(), contents));
        }
        Ok(())
    }

    /// Returns the tensors that a call writes to besides its operands.
    pub(super) fn written_beside(
        &self,
        callee: &Bound<'py, PyAny>,
        args: &[Bound<'py, PyAny>],
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.backend.eager_tensors().written_beside(callee, args)
    }

    /// Gives the tensors what they held before.
    pub(super) fn undo(self) -> PyResult<()> {
        self.saved.iter().rev().try_for_each(|(tensor, saved)| self.backend.eager_tensors().put_back(tensor, saved))
    }
}
