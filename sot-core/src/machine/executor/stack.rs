//! The frames being simulated, and operations that only move values of the innermost one: on its value stack, in its
//! slots, in its blocks, and among the exceptions it handles. No operation here looks at a value.

use std::ops::Deref;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict};

use super::{Block, Frame, Handled, Name, TracedFrame};
use crate::bytecode::{CodeUnit, Label, Op, Opcodes};
use crate::cache;
use crate::error::{Extent, Flow, Location, Reason, Unwind};
use crate::machine::opcode::{self, AtBreak};
use crate::machine::variable::VarId;

/// The frames being simulated, outermost first; never empty while instructions run.
pub struct FrameStack {
    frames: Vec<Frame>,
    /// The globals of the outermost frame.
    pub(super) root_globals: Py<PyDict>,
    /// The depth at which a Python function runs that has no frame in the trace, or the innermost of several.
    pub(super) runs_without_frame: Option<usize>,
}

impl Deref for FrameStack {
    type Target = [Frame];

    fn deref(&self) -> &[Frame] {
        &self.frames
    }
}

impl FrameStack {
    /// Makes an empty stack.
    pub(super) fn new(root_globals: Py<PyDict>) -> FrameStack {
        FrameStack { frames: Vec::new(), root_globals, runs_without_frame: None }
    }

    /// Enters a frame, which becomes the innermost one.
    pub(super) fn enter(&mut self, mut frame: Frame) {
        frame.is_called_from_outside = self.runs_without_frame == Some(self.frames.len());
        self.frames.push(frame);
    }

    /// Leaves the innermost frame, which ends or is suspended.
    pub(super) fn leave(&mut self) -> Option<Frame> {
        self.frames.pop()
    }

    /// Leaves all frames above a depth.
    pub(super) fn truncate(&mut self, depth: usize) {
        self.frames.truncate(depth);
    }

    /// The innermost frame.
    pub fn frame(&self) -> &Frame {
        self.frames.last().expect("an executor runs with at least one frame")
    }

    /// The innermost frame.
    pub fn frame_mut(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("an executor runs with at least one frame")
    }

    /// True if the trace has all frames between the innermost one and the one this many calls above it, as far as the
    /// trace goes.
    pub fn has_callers(&self, calls: usize) -> bool {
        self.frames.iter().rev().take(calls).all(|frame| !frame.is_called_from_outside)
    }

    /// The frame at a depth as tracebacks refer to it; 0 is the outermost.
    pub fn traced_frame(&mut self, depth: usize, py: Python<'_>) -> Rc<TracedFrame> {
        self.frames[depth].traced_frame(py)
    }

    /// True if the next instruction drops the result of the present one.
    pub fn drops_result(&self, py: Python<'_>) -> bool {
        let frame = self.frame();
        let next = frame.code.code.instructions.get(frame.pc.index());
        next.is_some_and(|next| Opcodes::get(py).is(next.opcode, Op::POP_TOP))
    }

    /// True if the innermost frame is that of a resume function and runs its prologue.
    pub(super) fn is_resuming(&self, py: Python<'_>) -> bool {
        let frame = self.frame();
        prologue_of(&frame.code, py).is_some_and(|prologue| frame.at.0 < prologue)
    }

    /// True if the outermost frame resumes behind an instruction that takes the next item of an iterator, in the body
    /// of a loop.
    pub fn begins_with_item(&self, py: Python<'_>) -> bool {
        let unit = &self.frames[0].code;
        let behind = prologue_of(unit, py).and_then(|prologue| unit.code.instructions[prologue as usize - 1].target);
        let head = behind.and_then(|behind| unit.code.instructions.get((behind.0 as usize).checked_sub(1)?));
        head.is_some_and(|head| opcode::describe(head.opcode).at_break == AtBreak::Advance)
    }

    /// Returns the unwind that leaves the innermost frame to CPython. In an inlined function that is a graph break at
    /// the call, after which the function's own translation leaves its frame to CPython.
    pub fn leave_to_cpython(&self, reason: Reason) -> Unwind {
        if self.len() == 1 {
            return Unwind::Fallback(Box::new(reason));
        }
        Unwind::BreakGraph(Box::new(Reason { extent: Extent::Frame, ..reason }))
    }

    /// Positions in the program's source, the innermost first.
    pub fn locations(&self) -> Vec<Location> {
        self.frames.iter().rev().map(Frame::location).collect()
    }

    /// Pushes onto the value stack of the innermost frame.
    pub fn push(&mut self, value: VarId) {
        self.frame_mut().stack.push(value);
    }

    /// Pops from the value stack of the innermost frame.
    pub fn pop(&mut self) -> Flow<VarId> {
        self.frame_mut().stack.pop().ok_or_else(underflow)
    }

