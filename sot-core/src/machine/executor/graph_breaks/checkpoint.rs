//! Checkpoints: the state of the trace before each instruction of the outermost frame, and of the frames below it
//! that were called by instructions which do nothing but the call. When an instruction cannot be simulated, the trace
//! is rolled back to a checkpoint. Values are small indices and changes are logged, so a checkpoint consists of the
//! frame and the lengths of the logs.

use std::ops::Deref;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyCode;
use rustc_hash::FxHashSet;

use crate::bytecode::{Label, Opcodes, OperandTable, Quiet};
use crate::cache;
use crate::error::{Extent, Flow, PlannedBreak, Reason, ReasonId, Unwind};
use crate::machine::executor::lifetimes::observable_drops;
use crate::machine::executor::record::rollback::Marks;
use crate::machine::executor::{Block, Claim, CodeUnit, Frame, Handled, Name, OpcodeExecutor, Trace};
use crate::machine::opcode;
use crate::machine::variable::{Form, VarId};
use crate::tracker::TrackerId;

/// The state of a frame before an instruction.
#[derive(Clone)]
pub struct Checkpoint {
    /// The code that the frame runs.
    pub unit: Rc<CodeUnit>,
    /// The tracker of the globals.
    pub globals: TrackerId,
    /// The instruction about to run.
    pub at: Label,
    /// The value stack.
    pub stack: Vec<VarId>,
    /// Locals by slot.
    pub locals: Vec<Option<VarId>>,
    /// Cell variables, then free variables.
    pub cells: Vec<VarId>,
    /// The block stack (3.8 to 3.10).
    pub blocks: Vec<Block>,
    /// Keyword names for the next call (3.11 and 3.12).
    pub keyword_names: Option<Vec<Name>>,
    /// The exceptions being handled, the outermost first.
    pub handled: Vec<Handled>,
    /// The claim about the caller's instruction that calls this frame.
    pub claim: Option<Rc<Claim>>,
    /// True if the frame's caller is a Python function that has no frame in the trace.
    is_called_from_outside: bool,
    marks: Marks,
    /// Number of instructions that the trace had simulated.
    instructions: u64,
    step: u64,
}

impl Checkpoint {
    /// True if the frame does nothing observable behind the instruction but return, whether it raises or not.
    pub(crate) fn only_returns_afterwards(&self, py: Python<'_>) -> bool {
        let code = &self.unit.code;
        if !self.blocks.is_empty() || code.handler_at(self.at).is_some() {
            return false;
        }
        let opcodes = Opcodes::get(py);
        for instruction in code.instructions.iter().skip(self.at.index() + 1) {
            if instruction.target.is_some() || !matches!(opcode::describe(instruction.opcode).quiet, Quiet::Always) {
                return false;
            }
            if !opcodes.info(instruction.opcode).falls_through {
                return true;
            }
        }
        false
    }

    fn new(frame: &Frame, (marks, instructions): (Marks, u64), step: u64) -> Checkpoint {
        Checkpoint {
            unit: Rc::clone(&frame.code),
            globals: frame.globals.tracker,
            at: frame.pc,
            stack: frame.stack.clone(),
            locals: frame.locals.clone(),
            cells: frame.cells.clone(),
            blocks: frame.blocks.clone(),
            keyword_names: frame.keyword_names.clone(),
            handled: frame.handled.clone(),
            claim: frame.claim.clone(),
            is_called_from_outside: frame.is_called_from_outside,
            marks,
            instructions,
            step,
        }
    }

    /// Makes the checkpoint of a generator's frame that has yielded.
    pub fn of_suspended(frame: &Frame) -> Checkpoint {
        Checkpoint { at: frame.at, ..Checkpoint::new(frame, (Marks::default(), 0), 0) }
    }

    /// Overwrites the checkpoint with the state before another instruction. Reuses the allocations.
    fn renew(&mut self, frame: &Frame, (marks, instructions): (Marks, u64), step: u64) {
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
        self.handled.clone_from(&frame.handled);
        self.claim.clone_from(&frame.claim);
        self.is_called_from_outside = frame.is_called_from_outside;
        (self.marks, self.instructions, self.step) = (marks, instructions, step);
    }
}

/// The checkpoints of the frames in which the graph can break, outermost first: a chain of frames that each do
/// nothing but call the next.
pub(crate) struct Checkpoints {
    saved: Vec<Checkpoint>,
    /// Checkpoints of frames that have ended, whose allocations are used again.
    ended: Vec<Checkpoint>,
    /// Number of checkpoints taken, which identifies the instructions of an attempt.
    taken: u64,
    /// The break that an earlier attempt has planned.
    planned: Option<PlannedBreak>,
    /// The instructions that read variables of their frame, as `eval` does, by checkpoint number.
    frame_reads: FxHashSet<u64>,
}

