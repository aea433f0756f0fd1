//! Exceptions that the trace has raised: by which instruction, as a part of which exception group, and with which
//! traceback. For generators, the instruction that made them, which new code cannot repeat either.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::traceback::{Traceback, TracebackEntry};
use crate::error::Unwind;
use crate::machine::executor::record::rollback::{Journal, Reversible};
use crate::machine::variable::VarId;

/// What is known of exceptions raised in the trace.
#[derive(Default)]
pub struct Raised {
    /// Number of the checkpoint before the instruction that raised an exception or made a generator.
    pub(in crate::machine::executor) steps: Journal<VarId, u64>,
    /// The outermost exception group that an exception is a part of.
    pub(super) parts: Journal<VarId, VarId>,
    tracebacks: Journal<VarId, Traceback>,
    /// The variables of traceback entries and frame objects, by address.
    pub(super) views: FxHashMap<usize, VarId>,
    /// True if the instruction raises the handled exception again, which adds no entry to its traceback.
    pub(super) raises_again: bool,
    /// The exception that has just left an inlined frame.
    pub(in crate::machine::executor) leaving: Option<VarId>,
    /// True if a guard tests that the caller handles no exception.
    pub(super) assumes_nothing_handled: bool,
}

impl Raised {
    /// Number of the checkpoint before the instruction that raised an exception, or made a generator, in the trace.
    pub fn step_of(&self, value: VarId) -> Option<u64> {
        self.steps.get(value).copied()
    }

    /// Lets new code make an exception without its traceback.
    pub(crate) fn forget_step(&mut self, exception: VarId) {
        self.steps.remove(exception);
    }

    /// True if an exception is a part of a group.
    pub fn is_part(&self, part: VarId, group: VarId) -> bool {
        self.parts.get(part) == Some(&group)
    }

    /// Notes that an exception is a part of a group. It counts as raised by the instruction that raised the group.
    pub fn note_part(&mut self, part: VarId, group: VarId) {
        if let Some(step) = self.step_of(group) {
            self.steps.insert(part, step);
        }
        let root = self.parts.get(group).copied().unwrap_or(group);
        self.parts.insert(part, root);
        self.lose_traceback(part);
    }

    /// Notes that a part of a group is raised on its own, so that it is no longer treated as a part.
    pub(super) fn forget_part(&mut self, part: VarId) {
        self.parts.remove(part);
    }

    /// Raises an exception again with its present traceback.
    pub fn again(&mut self, exception: VarId) -> Unwind {
        self.raises_again = true;
        Unwind::Raise(exception)
    }

    /// Notes that the traceback of an exception is unknown from now on.
    pub fn lose_traceback(&mut self, exception: VarId) {
        self.tracebacks.insert(exception, Traceback::Unknown);
    }

    /// The traceback of an exception that was made in the trace.
    pub(super) fn traceback(&self, exception: VarId) -> Traceback {
        self.tracebacks.get(exception).cloned().unwrap_or(Traceback::Known(None))
    }

    /// Replaces the traceback of an exception; `None` is an empty one.
    pub(super) fn set_traceback(&mut self, exception: VarId, first: Option<Rc<TracebackEntry>>) {
        self.tracebacks.insert(exception, Traceback::Known(first));
    }

    /// The first entry of the traceback of an exception made in the trace; `None` if the traceback is unknown.
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
        // Both concern an exception that is on its way out of a frame, and marks are set where there is none.
        (self.raises_again, self.leaving) = (false, None);
        self.views.retain(|_, view| *view < first_gone);
    }
}
