//! Instruction selection: how each CPython version spells what the code generator says. Each file holds one version's
//! differences to the one before it.

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

/// How one range of CPython versions spells the code generator's operations.
#[enum_dispatch]
pub trait Target {
    /// What a fresh frame must run first; that of a generator makes the generator.
    fn prologue(&self, e: &mut Emitter, code: &Code, generator: bool) -> Flow<()>;
    /// Before the callable of a call.
    fn begin_call(&self, e: &mut Emitter) -> Flow<()>;
    /// Between the callable and its arguments.
    fn callable_loaded(&self, e: &mut Emitter) -> Flow<()>;
    /// The call.
    fn call(&self, e: &mut Emitter, argc: u32) -> Flow<()>;
    /// The call with keyword names.
    fn call_with_keywords(&self, e: &mut Emitter, argc: u32, names: Py<PyAny>) -> Flow<()>;
    /// Load of a global by name index.
    fn load_global(&self, e: &mut Emitter, name: u32) -> Flow<()>;
    /// Load of an attribute by name index.
    fn load_attr(&self, e: &mut Emitter, name: u32) -> Flow<()>;
    /// Load of a cell by its index into cell and free variables.
    fn load_closure(&self, e: &mut Emitter, cell: usize) -> Flow<()>;
    /// Before instructions whose exceptions are caught.
    fn begin_try(&self, e: &mut Emitter) -> Flow<()> {
        let _ = e;
        Ok(())
    }
    /// The same at the first instruction of code, whose handler may be far away; where `catch` is told that they begin.
    fn begin_first_try(&self, e: &mut Emitter) -> Flow<Label> {
        let start = e.here();
        self.begin_try(e)?;
        Ok(start)
    }
    /// After them, on each way out.
    fn end_try(&self, e: &mut Emitter) -> Flow<()> {
        let _ = e;
        Ok(())
    }
    /// Begins the handler of the instructions between two labels; the exception goes into a new local.
    fn catch(&self, e: &mut Emitter, start: Label, end: Label, handler: Label, depth: u32) -> Flow<u32> {
        e.add_handler(start, end, handler, depth);
        e.store_new()
    }
    /// How many stack items raising an exception again takes.
    fn raised_width(&self) -> u32 {
        1
    }
    /// Before the items of an exception that is to be handled.
    fn before_handling(&self, e: &mut Emitter) -> Flow<()> {
        let _ = e;
        Ok(())
    }
    /// Begins to handle the exception; leaves what was handled before.
    fn begin_handling(&self, e: &mut Emitter, start: Label) -> Flow<()> {
        let _ = start;
        e.op(Op::PUSH_EXC_INFO, 0)?;
        e.op(Op::POP_TOP, 0)
    }
    /// Before the items of an exception to be raised again.
    fn before_reraise(&self, e: &mut Emitter) -> Flow<()> {
        let _ = e;
        Ok(())
    }
    /// Raises it again.
    fn reraise(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::RERAISE, 0)
    }
    /// Begins a handler of the instructions between two labels, which may find that the exception is none of its own.
    fn begin_handler(&self, e: &mut Emitter, start: Label, end: Label, depth: u32) -> Flow<()> {
        let handler = e.here();
        e.add_handler(start, end, handler, depth);
        e.op(Op::PUSH_EXC_INFO, 0)
    }
    /// Jumps there if the exception is no instance of the class on top of the stack, which goes.
    fn jump_unless_matches(&self, e: &mut Emitter) -> Flow<usize> {
        e.op(Op::CHECK_EXC_MATCH, 0)?;
        e.jump_if(false)
    }
    /// The end of such a handler: the exception is raised as it was.
    fn decline(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::COPY, 2)?;
        e.op(Op::POP_EXCEPT, 0)?;
        e.op(Op::RERAISE, 0)
    }
    /// Sends exceptions of the call between two labels to a handler.
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
    /// A binary operator.
    fn binary(&self, e: &mut Emitter, op: BinaryOp) -> Flow<()> {
        e.op(Op::BINARY_OP, op as u32)
    }
    /// Before a branch on any value, where branches take nothing but `True` and `False`.
    fn before_branch(&self, e: &mut Emitter) -> Flow<()> {
        let _ = e;
        Ok(())
    }
    /// The NULL of a call.
    fn push_null(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::PUSH_NULL, 0)
    }
    /// What a call's frame has on its stack for the callable, from the bottom up.
    fn callable(&self, callable: VarId, null: VarId) -> Vec<VarId> {
        vec![null, callable]
    }
    /// Whether the pair that a method load leaves has its NULL below the callable.
    fn null_first(&self) -> bool {
        true
    }
    /// How many instructions at the target of a loop head only clean up after the loop.
    fn loop_cleanup(&self) -> u32 {
        0
    }
    /// Duplicate of the top of the stack.
    fn duplicate(&self, e: &mut Emitter) -> Flow<()>;
    /// The two items on top of the stack change places.
    fn swap(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::SWAP, 2)
    }
    /// The top goes below the two items under it, which may change places.
    fn bury(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::SWAP, 3)
    }
    /// Whether the two items on top of the stack are one object.
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