impl Deref for Checkpoints {
    type Target = [Checkpoint];

    fn deref(&self) -> &[Checkpoint] {
        &self.saved
    }
}

impl Checkpoints {
    /// Starts without checkpoints. `planned` is the break that an earlier attempt has found to be needed.
    pub(in crate::machine::executor) fn new(planned: Option<PlannedBreak>) -> Self {
        Checkpoints { saved: Vec::new(), ended: Vec::new(), taken: 0, planned, frame_reads: FxHashSet::default() }
    }

    fn save(&mut self, frame: &Frame, depth: usize, marks: (Marks, u64)) {
        self.taken += 1;
        self.truncate(depth);
        if let Some(ended) = self.ended.pop_if(|_| self.saved.len() + 1 == depth) {
            self.saved.push(ended);
        }
        match self.saved.get_mut(depth - 1) {
            Some(saved) => saved.renew(frame, marks, self.taken),
            None => self.saved.push(Checkpoint::new(frame, marks, self.taken)),
        }
    }

    /// Takes the plan to break at the present instruction, if there is one.
    pub(in crate::machine::executor) fn due(&mut self) -> Option<PlannedBreak> {
        self.planned.take_if(|planned| planned.step == self.taken)
    }

    /// Drops the checkpoints of frames above a depth, which have ended.
    pub(in crate::machine::executor) fn truncate(&mut self, depth: usize) {
        self.ended.extend(self.saved.drain(depth.min(self.saved.len())..));
    }

    /// The checkpoint of the innermost of the first `depth` frames; `None` for a frame that only runs as a whole.
    fn of_depth(&self, depth: usize) -> Option<&Checkpoint> {
        self.saved.get(depth.checked_sub(1)?)
    }

    /// Number of the checkpoint of the innermost of the first `depth` frames, or of the frame that runs that frame as
    /// a whole.
    fn step_at(&self, depth: usize) -> u64 {
        // Not the last checkpoint: that may be from a function that has returned meanwhile.
        self.of_depth(depth.min(self.saved.len())).map_or(self.taken, |saved| saved.step)
    }

    /// Number of the checkpoint of the innermost frame that has one.
    pub(in crate::machine::executor) fn last_step(&self) -> Option<u64> {
        self.saved.last().map(|saved| saved.step)
    }

    /// Plans to break at the outermost frame's call instead of inside the callee; `None` if the break is in the
    /// outermost frame.
    pub(crate) fn plan_at_root(&self, at: &BreakPoint) -> Option<PlannedBreak> {
        let nested = at.frames.len() > 1;
        nested.then(|| self.stop_at(at.root().step, at.reason.clone()))
    }

    /// Plans to run natively the instruction that raised an exception: the first one for an exception made in the
    /// trace, the last one for an exception from outside.
    pub(crate) fn plan_to_raise(&self, trace: &Trace<'_>, exception: VarId) -> Unwind {
        let from_outside = trace.trackers.is_loadable(trace.vars.tracker(exception));
        let step = trace.raised.step_of(exception).filter(|_| !from_outside).unwrap_or(self.taken);
        let reason = Reason::new(ReasonId::Raises, format!("{} is raised", trace.class_name(exception)));
        let reason = Reason { extent: Extent::InstructionInItsStack, ..reason };
        Unwind::Restart(Some(Box::new(self.stop_at(step, reason))))
    }

    /// Plans to run natively the instruction that made a value, as a generator; `why` is the reason.
    pub(crate) fn plan_to_make(&self, trace: &Trace<'_>, value: VarId, why: &str) -> Unwind {
        let text = format!("{} {why}", trace.text(value));
        match trace.raised.step_of(value) {
            Some(step) => {
                let reason = Reason::new(ReasonId::CannotRestore, text);
                Unwind::Restart(Some(Box::new(self.stop_at(step, reason))))
            }
            None => Unwind::fallback(ReasonId::CannotRestore, text),
        }
    }

    /// Plans to break before an instruction.
    pub(in crate::machine::executor) fn stop_at(&self, step: u64, reason: Reason) -> PlannedBreak {
        PlannedBreak { step, reason, reads_frame: self.frame_reads.contains(&step) }
    }
}

/// Where and why the graph breaks.
pub struct BreakPoint {
    /// The frames at the break, the outermost first: each but the last is about to call the next.
    pub frames: Vec<Checkpoint>,
    /// Why the graph breaks.
    pub reason: Reason,
}

