//! The interface of the code generator to variable kinds.

use pyo3::prelude::*;

use super::CodeGen;
use crate::bytecode::Op;
use crate::error::{Flow, Unwind};
use crate::machine::executor::{BinaryOp, CallArgs, Frame, Trace};
use crate::machine::variable::{Argument, Rebuild, VarId};
use crate::tracker::TrackerId;

impl<'py> Rebuild<'py> for CodeGen<'_, 'py> {
    fn py(&self) -> Python<'py> {
        self.trace.py
    }

    fn trace(&self) -> &Trace<'py> {
        self.trace
    }

    fn plan_to_make(&self, variable: VarId, why: &str) -> Unwind {
        self.checkpoints.plan_to_make(self.trace, variable, why)
    }

    fn plan_to_raise(&self, exception: VarId) -> Unwind {
        self.checkpoints.plan_to_raise(self.trace, exception)
    }

    fn load(&mut self, variable: VarId) -> Flow<()> {
        CodeGen::load(self, variable)
    }

    fn load_argument(&mut self, argument: Argument) -> Flow<()> {
        CodeGen::load_argument(self, argument)
    }

    fn load_const(&mut self, value: Py<PyAny>) -> Flow<()> {
        CodeGen::load_const(self, value)
    }

    fn load_attr(&mut self, name: &str) -> Flow<()> {
        CodeGen::load_attr(self, name)
    }

    fn store_attr(&mut self, object: VarId, name: &str, value: Option<Argument>) -> Flow<()> {
        CodeGen::store_attr(self, object, name, value)
    }

    fn load_instance_dict(&mut self, object: VarId) -> Flow<()> {
        CodeGen::load_instance_dict(self, object)
    }

    fn load_globals(&mut self, tracker: TrackerId) -> Flow<()> {
        CodeGen::load_globals(self, tracker)
    }

    fn load_suspended(&mut self, frame: &Frame) -> Flow<()> {
        CodeGen::load_suspended(self, frame)
    }

    fn op(&mut self, op: Op, arg: u32) -> Flow<()> {
        CodeGen::op(self, op, arg)
    }

    fn binary(&mut self, op: BinaryOp) -> Flow<()> {
        CodeGen::binary(self, op)
    }

    fn before_callable(&mut self) -> Flow<()> {
        self.emitter.begin_call()
    }

    fn after_callable(&mut self) -> Flow<()> {
        self.emitter.callable_loaded()
    }

    fn end_call(&mut self, argc: u32) -> Flow<()> {
        CodeGen::end_call(self, argc)
    }

    fn call_with(&mut self, callable: Argument, args: &CallArgs) -> Flow<()> {
        CodeGen::call_with(self, callable, args)
    }

    fn define(&mut self, variable: VarId) -> Flow<()> {
        CodeGen::define(self, variable)
    }

    fn is_defined(&self, variable: VarId) -> bool {
        CodeGen::is_defined(self, variable)
    }

    fn leaves_empty(&mut self, container: VarId) -> bool {
        CodeGen::leaves_empty(self, container)
    }

    fn makes_whole(&mut self, container: VarId) {
        self.construction.make_whole(container);
    }

    fn leaves_open(&mut self, cell: VarId) -> bool {
        self.construction.leaves_open(cell)
    }

    fn begin_class(&mut self) {
        self.construction.begin_class();
    }

    fn end_class(&mut self) -> Flow<()> {
        CodeGen::end_class(self)
    }
}
