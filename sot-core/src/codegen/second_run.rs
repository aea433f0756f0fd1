//! Handles exceptions of the graph. The operation that raises is in the middle of the frame, where exception handlers
//! and `finally` bodies may be active, and after writes. But the graph runs first of all, when none of this has
//! happened. So the frame runs a second time, in CPython from its first instruction on, and the operation raises
//! where it stands.

use pyo3::prelude::*;
use pyo3::types::PyCode;

use super::CodeGen;
use crate::bytecode::{Label, Op};
use crate::error::Flow;
use crate::machine::variable::Rebuild;
use crate::resume::{self, SecondRun};

/// Ranges of the new code whose exceptions get a handler at its end.
pub(super) struct ExceptionRanges {
    /// Calls whose exceptions lose their first traceback entry: hand-overs, and the second run of the frame.
    driven: Vec<(Label, Label)>,
    /// Start of the range in which nothing of the frame has happened yet.
    begun: Option<Label>,
    /// The call of the graph, or the whole of that range.
    graph_call: Option<(Label, Label)>,
}

impl ExceptionRanges {
    /// `begun`: start of a range in which nothing of the frame has happened yet, if there is one.
    pub(super) fn beginning(begun: Option<Label>) -> Self {
        ExceptionRanges { driven: Vec::new(), begun, graph_call: None }
    }

    /// True while nothing of the frame has happened, in a range with a handler.
    pub(super) fn is_beginning(&self) -> bool {
        self.begun.is_some()
    }

    /// Sets the range whose exceptions are those of the graph.
    pub(super) fn set_graph_call(&mut self, start: Label, end: Label) {
        self.graph_call = Some((start, end));
    }

    /// Adds a call whose exceptions lose their first traceback entry.
    pub(super) fn add_driven(&mut self, start: Label, end: Label) {
        self.driven.push((start, end));
    }

    /// Takes these calls.
    pub(super) fn take_driven(&mut self) -> Vec<(Label, Label)> {
        std::mem::take(&mut self.driven)
    }
}

impl CodeGen<'_, '_> {
    /// Ends the range in which nothing of the frame has happened.
    pub(super) fn end_beginning(&mut self) -> Flow<()> {
        if let Some(start) = self.ranges.begun.take() {
            self.ranges.set_graph_call(start, self.emitter.end_try()?);
        }
        Ok(())
    }

    /// Writes the handler of the graph's call, or of the whole range in which nothing of the frame has happened.
    pub(super) fn handle_graph_error(&mut self) -> Flow<()> {
        let Some(graph_call) = self.ranges.graph_call else { return Ok(()) };
        let (py, code) = (self.trace.py, &self.root.code);
        let object = self.root.object.bind(py).cast::<PyCode>().map_err(PyErr::from)?;
        let (own, free, arguments) = (code.cellvars.len(), code.freevars.len(), code.total_args());
        let cells: Vec<Option<usize>> =
            code.varnames[..arguments].iter().map(|name| code.cellvars.iter().position(|cell| cell == name)).collect();
        let run = SecondRun::new(object, free)?.callable(py)?;
        let exception = self.emitter.catch(graph_call)?;
        let start = self.emitter.begin_try()?;
        self.begin_call_of(run)?;
        self.op(Op::LOAD_FAST, exception)?;
        self.op(Op::DELETE_FAST, exception)?;
        for cell in own..own + free {
            self.emitter.load_closure(cell)?;
        }
        for (slot, cell) in cells.iter().enumerate() {
            match cell {
                Some(cell) => self.emitter.cell_op(Op::LOAD_DEREF, *cell)?,
                None => self.op(Op::LOAD_FAST, slot as u32)?,
            }
        }
        // The arguments have to die when the program drops them.
        self.emitter.forget((0..arguments).filter(|slot| cells[*slot].is_none()))?;
        self.end_call((1 + free + arguments) as u32)?;
        let end = self.emitter.end_try()?;
        self.ranges.add_driven(start, end);
        self.op(Op::RETURN_VALUE, 0)
    }

    /// Writes the handler of hand-overs and second runs.
    pub(super) fn handle_driven(&mut self) -> Flow<()> {
        let calls = self.ranges.take_driven();
        if calls.is_empty() {
            return Ok(());
        }
        let handler = self.emitter.here();
        for (start, end) in calls {
            self.emitter.handle_driven(start, end, handler);
        }
        let trim = resume::trim_traceback(self.trace.py, 1)?;
        self.emitter.raise_trimmed(trim)
    }
}