impl BreakPoint {
    /// The outermost frame.
    pub fn root(&self) -> &Checkpoint {
        &self.frames[0]
    }

    /// The exception being handled at the break.
    pub fn handled(&self) -> Option<VarId> {
        self.frames.iter().rev().find_map(|frame| frame.handled.last()).map(|handled| handled.exception)
    }

    /// True if the graph ends before the instruction, and the instruction does not run natively.
    pub fn is_between(&self) -> bool {
        self.reason.extent == Extent::Nothing && self.reason.stack.len() == self.frames.len()
    }

    /// The frame of the breaking instruction.
    pub fn innermost(&self) -> &Checkpoint {
        &self.frames[self.frames.len() - 1]
    }
}

impl OpcodeExecutor<'_> {
    /// Takes the checkpoint of the innermost frame, which is about to run an instruction.
    pub(in crate::machine::executor) fn save(&mut self) {
        let marks = (self.trace.marks(), self.limits.steps());
        self.checkpoints.save(self.stack.frame(), self.stack.len(), marks);
    }

    /// Notes that the present instruction raised an exception, made a generator or cut a tensor off from gradients,
    /// which new code may not be able to do again.
    pub fn note_step(&mut self, value: VarId) {
        let step = self.checkpoints.step_at(self.stack.len());
        if self.trace.raised.steps.get(value).is_none() {
            self.trace.raised.steps.insert(value, step);
        }
    }

    /// Notes that the present instruction reads variables of its frame. New code that runs the instruction natively has
    /// other variables, so such a frame is left to CPython.
    pub fn note_frame_read(&mut self) {
        let depth = self.stack.len();
        if let Some(step) = self.checkpoints.of_depth(depth).map(|saved| saved.step) {
            self.checkpoints.frame_reads.insert(step);
        }
    }

    /// Plans to run natively the instruction that made a value, as a generator; `why` is the reason.
    pub fn plan_to_make(&self, value: VarId, why: &str) -> Unwind {
        self.checkpoints.plan_to_make(&self.trace, value, why)
    }

    /// Plans to break at the present break in the next attempt, if the breaking instruction has left operations with
    /// possible effects in the graph that the builder cannot remove.
    pub(crate) fn replan(&mut self, reason: &Reason) -> Option<PlannedBreak> {
        leave_what_cannot_resume(self, reason);
        let saved = self.checkpoints.last()?;
        let left_behind = !self.trace.graph.building.has_memory() && self.trace.graph.mark() != saved.marks.graph;
        left_behind.then(|| self.checkpoints.stop_at(saved.step, reason.clone()))
    }

    /// Rolls back to the checkpoint before the breaking instruction, and returns the frames at that point.
    pub(crate) fn take_break_point(&mut self, reason: Reason) -> BreakPoint {
        let frames = std::mem::take(&mut self.checkpoints.saved);
        if let Some(Checkpoint { marks, .. }) = frames.last() {
            self.trace.go_back(*marks);
        }
        BreakPoint { frames, reason }
    }

    /// Runs `attempt`, and rolls back the frames and the stores of the trace (see `record/rollback.rs`). Returns its
    /// result. What the attempt has added to the guards, the sizes left open, `dependencies` and `learnt` stays; its
    /// instructions count.
    pub fn attempt<T>(&mut self, attempt: impl FnOnce(&mut Self) -> T) -> T {
        let (marks, frames) = (self.trace.marks(), self.stack.len());
        let outcome = attempt(self);
        self.stack.truncate(frames);
        self.trace.go_back(marks);
        outcome
    }
}

/// Notes the instruction of the frame at this depth as the one that raises an exception natively.
pub(in crate::machine::executor) fn note_step_of(cx: &mut OpcodeExecutor<'_>, exception: VarId, depth: usize) {
    if let Some(saved) = cx.checkpoints.of_depth(depth).or(cx.checkpoints.last()) {
        cx.trace.raised.steps.insert(exception, saved.step);
    }
}

/// Plans to run natively the call of the innermost frame, if an exception that has left it keeps an object in its
/// traceback whose destruction is observable.
pub(in crate::machine::executor) fn refuse_kept_by_traceback(cx: &OpcodeExecutor<'_>, exception: VarId) -> Flow<()> {
    let call = cx.checkpoints.of_depth(cx.stack.len());
    let (Some(dropped), Some(call)) = (observable_drops::dropped(cx), call) else { return Ok(()) };
    let text = format!("the traceback of {} keeps {}", cx.trace.class_name(exception), cx.trace.text(dropped));
    let mut reason = Reason::new(ReasonId::Raises, text);
    reason.stack = cx.stack.locations();
    Err(Unwind::Restart(Some(Box::new(cx.checkpoints.stop_at(call.step, reason)))))
}

