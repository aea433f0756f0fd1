//! The end of new code that breaks: the live values of its frames are handed over to their resume functions.

use std::borrow::Cow;
use std::ops::Range;

use super::super::resumed_frame::{instruction_at, Reentry, ResumedFrame};
use super::BreakCodeGen;
use crate::bytecode::Op;
use crate::error::Flow;
use crate::machine::executor::{Checkpoint, Claim};
use crate::machine::variable::{Rebuild, VarId};
use crate::resume::ResumeSource;
use crate::resume::{layout, Entry, Finish, Item, Value};

impl BreakCodeGen<'_, '_> {
    /// Hands over all frames, and returns what the outermost one's resume function returns. The innermost frame
    /// continues as given.
    pub(super) fn hand_over(&mut self, innermost: Reentry) -> Flow<()> {
        let frames = self.resumed_frames(self.at.frames.len(), innermost)?;
        self.call_hand_over(&frames, None)
    }

    /// Hands over the frames down to the one that catches `exception`, which begins by raising it.
    pub(super) fn hand_over_raising(&mut self, level: usize, innermost: Reentry, exception: Value) -> Flow<()> {
        let frames = self.resumed_frames(level + 1, innermost)?;
        self.call_hand_over(&frames, Some(exception))
    }

    /// Calls the hand-over with cells, locals and stack of each frame, and with the exception that the innermost one
    /// begins by raising.
    fn call_hand_over(&mut self, frames: &[ResumedFrame], raised: Option<Value>) -> Flow<()> {
        let py = self.cg.trace.py;
        let drives_itself = self.sources[0].drives_itself();
        let hand_over = frames[0].target.clone().hand_over(py, drives_itself)?;
        if self.is_handling(frames.len()) {
            self.cg.emitter.end_handling()?;
        }
        let start = if drives_itself { Some(self.cg.emitter.begin_try()?) } else { None };
        self.cg.begin_call_of(hand_over)?;
        for &cell in &self.at.root().cells {
            self.cg.load_cell(cell)?;
        }
        for (level, frame) in frames.iter().enumerate() {
            if level > 0 {
                let (maker, saved) = (frame.target.clone().maker(py)?, &self.at.frames[level]);
                self.cg.begin_call_of(maker)?;
                self.cg.load_globals(saved.globals)?;
                for &cell in &saved.cells {
                    self.cg.load_cell(cell)?;
                }
                self.cg.end_call(1 + saved.cells.len() as u32)?;
            }
            self.cg.load_frame(frame)?;
        }
        if let Some(exception) = raised {
            self.cg.load_raised(exception)?;
        }
        // The values handed over have to die when the program drops them, so this frame gives them up. If an
        // exception is raised, its traceback keeps this frame with the variables it shows.
        if raised.is_some() {
            self.keep_shown()?;
        } else if drives_itself {
            self.forget_locals()?;
        }
        self.cg.end_call((frames[0].cells + frames[0].arguments) as u32)?;
        if let Some(start) = start {
            let end = self.cg.emitter.end_try()?;
            self.cg.ranges.add_driven(start, end);
        }
        self.cg.op(Op::RETURN_VALUE, 0)
    }

    /// Clears the locals of the new code's frame: variables of the function, and values of the new code.
    fn forget_locals(&mut self) -> Flow<()> {
        let code = &self.cg.root.code;
        let is_cell = |slot: &usize| code.cellvars.contains(&code.varnames[*slot]);
        let variables = (0..code.varnames.len()).filter(|slot| !is_cell(slot));
        let slots: Vec<usize> = variables.chain(self.value_slots()).collect();
        self.cg.emitter.forget(slots)
    }

    /// Slots of the locals that hold values of the new code.
    pub(super) fn value_slots(&self) -> Range<usize> {
        self.cg.root.code.varnames.len()..self.cg.emitter.locals()
    }

    /// Returns the resume functions of the outermost `count` frames, the outermost first. The last of them continues
    /// as given, the others behind their calls.
    fn resumed_frames(&mut self, count: usize, innermost: Reentry) -> Flow<Vec<ResumedFrame>> {
        let mut resumed = vec![self.resumed_frame(count - 1, innermost)?];
        for level in (0..count - 1).rev() {
            let reentry = self.behind_call(level, resumed[resumed.len() - 1].arguments);
            resumed.push(self.resumed_frame(level, reentry)?);
        }
        resumed.reverse();
        Ok(resumed)
    }

    fn resumed_frame(&mut self, level: usize, reentry: Reentry) -> Flow<ResumedFrame> {
        let (frame, source) = (&self.at.frames[level], &self.sources[level]);
        let resumed = ResumedFrame::new(self.cg.trace, source, frame, reentry, level > 0)?;
        self.cg.add_resume(resumed.code);
        Ok(resumed)
    }

    /// Where a frame that calls the next one continues. Its stack is without the operands of the calling instruction,
    /// and with the items that the instruction keeps below the result.
    fn behind_call(&self, level: usize, arguments: usize) -> Reentry {
        let (frame, source) = (&self.at.frames[level], &self.sources[level]);
        let claim = self.at.frames[level + 1].claim.as_deref();
        let finish = source.finish_at(frame.at).or(claim.map(|claim| claim.finish)).unwrap_or(Finish::Keep);
        let stack = self.below_call(frame, source, claim);
        Reentry { place: frame.at, entry: Entry::Return(arguments, finish), stack }
    }

    fn below_call(&self, frame: &Checkpoint, source: &ResumeSource<'_>, claim: Option<&Claim>) -> Vec<Item> {
        let call = instruction_at(frame);
        let taken = self.consumed(&call, frame);
        let mut frame = Cow::Borrowed(frame);
        if source.finish_at(frame.at) == Some(Finish::Next) {
            // Removes the block that the prologue itself begins around the call.
            frame.to_mut().blocks.pop();
        }
        let below = claim
            .into_iter()
            .flat_map(|claim| &claim.below)
            .map(|below| layout::item_of(self.cg.trace, &frame, *below));
        self.layout(&frame, frame.stack.len() - taken).into_iter().chain(below).collect()
    }

    /// The lowest `depth` items of a frame's stack, with the blocks and handlers that begin there.
    pub(super) fn layout(&self, frame: &Checkpoint, depth: usize) -> Vec<Item> {
        layout::of_stack(self.cg.trace, frame, depth)
    }

    /// The item of a value or NULL.
    pub(super) fn item(&self, variable: VarId) -> Item {
        layout::item(self.cg.trace, variable)
    }
}
