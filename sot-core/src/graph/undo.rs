//! Undoes what the calls of a replay have written and drawn, if a later one raises: the frame then runs again in
//! CPython.

use pyo3::prelude::*;

use crate::backend::Backend;

/// The tensors that a replay has written to, with what they held before, in the order of the writes.
pub(super) struct UndoneWrites<'py> {
    backend: &'static dyn Backend,
    saved: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    /// The state of the random numbers before the replay, if it draws some.
    random_state: Option<Bound<'py, PyAny>>,
}

impl<'py> UndoneWrites<'py> {
    pub(super) fn new(backend: &'static dyn Backend) -> Self {
        UndoneWrites { backend, saved: Vec::new(), random_state: None }
    }

    /// Saves the state of the random numbers.
    pub(super) fn save_random_state(&mut self, py: Python<'py>) -> PyResult<()> {
        self.random_state = self.backend.eager_tensors().random_state(py)?;
        Ok(())
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

    /// Gives the tensors what they held before, and the random numbers their former state.
    pub(super) fn undo(self) -> PyResult<()> {
        let tensors = self.backend.eager_tensors();
        self.saved.iter().rev().try_for_each(|(tensor, saved)| tensors.put_back(tensor, saved))?;
        self.random_state.map_or(Ok(()), |state| tensors.put_back_random_state(&state))
    }
}