/// Plans to run natively the outermost call that has taken this number of instructions and added nothing to the
/// graph.
pub(in crate::machine::executor) fn plan_at_long_call(
    cx: &OpcodeExecutor<'_>,
    instructions: u64,
    text: String,
) -> Option<Unwind> {
    let (present, running) = (cx.trace.marks(), cx.stack.len() - 1);
    let call = cx.checkpoints.iter().take(running).find(|call| call.marks.graph == present.graph)?;
    let is_long = cx.limits.steps() - call.instructions >= instructions;
    let mut reason = Reason::new(ReasonId::TraceTooLong, text);
    reason.stack = cx.stack.locations();
    is_long.then(|| Unwind::Restart(Some(Box::new(cx.checkpoints.stop_at(call.step, reason)))))
}

/// Drops the checkpoints of inner frames that cannot be resumed. The graph then breaks at the call of the outermost
/// such frame.
fn leave_what_cannot_resume(cx: &mut OpcodeExecutor<'_>, reason: &Reason) {
    // A function whose caller has no frame in the trace is called natively, so that the stack is complete.
    if reason.extent == Extent::InstructionInItsStack {
        let complete = cx.checkpoints.iter().position(|frame| frame.is_called_from_outside);
        cx.checkpoints.truncate(complete.unwrap_or(cx.checkpoints.len()));
    }
    let frames = &cx.checkpoints;
    let mut depth = frames.len();
    // A reason that concerns a frame as a whole is found again only when that frame is translated on its own.
    let of_this_frame = reason.extent == Extent::Frame && reason.stack.len() == frames.len();
    let last = &frames[depth - 1];
    // A break before an instruction does not run it natively.
    let is_between = reason.extent == Extent::Nothing && reason.stack.len() == depth;
    if depth > 1 && (of_this_frame || (!is_between && needs_its_frame(&cx.trace, last))) {
        depth -= 1;
    }
    let reads_value = reason.id == ReasonId::TensorValue;
    while depth > 1 && is_left_whole(cx, depth - 1, reads_value) {
        depth -= 1;
    }
    cx.checkpoints.truncate(depth);
}

/// True if CPython runs the whole of a called function, because resume functions in the middle of it would not help the
/// graph: it is a function of the standard library, or one of another library that has added nothing to the graph and
/// holds no tensor, or one that only reads the value of a tensor (`reads_value`), as `lambda t: t.item()` does.
fn is_left_whole(cx: &OpcodeExecutor<'_>, depth: usize, reads_value: bool) -> bool {
    let (caller, frame) = (&cx.checkpoints[depth - 1], &cx.checkpoints[depth]);
    let file = &frame.unit.code.filename;
    if cx.runtime.is_standard_module(file) {
        return true;
    }
    if caller.marks.graph != frame.marks.graph {
        return false;
    }
    if reads_value && !is_resumed(cx.py, frame) && frame.only_returns_afterwards(cx.py) {
        return true;
    }
    if !cx.runtime.is_library(file) {
        return false;
    }
    let mut pending: Vec<VarId> =
        frame.locals.iter().flatten().chain(&frame.stack).chain(&frame.cells).copied().collect();
    let mut seen = FxHashSet::default();
    while let Some(value) = pending.pop() {
        if !seen.insert(value) {
            continue;
        }
        let payload = cx.trace.vars.get(value);
        let object = payload.object().map(|object| object.bind(cx.py));
        if payload.form() == Form::Tensor || object.is_some_and(|object| cx.runtime.may_hold_tensors(object)) {
            return false;
        }
        pending.extend(payload.children());
    }
    true
}

/// True if the frame is that of a resume function.
fn is_resumed(py: Python<'_>, frame: &Checkpoint) -> bool {
    frame.unit.object.bind(py).cast::<PyCode>().is_ok_and(|code| cache::prologue_of(code).is_some())
}

/// True if the instruction reads or writes variables of its frame, or anything but values on its stack.
fn needs_its_frame(trace: &Trace<'_>, frame: &Checkpoint) -> bool {
    let opcode = frame.unit.code.instructions[frame.at.index()].opcode;
    let operand = Opcodes::get(trace.py).info(opcode).operand;
    let of_variables = matches!(operand, OperandTable::Local | OperandTable::LocalPair | OperandTable::Cell);
    of_variables || opcode::describe(opcode).needs_frame
}
