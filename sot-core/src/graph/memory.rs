//! Graphs whose values have memory: the builder takes back what an abandoned stretch of the trace has left.

use pyo3::prelude::*;

use super::FunctionGraph;
use crate::backend::GraphBuilder;

/// What is noted of the builder.
#[derive(Default)]
pub(super) struct Memory {
    /// How many operations it has.
    operations: usize,
    /// What it raised when it was to take some back.
    error: Option<PyErr>,
}

impl Memory {
    /// What the builder raised, once.
    pub(super) fn error(&mut self) -> Option<PyErr> {
        self.error.take()
    }
}

impl FunctionGraph<'_> {
    /// Whether values have memory.
    pub(crate) fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// How many operations the builder has that may be taken back.
    pub(super) fn operations(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.operations)
    }

    /// Lets the backend make a statement. Where values have memory, one that is refused leaves nothing behind.
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

    /// Lets the builder take back all operations but the first so many, where values have memory. What it raises is
    /// raised when the builder is asked for something next.
    pub(super) fn take_back(&mut self, operations: usize) {
        let (Some(memory), Some(builder)) = (&mut self.memory, &mut self.builder) else { return };
        match builder.roll_back(operations) {
            Ok(()) => memory.operations = operations,
            Err(error) => memory.error = Some(error),
        }
    }

    /// Whether it must run though none of its tensors lives on.
    pub fn has_effects(&self) -> bool {
        self.writes_outside() || self.has_memory() && self.builder.as_ref().is_some_and(|builder| builder.has_effects())
    }
}
