//! Checkpoints: the state before each instruction of the outermost frame, so that an instruction that cannot be simulated
//! leaves no trace of the attempt. Values are small indices and changes are logged, so a checkpoint is a few lengths.

use super::{Block, Name, OpcodeExecutor};
use crate::bytecode::Label;
use crate::error::{PlannedBreak, Reason};
use crate::graph::GraphMark;
use crate::variable::{VarId, VariablesMark};

/// The outermost frame as it was before an instruction.
#[derive(Default)]
pub struct Checkpoint {
    /// The instruction.
    pub at: Label,
    /// The value stack.
    pub stack: Vec<VarId>,
    /// Locals by slot.
    pub locals: Vec<Option<VarId>>,
    /// Cell variables, then free variables.
    pub cells: Vec<VarId>,
    /// The block stack (3.8 to 3.10).
    pub blocks: Vec<Block>,
    /// Keyword names waiting for a call (3.11 and 3.12).
    pub keyword_names: Option<Vec<Name>>,
    /// The exception being handled.
    pub handled: Option<VarId>,
    marks: Option<Marks>,
}

#[derive(Clone, Copy)]
struct Marks {
    vars: VariablesMark,
    graph: GraphMark,
    effects: usize,
}

/// Where and why the graph of the outermost frame ends.
pub struct BreakPoint {
    /// The frame before the breaking instruction.
    pub frame: Checkpoint,
    /// Why.
    pub reason: Reason,
}

impl OpcodeExecutor<'_> {
    /// Notes the state of the outermost frame, which is about to run an instruction.
    pub(super) fn save(&mut self) {
        self.root_steps += 1;
        let marks = Marks { vars: self.vars.mark(), graph: self.graph.mark(), effects: self.effects.len() };
        let (frame, saved) = (&self.frames[0], &mut self.checkpoint);
        saved.at = frame.pc;
        saved.stack.clone_from(&frame.stack);
        saved.locals.clone_from(&frame.locals);
        saved.cells.clone_from(&frame.cells);
        saved.blocks.clone_from(&frame.blocks);
        saved.keyword_names.clone_from(&frame.keyword_names);
        saved.handled = frame.handled;
        saved.marks = Some(marks);
    }

    /// Asks that the trace stop before an instruction it is known to break at.
    pub(crate) fn plan_break(&mut self, planned: PlannedBreak) {
        self.planned = Some(planned);
    }

    /// The plan to stop where the trace broke, if the breaking instruction left operations in the graph: they may have
    /// effects, and a builder cannot take them back.
    pub(crate) fn replan(&self, reason: &Reason) -> Option<PlannedBreak> {
        let marks = self.checkpoint.marks?;
        let left_behind = self.graph.mark() != marks.graph;
        left_behind.then(|| PlannedBreak { step: self.root_steps, reason: reason.clone() })
    }

    /// Undoes what the last instruction of the outermost frame did, and gives the frame as it was before.
    pub(crate) fn take_break_point(&mut self, reason: Reason) -> BreakPoint {
        let frame = std::mem::take(&mut self.checkpoint);
        if let Some(marks) = frame.marks {
            self.vars.roll_back(marks.vars);
            self.effects.truncate(marks.effects);
            let first_gone = self.vars.next_id();
            self.graph.roll_back(marks.graph, first_gone);
            self.identities.forget_from(first_gone);
        }
        BreakPoint { frame, reason }
    }
}
