//! Rollback of graphs whose values have memory: the builder takes back the operations of an abandoned part of the
//! trace.

use pyo3::prelude::*;

use super::FunctionGraph;
use crate::backend::GraphBuilder;

/// State of the builder, as far as rollback needs it.
#[derive(Default)]
pub(super) struct Memory {
    /// Number of operations the builder holds.
    operations: usize,
    /// Error that the builder raised during a rollback.
    error: Option<PyErr>,
}

impl Memory {
    /// Takes the error of the last rollback.
    pub(super) fn error(&mut self) -> Option<PyErr> {
        self.error.take()
    }
}

impl FunctionGraph<'_> {
    /// True if the backend's values have memory.
    pub(crate) fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// Number of operations of the builder that may be taken back; 0 if values have no memory.
    pub(super) fn operations(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.operations)
    }

    /// Lets the backend build a statement. Where values have memory, operations of a refused statement are taken
    /// back.
    pub(crate) fn make_statement<T>(
        &mut self,
        append: impl FnOnce(&mut dyn GraphBuilder) -> PyResult<T>,
    ) -> PyResult<T> {
        let made = self.build(append);
        if self.memory.is_some() {
            let operations = self.builder()?.operations()?;
            match (&made, &mut self.memory) {
                (Ok(_), Some(memory)) => memory.operations = operations,
                (..) => self.take_back(self.operations()),
            }
        }
        made
    }

    /// Makes the builder take back all operations behind the first `operations`, where values have memory. An error
    /// is raised at the next use of the builder.
    pub(super) fn take_back(&mut self, operations: usize) {
        let (Some(memory), Some(builder)) = (&mut self.memory, &mut self.builder) else { return };
        match builder.roll_back(operations) {
            Ok(()) => memory.operations = operations,
            Err(error) => memory.error = Some(error),
        }
    }

    /// True if the graph changes tensors from outside, or draws random numbers where values have memory.
    pub fn has_effects(&self) -> bool {
        self.writes_outside() || self.has_memory() && self.builder.as_ref().is_some_and(|builder| builder.has_effects())
    }
}
