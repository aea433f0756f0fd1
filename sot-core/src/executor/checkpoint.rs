//! Checkpoints: the state before each instruction of the outermost frame, and of the frames that it calls directly: each by
//! an instruction that does nothing but this call. An instruction that cannot be simulated leaves no trace of the attempt.
//! Values are small indices and changes are logged, so a checkpoint is a few lengths.

use std::rc::Rc;

use super::{Block, CodeUnit, Frame, Name, OpcodeExecutor};
use crate::bytecode::{Label, Opcodes, Operand};
use crate::error::{PlannedBreak, Reason};
use crate::graph::GraphMark;
use crate::tracker::TrackerId;
use crate::variable::{VarId, VariablesMark};

/// A frame as it was before an instruction.
pub struct Checkpoint {
    /// What the frame runs.
    pub unit: Rc<CodeUnit>,
    /// Where its globals come from.
    pub globals: TrackerId,
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
    marks: Marks,
    step: u64,
}

#[derive(Clone, Copy)]
struct Marks {
    vars: VariablesMark,
    graph: GraphMark,
    effects: usize,
}

impl Checkpoint {
    fn new(frame: &Frame, marks: Marks, step: u64) -> Checkpoint {
        Checkpoint {
            unit: Rc::clone(&frame.code),
            globals: frame.globals.tracker,
            at: frame.pc,
            stack: frame.stack.clone(),
            locals: frame.locals.clone(),
            cells: frame.cells.clone(),
            blocks: frame.blocks.clone(),
            keyword_names: frame.keyword_names.clone(),
            handled: frame.handled,
            marks,
            step,
        }
    }

    /// The same of another instruction; keeps what is allocated.
    fn renew(&mut self, frame: &Frame, marks: Marks, step: u64) {
        if !Rc::ptr_eq(&self.unit, &frame.code) {
            self.unit = Rc::clone(&frame.code);
        }
        self.globals = frame.globals.tracker;
        self.at = frame.pc;
        self.stack.clone_from(&frame.stack);
        self.locals.clone_from(&frame.locals);
        self.cells.clone_from(&frame.cells);
        self.blocks.clone_from(&frame.blocks);
        self.keyword_names.clone_from(&frame.keyword_names);
        self.handled = frame.handled;
        (self.marks, self.step) = (marks, step);
    }
}

/// Where and why the graph ends.
pub struct BreakPoint {
    /// The frames before the breaking instruction, the outermost first: each but the last is about to call the next.
    pub frames: Vec<Checkpoint>,
    /// Why.
    pub reason: Reason,
}

impl BreakPoint {
    /// The outermost frame.
    pub fn root(&self) -> &Checkpoint {
        &self.frames[0]
    }

    /// The frame of the breaking instruction.
    pub fn innermost(&self) -> &Checkpoint {
        &self.frames[self.frames.len() - 1]
    }
}

impl OpcodeExecutor<'_> {
    /// Notes the state of the innermost frame, which is about to run an instruction.
    pub(super) fn save(&mut self) {
        self.saves += 1;
        let marks = Marks { vars: self.vars.mark(), graph: self.graph.mark(), effects: self.effects.len() };
        let depth = self.frames.len();
        let frame = &self.frames[depth - 1];
        self.checkpoints.truncate(depth);
        match self.checkpoints.get_mut(depth - 1) {
            Some(saved) => saved.renew(frame, marks, self.saves),
            None => self.checkpoints.push(Checkpoint::new(frame, marks, self.saves)),
        }
    }

    /// Asks that the trace stop before an instruction it is known to break at.
    pub(crate) fn plan_break(&mut self, planned: PlannedBreak) {
        self.planned = Some(planned);
    }

    /// The plan to stop where the trace broke, if the breaking instruction left operations in the graph: they may have
    /// effects, and a builder cannot take them back.
    pub(crate) fn replan(&mut self, reason: &Reason) -> Option<PlannedBreak> {
        self.leave_what_cannot_resume(reason);
        let saved = self.checkpoints.last()?;
        let left_behind = self.graph.mark() != saved.marks.graph;
        left_behind.then(|| PlannedBreak { step: saved.step, reason: reason.clone() })
    }

    /// The plan to stop at the outermost frame's call instead of in what it calls.
    pub(crate) fn plan_at_root(&self, at: &BreakPoint) -> Option<PlannedBreak> {
        let nested = at.frames.len() > 1;
        nested.then(|| PlannedBreak { step: at.root().step, reason: at.reason.clone() })
    }

    /// Undoes what the breaking instruction did, and gives the frames as they were before.
    pub(crate) fn take_break_point(&mut self, reason: Reason) -> BreakPoint {
        let frames = std::mem::take(&mut self.checkpoints);
        if let Some(Checkpoint { marks, .. }) = frames.last() {
            self.vars.roll_back(marks.vars);
            self.effects.truncate(marks.effects);
            let first_gone = self.vars.next_id();
            self.graph.roll_back(marks.graph, first_gone);
            self.identities.forget_from(first_gone);
        }
        BreakPoint { frames, reason }
    }

    /// Frames that cannot be gone on with are left to CPython as a whole: the break is the call of the outermost of them.
    fn leave_what_cannot_resume(&mut self, reason: &Reason) {
        let frames = &self.checkpoints;
        let mut depth = frames.iter().skip(1).position(|frame| !self.can_resume(frame)).map_or(frames.len(), |at| at + 1);
        // What the frame itself is asked for is not to be found in another one.
        let of_this_frame = reason.of_frame && reason.stack.len() == frames.len();
        let last = &frames[depth - 1];
        if depth == frames.len() && depth > 1 && (of_this_frame || self.needs_its_frame(last)) {
            depth -= 1;
        }
        self.checkpoints.truncate(depth);
    }

    /// Whether an inlined frame can be gone on with behind the break.
    fn can_resume(&self, frame: &Checkpoint) -> bool {
        let handles = frame.handled.is_some() || frame.blocks.iter().any(|block| block.in_handler);
        !handles && !frame.cells.contains(&self.null) && !makes_late_cells(self, &frame.unit)
    }

    /// Whether the instruction reads or writes variables of its frame.
    fn needs_its_frame(&self, frame: &Checkpoint) -> bool {
        let opcode = frame.unit.code.instructions[frame.at.index()].opcode;
        matches!(Opcodes::get(self.py).info(opcode).operand, Operand::Local | Operand::LocalPair | Operand::Cell)
    }
}

/// Whether a cell is made in the middle (by an inlined comprehension).
fn makes_late_cells(cx: &OpcodeExecutor<'_>, unit: &CodeUnit) -> bool {
    let opcodes = Opcodes::get(cx.py);
    let names = unit.code.instructions.iter().rev().map(|instruction| opcodes.name(instruction.opcode));
    // Before the last RESUME the function makes its own.
    names.take_while(|name| *name != "RESUME").any(|name| name == "MAKE_CELL")
}
