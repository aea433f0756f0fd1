//! CPython 3.12: `PRECALL` is gone, `LOAD_ATTR` has a method bit.

use pyo3::prelude::*;

use super::py311::{prologue, Py311};
use super::{Emitter, Target};
use crate::bytecode::{Code, Op};
use crate::error::Flow;

#[derive(Clone, Copy)]
pub(in crate::emit) struct Py312;

impl Target for Py312 {
    fn prologue(&self, e: &mut Emitter, code: &Code, generator: bool) -> Flow<()> {
        prologue(e, code, generator)
    }

    fn begin_call(&self, e: &mut Emitter) -> Flow<()> {
        Py311.begin_call(e)
    }

    fn callable_loaded(&self, e: &mut Emitter) -> Flow<()> {
        Py311.callable_loaded(e)
    }

    fn call(&self, e: &mut Emitter, argc: u32) -> Flow<()> {
        e.op(Op::CALL, argc)
    }

    fn call_with_keywords(&self, e: &mut Emitter, argc: u32, names: Py<PyAny>) -> Flow<()> {
        let names = e.const_index(names);
        e.op(Op::KW_NAMES, names)?;
        self.call(e, argc)
    }

    fn load_global(&self, e: &mut Emitter, name: u32) -> Flow<()> {
        Py311.load_global(e, name)
    }

    fn load_attr(&self, e: &mut Emitter, name: u32) -> Flow<()> {
        e.op(Op::LOAD_ATTR, name << 1)
    }

    fn load_closure(&self, e: &mut Emitter, cell: usize) -> Flow<()> {
        Py311.load_closure(e, cell)
    }

    fn loop_cleanup(&self) -> u32 {
        1
    }

    fn duplicate(&self, e: &mut Emitter) -> Flow<()> {
        Py311.duplicate(e)
    }
}
