//! CPython 3.11: the frame creates its own cells, and calls take a NULL below the callable.

use pyo3::prelude::*;

use super::{Emitter, Target};
use crate::bytecode::{Code, Op};
use crate::error::Flow;

#[derive(Clone, Copy)]
pub(in crate::emit) struct Py311;

/// Writes `COPY_FREE_VARS`, a `MAKE_CELL` for each cell variable and, in a generator, `RETURN_GENERATOR`.
pub(super) fn prologue(e: &mut Emitter, code: &Code, generator: bool) -> Flow<()> {
    if !code.freevars.is_empty() {
        e.op(Op::COPY_FREE_VARS, code.freevars.len() as u32)?;
    }
    for cell in 0..code.cellvars.len() {
        e.cell_op(Op::MAKE_CELL, cell)?;
    }
    if generator {
        e.op(Op::RETURN_GENERATOR, 0)?;
        e.op(Op::POP_TOP, 0)?;
    }
    Ok(())
}

impl Target for Py311 {
    fn prologue(&self, e: &mut Emitter, code: &Code, generator: bool) -> Flow<()> {
        prologue(e, code, generator)
    }

    fn begin_call(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::PUSH_NULL, 0)
    }

    fn callable_loaded(&self, _: &mut Emitter) -> Flow<()> {
        Ok(())
    }

    fn call(&self, e: &mut Emitter, argc: u32) -> Flow<()> {
        e.op(Op::PRECALL, argc)?;
        e.op(Op::CALL, argc)
    }

    fn call_with_keywords(&self, e: &mut Emitter, argc: u32, names: Py<PyAny>) -> Flow<()> {
        let names = e.const_index(names);
        e.op(Op::KW_NAMES, names)?;
        self.call(e, argc)
    }

    fn load_global(&self, e: &mut Emitter, name: u32) -> Flow<()> {
        e.op(Op::LOAD_GLOBAL, name << 1)
    }

    fn load_attr(&self, e: &mut Emitter, name: u32) -> Flow<()> {
        e.op(Op::LOAD_ATTR, name)
    }

    fn load_closure(&self, e: &mut Emitter, cell: usize) -> Flow<()> {
        e.cell_op(Op::LOAD_CLOSURE, cell)
    }

    fn duplicate(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::COPY, 1)
    }
}
