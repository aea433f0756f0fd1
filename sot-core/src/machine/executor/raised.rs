//! Exceptions that the trace has raised: by which instruction, as a part of which group, and with what traceback. Of
//! generators it knows by which instruction they were made, which new code cannot do again either.

use std::collections::HashMap;
use std::rc::Rc;

use super::stores::{Journal, Reversible};
use super::traceback::Traceback;
use super::TracebackEntry;
use crate::error::Unwind;
use crate::machine::variable::VarId;

/// What is known of raised exceptions.
#[derive(Default)]
pub struct Raised {
    /// The checkpoint before the instruction that raised an exception or made a generator.
    pub(super) steps: Journal<VarId, u64>,
    /// The outermost group that an exception is a part of.
    pub(super) parts: Journal<VarId, VarId>,
    tracebacks: Journal<VarId, Traceback>,
    /// The variables of traceback entries and of frames, by address.
    pub(super) views: HashMap<usize, VarId>,
    /// Whether the instruction raises again what was handled, which adds no entry to a traceback.
    pub(super) raises_again: bool,
    /// The exception that has just left an inlined frame.
    pub(super) leaving: Option<VarId>,
    /// Whether the trace assumes that its caller handles no exception.
    pub(super) assumes_nothing_handled: bool,
}

impl Raised {
    /// The checkpoint before the instruction that raised an exception, or made a generator, in the trace.
    pub fn step_of(&self, value: VarId) -> Option<u64> {
        self.steps.get(value).copied()
    }

    /// Whether an exception is a part of a group.
    pub fn is_part(&self, part: VarId, group: VarId) -> bool {
        self.parts.get(part) == Some(&group)
    }

    /// An exception is a part of a group: if that was raised, so was this.
    pub fn note_part(&mut self, part: VarId, group: VarId) {
        if let Some(step) = self.step_of(group) {
            self.steps.insert(part, step);
        }
        let root = self.parts.get(group).copied().unwrap_or(group);
        self.parts.insert(part, root);
        self.lose_traceback(part);
    }

    /// A part of a group is raised on its own: from here on it counts for itself.
    pub(super) fn forget_part(&mut self, part: VarId) {
        self.parts.remove(part);
    }

    /// Raises an exception again with the traceback that it has.
    pub fn again(&mut self, exception: VarId) -> Unwind {
        self.raises_again = true;
        Unwind::Raise(exception)
    }

    /// Nothing is known of an exception's traceback from here on.
    pub fn lose_traceback(&mut self, exception: VarId) {
        self.tracebacks.insert(exception, Traceback::Unknown);
    }

    /// The traceback of an exception that was made in the trace.
    pub(super) fn traceback(&self, exception: VarId) -> Traceback {
        self.tracebacks.get(exception).cloned().unwrap_or(Traceback::Known(None))
    }

    /// From here on the traceback of an exception begins with an entry, or is empty.
    pub(super) fn set_traceback(&mut self, exception: VarId, first: Option<Rc<TracebackEntry>>) {
        self.tracebacks.insert(exception, Traceback::Known(first));
    }

    /// The first entry of the traceback of an exception made in the trace, if it is known.
    #[allow(clippy::option_option, reason = "none and unknown are two answers")]
    pub fn traceback_entry(&self, exception: VarId) -> Option<Option<Rc<TracebackEntry>>> {
        match self.traceback(exception) {
            Traceback::Known(entry) => Some(entry),
            Traceback::Unknown => None,
        }
    }
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
