//! CPython 3.11: frames start unprepared, calls take a NULL below the callable.

use pyo3::prelude::*;

use super::{Emitter, Target};
use crate::bytecode::Code;
use crate::error::Flow;

#[derive(Clone, Copy)]
pub(in crate::codegen) struct Py311;

/// `COPY_FREE_VARS`, a `MAKE_CELL` for each cell variable, `RETURN_GENERATOR` in a generator.
pub(super) fn prologue(e: &mut Emitter, code: &Code, generator: bool) -> Flow<()> {
    if !code.freevars.is_empty() {
        e.op("COPY_FREE_VARS", code.freevars.len() as u32)?;
    }
    for cell in 0..code.cellvars.len() {
        e.cell_op("MAKE_CELL", cell)?;
    }
    if generator {
        e.op("RETURN_GENERATOR", 0)?;
        e.op("POP_TOP", 0)?;
    }
    Ok(())
}

impl Target for Py311 {
    fn prologue(&self, e: &mut Emitter, code: &Code, generator: bool) -> Flow<()> {
        prologue(e, code, generator)
    }

    fn begin_call(&self, e: &mut Emitter) -> Flow<()> {
        e.op("PUSH_NULL", 0)
    }

    fn callable_loaded(&self, _: &mut Emitter) -> Flow<()> {
        Ok(())
    }

    fn call(&self, e: &mut Emitter, argc: u32) -> Flow<()> {
        e.op("PRECALL", argc)?;
        e.op("CALL", argc)
    }

    fn call_with_keywords(&self, e: &mut Emitter, argc: u32, names: Py<PyAny>) -> Flow<()> {
        let names = e.const_index(names);
        e.op("KW_NAMES", names)?;
        self.call(e, argc)
    }

    fn load_global(&self, e: &mut Emitter, name: u32) -> Flow<()> {
        e.op("LOAD_GLOBAL", name << 1)
    }

    fn load_attr(&self, e: &mut Emitter, name: u32) -> Flow<()> {
        e.op("LOAD_ATTR", name)
    }

    fn load_closure(&self, e: &mut Emitter, cell: usize) -> Flow<()> {
        e.cell_op("LOAD_CLOSURE", cell)
    }

    fn duplicate(&self, e: &mut Emitter) -> Flow<()> {
        e.op("COPY", 1)
    }
}
