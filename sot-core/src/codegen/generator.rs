//! Recreates a generator that has started and outlives the graph. Like a resume function, its code lays out the frame
//! and continues at the last `yield`.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCode;

use super::hand_over::slot;
use super::CodeGen;
use crate::error::Flow;
use crate::machine::executor::{Checkpoint, Frame};
use crate::resume::ResumeSource;
use crate::resume::{Entry, ResumeKey, ResumeTarget};

impl CodeGen<'_, '_> {
    /// Loads a generator that is suspended where the frame is.
    pub fn load_suspended(&mut self, frame: &Frame) -> Flow<()> {
        let py = self.trace.py;
        let saved = Checkpoint::of_suspended(frame);
        let source = ResumeSource::of(py, &saved.unit)?;
        let stack = self.layout(&saved, saved.stack.len());
        let locals = self.resumed_locals(&saved, &source);
        let (cleared, hidden) = self.hidden(&saved);
        let key = ResumeKey {
            at: source.original(saved.at)?,
            bound: locals.iter().map(Option::is_some).collect(),
            hidden: cleared.into_iter().zip(hidden.iter().map(Option::is_some)).collect(),
            stack: stack.iter().map(|item| slot(item, &source)).collect::<Flow<_>>()?,
            entry: Entry::Yield,
            drives_itself: false,
        };
        let code = source.resume_code(py, &key, saved.unit.code.instructions[saved.at.index()].position)?;
        let code = code.bind(py).cast::<PyCode>().map_err(PyErr::from)?.clone();
        let cells = source.unit.code.cellvars.len() + source.unit.code.freevars.len();
        let maker = Arc::clone(&ResumeTarget::new(&code, cells)?).suspended(py)?;
        self.begin_call(|cg| cg.load_const(maker))?;
        self.load_globals(saved.globals)?;
        for &cell in &saved.cells {
            self.load_cell(cell)?;
        }
        self.load_locals(&locals)?;
        for hidden in hidden.into_iter().flatten() {
            self.load(hidden)?;
        }
        self.load_stack(&stack)?;
        // The value it yields on its way to that place.
        self.load_const(py.None())?;
        self.end_call((1 + saved.cells.len() + locals.len() + key.values()) as u32)
    }
}
