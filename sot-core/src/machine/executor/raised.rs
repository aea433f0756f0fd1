//! Exceptions that the trace has raised: by which instruction, as a part of which group, and with what traceback. Of
//! generators it knows by which instruction they were made, which new code cannot do again either.

use std::collections::HashMap;

use super::stores::{Journal, Reversible};
use super::traceback::Traceback;
use crate::machine::variable::VarId;

/// What is known of raised exceptions.
#[derive(Default)]
pub(super) struct Raised {
    /// The checkpoint before the instruction that raised an exception or made a generator.
    pub(super) steps: Journal<VarId, u64>,
    /// The outermost group that an exception is a part of.
    pub(super) parts: Journal<VarId, VarId>,
    /// Tracebacks of exceptions that were raised.
    pub(super) tracebacks: Journal<VarId, Traceback>,
    /// The variables of traceback entries and of frames, by address.
    pub(super) views: HashMap<usize, VarId>,
    /// Whether the instruction raises again what was handled, which adds no entry to a traceback.
    pub(super) raises_again: bool,
    /// The exception that has just left an inlined frame.
    pub(super) leaving: Option<VarId>,
    /// Whether the trace assumes that its caller handles no exception.
    pub(super) assumes_nothing_handled: bool,
}

impl Reversible for Raised {
    type Mark = [usize; 3];

    fn mark(&self) -> [usize; 3] {
        [self.steps.len(), self.parts.len(), self.tracebacks.len()]
    }

    fn go_back(&mut self, [steps, parts, tracebacks]: [usize; 3], first_gone: VarId) {
        self.steps.undo_to(steps);
        self.parts.undo_to(parts);
        self.tracebacks.undo_to(tracebacks);
        self.views.retain(|_, view| *view < first_gone);
    }
}
