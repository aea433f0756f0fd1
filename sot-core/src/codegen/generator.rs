//! Recreates a generator that has started and outlives the graph. Like a resume function, its code lays out the frame
//! and continues at the last `yield`.

use std::sync::Arc;

use super::resumed_frame::{Reentry, ResumedFrame};
use super::CodeGen;
use crate::error::Flow;
use crate::machine::executor::{Checkpoint, Frame};
use crate::machine::variable::Rebuild;
use crate::resume::ResumeSource;
use crate::resume::{layout, Entry};

/// Loads a generator that is suspended where the frame is.
pub(super) fn load_suspended(cg: &mut CodeGen<'_, '_>, frame: &Frame) -> Flow<()> {
    let py = cg.trace.py;
    let saved = Checkpoint::of_suspended(frame);
    let source = ResumeSource::of(py, &saved.unit)?;
    let stack = layout::of_stack(cg.trace, &saved, saved.stack.len());
    let reentry = Reentry { place: saved.at, entry: Entry::Yield, stack };
    let resumed = ResumedFrame::new(cg.trace, &source, &saved, reentry, false)?;
    let maker = Arc::clone(&resumed.target).suspended(py)?;
    cg.begin_call_of(maker)?;
    cg.load_globals(saved.globals)?;
    for &cell in &saved.cells {
        cg.load_cell(cell)?;
    }
    cg.load_frame(&resumed)?;
    // The value it yields on its way to that place.
    cg.load_const(py.None())?;
    cg.end_call((1 + saved.cells.len() + resumed.arguments) as u32)
}
