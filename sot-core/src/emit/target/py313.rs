//! CPython 3.13: the NULL of a call is above the callable, keyword names are a stack item, and a cell is loaded like
//! a local.

use pyo3::prelude::*;

use super::py311::prologue;
use super::py312::Py312;
use super::{Emitter, Target};
use crate::bytecode::{Code, Op};
use crate::entity::VarId;
use crate::error::Flow;

#[derive(Clone, Copy)]
pub(in crate::emit) struct Py313;

impl Target for Py313 {
    fn prologue(&self, e: &mut Emitter, code: &Code, generator: bool) -> Flow<()> {
        prologue(e, code, generator)
    }

    fn begin_call(&self, _: &mut Emitter) -> Flow<()> {
        Ok(())
    }

    fn callable_loaded(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::PUSH_NULL, 0)
    }

    fn callable(&self, callable: VarId, null: VarId) -> Vec<VarId> {
        vec![callable, null]
    }

    fn call(&self, e: &mut Emitter, argc: u32) -> Flow<()> {
        e.op(Op::CALL, argc)
    }

    fn call_with_keywords(&self, e: &mut Emitter, argc: u32, names: Py<PyAny>) -> Flow<()> {
        e.load_const(names)?;
        e.op(Op::CALL_KW, argc)
    }

    fn load_global(&self, e: &mut Emitter, name: u32) -> Flow<()> {
        Py312.load_global(e, name)
    }

    fn load_attr(&self, e: &mut Emitter, name: u32) -> Flow<()> {
        Py312.load_attr(e, name)
    }

    fn load_closure(&self, e: &mut Emitter, cell: usize) -> Flow<()> {
        e.cell_op(Op::LOAD_FAST, cell)
    }

    fn before_branch(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::TO_BOOL, 0)
    }

    fn null_first(&self) -> bool {
        false
    }

    fn loop_cleanup(&self) -> u32 {
        2
    }

    fn duplicate(&self, e: &mut Emitter) -> Flow<()> {
        Py312.duplicate(e)
    }
}
