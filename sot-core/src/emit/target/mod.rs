//! Instruction selection: how each CPython version expresses the code generator's operations. Each file holds the
//! differences to the version before.

mod py311;
mod py312;
mod py313;
mod py38;

use enum_dispatch::enum_dispatch;
use pyo3::prelude::*;

use super::Emitter;
use crate::bytecode::{Code, Label, Op};
use crate::entity::VarId;
use crate::error::Flow;
use crate::operators::BinaryOp;
use crate::version::PyVersion;
use py311::Py311;
use py312::Py312;
use py313::Py313;
use py38::Py38;

/// The code generator's operations, as a range of CPython versions expresses them.
#[enum_dispatch]
pub trait Target {
    /// Writes the first instructions of a new frame; for a generator they create the generator.
    fn prologue(&self, e: &mut Emitter, code: &Code, generator: bool) -> Flow<()>;
    /// Writes what precedes the callable of a call.
    fn begin_call(&self, e: &mut Emitter) -> Flow<()>;
    /// Writes what comes between the callable and its arguments.
    fn callable_loaded(&self, e: &mut Emitter) -> Flow<()>;
    /// Writes a call.
    fn call(&self, e: &mut Emitter, argc: u32) -> Flow<()>;
    /// Writes a call with keyword names.
    fn call_with_keywords(&self, e: &mut Emitter, argc: u32, names: Py<PyAny>) -> Flow<()>;
    /// Loads a global by name index.
    fn load_global(&self, e: &mut Emitter, name: u32) -> Flow<()>;
    /// Loads an attribute by name index.
    fn load_attr(&self, e: &mut Emitter, name: u32) -> Flow<()>;
    /// Loads a cell by its index among cell and free variables.
    fn load_closure(&self, e: &mut Emitter, cell: usize) -> Flow<()>;
    /// Writes what precedes instructions whose exceptions are caught.
    fn begin_try(&self, e: &mut Emitter) -> Flow<()> {
        let _ = e;
        Ok(())
    }
    /// Like `begin_try`, for the first instruction of the code, whose handler may be far away. Returns the start that
    /// `catch` is given.
    fn begin_first_try(&self, e: &mut Emitter) -> Flow<Label> {
        let start = e.here();
        self.begin_try(e)?;
        Ok(start)
    }
    /// Writes what follows these instructions, on each path out of them.
    fn end_try(&self, e: &mut Emitter) -> Flow<()> {
        let _ = e;
        Ok(())
    }
    /// Begins the handler of the instructions between two labels. Stores the exception in a new local, and returns
    /// its slot.
    fn catch(&self, e: &mut Emitter, start: Label, end: Label, handler: Label, depth: u32) -> Flow<u32> {
        e.add_handler(start, end, handler, depth);
        e.store_new()
    }
    /// Number of stack items of an exception that is raised again.
    fn raised_width(&self) -> u32 {
        1
    }
    /// Writes what precedes the items of an exception that is to be handled.
    fn before_handling(&self, e: &mut Emitter) -> Flow<()> {
        let _ = e;
        Ok(())
    }
    /// Begins handling the exception. The exception handled before stays on the stack.
    fn begin_handling(&self, e: &mut Emitter, start: Label) -> Flow<()> {
        let _ = start;
        e.op(Op::PUSH_EXC_INFO, 0)?;
        e.op(Op::POP_TOP, 0)
    }
    /// Writes what precedes the items of an exception that is to be raised again.
    fn before_reraise(&self, e: &mut Emitter) -> Flow<()> {
        let _ = e;
        Ok(())
    }
    /// Raises the exception again.
    fn reraise(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::RERAISE, 0)
    }
    /// Begins a handler of the instructions between two labels that may decline the exception.
    fn begin_handler(&self, e: &mut Emitter, start: Label, end: Label, depth: u32) -> Flow<()> {
        let handler = e.here();
        e.add_handler(start, end, handler, depth);
        e.op(Op::PUSH_EXC_INFO, 0)
    }
    /// Pops a class, and jumps if the exception is no instance of the class.
    fn jump_unless_matches(&self, e: &mut Emitter) -> Flow<usize> {
        e.op(Op::CHECK_EXC_MATCH, 0)?;
        e.jump_if(false)
    }
    /// Ends such a handler by raising the exception unchanged.
    fn decline(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::COPY, 2)?;
        e.op(Op::POP_EXCEPT, 0)?;
        e.op(Op::RERAISE, 0)
    }
    /// Registers a handler for exceptions of the call between two labels.
    fn handle_driven(&self, e: &mut Emitter, start: Label, end: Label, handler: Label) {
        e.add_handler(start, end, handler, 0);
    }
    /// Raises the exception of a handler again, with the traceback that `trim` gives it.
    fn raise_trimmed(&self, e: &mut Emitter, trim: Py<PyAny>) -> Flow<()> {
        e.begin_call()?;
        e.load_const(trim)?;
        e.callable_loaded()?;
        e.op(Op::COPY, 3)?;
        e.call(1)?;
        e.op(Op::POP_TOP, 0)?;
        e.op(Op::RERAISE, 0)
    }
    /// Writes a binary operator.
    fn binary(&self, e: &mut Emitter, op: BinaryOp) -> Flow<()> {
        e.op(Op::BINARY_OP, op as u32)
    }
    /// Writes the conversion that precedes a branch on an arbitrary value, in versions whose branches take only
    /// `True` and `False`.
    fn before_branch(&self, e: &mut Emitter) -> Flow<()> {
        let _ = e;
        Ok(())
    }
    /// Pushes the NULL of a call.
    fn push_null(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::PUSH_NULL, 0)
    }
    /// The stack items that a call has for its callable, from the bottom up.
    fn callable(&self, callable: VarId, null: VarId) -> Vec<VarId> {
        vec![null, callable]
    }
    /// True if a method load leaves its NULL below the callable.
    fn null_first(&self) -> bool {
        true
    }
    /// Number of instructions at the target of a loop head that only clean up after the loop.
    fn loop_cleanup(&self) -> u32 {
        0
    }
    /// Duplicates the top of the stack.
    fn duplicate(&self, e: &mut Emitter) -> Flow<()>;
    /// Swaps the two topmost stack items.
    fn swap(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::SWAP, 2)
    }
    /// Moves the top of the stack below the two items under it, which may swap places.
    fn bury(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::SWAP, 3)
    }
    /// Compares the two topmost stack items by identity.
    fn is(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::IS_OP, 0)
    }
}

/// The instruction selection of one interpreter.
#[enum_dispatch(Target)]
#[derive(Clone, Copy)]
pub(super) enum Selected {
    Py38,
    Py311,
    Py312,
    Py313,
}

impl Selected {
    /// The selection for an interpreter.
    pub(super) fn for_version(version: PyVersion) -> Selected {
        match version.0 {
            ..=10 => Py38.into(),
            11 => Py311.into(),
            12 => Py312.into(),
            _ => Py313.into(),
        }
    }
}