    /// Pops a fixed number of items. The first of the result is the deepest.
    pub fn pop_array<const N: usize>(&mut self) -> Flow<[VarId; N]> {
        let items = self.pop_many(N)?;
        items.try_into().map_err(|_| underflow())
    }

    /// Pops `n` items. The first of the result is the deepest.
    pub fn pop_many(&mut self, n: usize) -> Flow<Vec<VarId>> {
        let stack = &mut self.frame_mut().stack;
        let split = stack.len().checked_sub(n).ok_or_else(underflow)?;
        Ok(stack.split_off(split))
    }

    /// The `n`-th item from the top, 1 being the top.
    pub fn peek(&self, n: usize) -> Flow<VarId> {
        let stack = &self.frame().stack;
        stack.len().checked_sub(n).and_then(|i| stack.get(i)).copied().ok_or_else(underflow)
    }

    /// `co_names[index]`
    pub fn name(&self, index: u32) -> Flow<Name> {
        self.frame().code.names().get(index as usize).cloned().ok_or_else(|| bad_operand("name"))
    }

    /// The local in a slot, if it is bound.
    pub fn local(&self, slot: u32) -> Option<VarId> {
        self.frame().locals.get(slot as usize).copied().flatten()
    }

    /// Binds or unbinds the local in a slot.
    pub fn set_local(&mut self, slot: u32, value: Option<VarId>) -> Flow<()> {
        let local = self.frame_mut().locals.get_mut(slot as usize).ok_or_else(|| bad_operand("local"))?;
        *local = value;
        Ok(())
    }

    /// The cell that an opcode's argument refers to.
    pub fn cell(&self, arg: u32) -> Flow<VarId> {
        let frame = self.frame();
        let index = frame.code.code.cell_index(arg).ok_or_else(|| bad_operand("cell"))?;
        frame.cells.get(index).copied().ok_or_else(|| bad_operand("cell"))
    }

    /// Pushes a block, whose exceptions go to `handler`.
    pub fn push_block(&mut self, handler: Label) {
        self.add_block(handler, false);
    }

    /// Pushes a block; `in_handler` for the block of a handler that begins.
    pub(super) fn add_block(&mut self, handler: Label, in_handler: bool) {
        let frame = self.frame_mut();
        frame.blocks.push(Block { handler, depth: frame.stack.len(), in_handler });
    }

    /// Pops the innermost block.
    pub fn pop_block(&mut self) -> Flow<Block> {
        self.frame_mut().blocks.pop().ok_or_else(|| Unwind::bug("the block stack ran empty"))
    }

    /// Ends a handler whose three items are on top of the stack; the previously handled exception is handled again. A
    /// value that is being returned may lie below the items.
    pub fn leave_handler(&mut self) -> Flow<()> {
        self.pop_handler()?;
        self.handle_previous()
    }

    /// Ends a handler, and drops what it has left on the stack.
    pub fn abandon_handler(&mut self) -> Flow<()> {
        let block = self.pop_handler()?;
        self.drop_handler(block)
    }

    fn pop_handler(&mut self) -> Flow<Block> {
        let block = self.pop_block()?;
        if !block.in_handler {
            return Err(Unwind::bug("a handler ends that did not begin"));
        }
        Ok(block)
    }

    pub(super) fn drop_handler(&mut self, block: Block) -> Flow<()> {
        self.frame_mut().stack.truncate(block.base());
        self.handle_previous()
    }

    fn handle_previous(&mut self) -> Flow<()> {
        self.pop_many(3)?;
        self.end_handling()
    }

    /// The innermost frame handles its previously handled exception again.
    pub fn end_handling(&mut self) -> Flow<()> {
        self.frame_mut().handled.pop().map(|_| ()).ok_or_else(|| Unwind::bug("no exception is handled"))
    }

    /// The exception being handled, with its position, in the innermost frame or the nearest caller that handles one.
    pub fn handled(&self) -> Option<Handled> {
        self.frames.iter().rev().find_map(|frame| frame.handled.last()).copied()
    }

    /// The exception being handled, in the innermost frame or the nearest caller that handles one.
    pub fn handled_exception(&self) -> Option<VarId> {
        self.handled().map(|handled| handled.exception)
    }

    /// True if the innermost frame has a handler for an exception of the present instruction.
    pub(super) fn catches(&self) -> bool {
        let frame = self.frame();
        frame.blocks.iter().any(|block| !block.in_handler) || frame.code.code.handler_at(frame.at).is_some()
    }
}

/// Length of the prologue of a resume function's code.
fn prologue_of(unit: &CodeUnit, py: Python<'_>) -> Option<u32> {
    unit.object.bind(py).cast::<PyCode>().ok().and_then(cache::prologue_of)
}

fn underflow() -> Unwind {
    Unwind::bug("the simulated stack ran out of items")
}

pub(super) fn bad_operand(what: &str) -> Unwind {
    Unwind::bug(format!("an instruction names a {what} that the code does not have"))
}
