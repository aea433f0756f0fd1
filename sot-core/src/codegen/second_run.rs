//! What a graph raises comes from an operation in the middle of the frame, where handlers and `finally` bodies may be
//! active and writes were made before it. None of these has happened when the graph runs, which is first of all: the
//! frame runs a second time, in CPython from its first instruction on, and the operation raises where it stands.

use pyo3::prelude::*;
use pyo3::types::PyCode;

use super::CodeGen;
use crate::bytecode::Op;
use crate::error::Flow;
use crate::resume::SecondRun;

impl CodeGen<'_, '_> {
    /// From here on something of the frame has happened.
    pub(super) fn end_beginning(&mut self) -> Flow<()> {
        if let Some(start) = self.begun.take() {
            self.graph_call = Some((start, self.emitter.end_try()?));
        }
        Ok(())
    }

    /// The handler of the graph's call, or of all that comes before anything of the frame has happened.
    pub(super) fn handle_graph_error(&mut self) -> Flow<()> {
        let Some(graph_call) = self.graph_call else { return Ok(()) };
        let (py, code) = (self.cx.py, &self.root.code);
        let object = self.root.object.bind(py).cast::<PyCode>().map_err(PyErr::from)?;
        let (own, free, arguments) = (code.cellvars.len(), code.freevars.len(), code.total_args());
        let cells: Vec<Option<usize>> =
            code.varnames[..arguments].iter().map(|name| code.cellvars.iter().position(|cell| cell == name)).collect();
        let run = SecondRun::new(object, free)?.callable(py)?;
        let exception = self.emitter.catch(graph_call)?;
        let start = self.emitter.begin_try()?;
        self.begin_call(|cg| cg.load_const(run))?;
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
        // They die when the program drops them.
        self.forget((0..arguments).filter(|slot| cells[*slot].is_none()).collect())?;
        self.end_call((1 + free + arguments) as u32)?;
        let end = self.emitter.end_try()?;
        self.driven.push((start, end));
        self.op(Op::RETURN_VALUE, 0)
    }
}
