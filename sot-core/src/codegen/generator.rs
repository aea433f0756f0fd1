//! Recreates a generator that has started and outlives the graph. Like a resume function, its code lays out the frame
//! and continues at the last `yield`.

use std::sync::Arc;

use super::resumed_frame::{Reentry, ResumedFrame};
use super::CodeGen;
use crate::error::Flow;
use crate::machine::executor::{Checkpoint, Frame};
use crate::resume::ResumeSource;
use crate::resume::{layout, Entry};

impl CodeGen<'_, '_> {
    /// Loads a generator that is suspended where the frame is.
    pub fn load_suspended(&mut self, frame: &Frame) -> Flow<()> {
        let py = self.trace.py;
        let saved = Checkpoint::of_suspended(frame);
        let source = ResumeSource::of(py, &saved.unit)?;
        let stack = layout::of_stack(self.trace, &saved, saved.stack.len());
        let reentry = Reentry { place: saved.at, entry: Entry::Yield, stack };
        let resumed = ResumedFrame::new(self.trace, &source, &saved, reentry, false)?;
        let maker = Arc::clone(&resumed.target).suspended(py)?;
        self.begin_call(|cg| cg.load_const(maker))?;
        self.load_globals(saved.globals)?;
        for &cell in &saved.cells {
            self.load_cell(cell)?;
        }
        self.load_frame(&resumed)?;
        // The value it yields on its way to that place.
        self.load_const(py.None())?;
        self.end_call((1 + saved.cells.len() + resumed.arguments) as u32)
    }
}
