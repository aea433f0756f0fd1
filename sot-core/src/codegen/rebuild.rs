//! The interface of the code generator to variable kinds: loads, calls, and how a value is made in steps.

use pyo3::prelude::*;
use pyo3::types::PyType;

use super::{generator, CodeGen};
use crate::bytecode::Op;
use crate::cpython;
use crate::error::{Flow, Unwind};
use crate::machine::executor::{refuse_deep_values, BinaryOp, CallArgs, Frame, Trace};
use crate::machine::variable::{Argument, Rebuild, VarId};
use crate::readers;
use crate::tracker::{Tracker, TrackerId};

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
        if let Some(slot) = self.slots.of(variable) {
            return self.emitter.op(Op::LOAD_FAST, slot);
        }
        if let Some(&cell) = self.slots.cells.get(&variable) {
            return self.emitter.load_closure(cell);
        }
        refuse_deep_values()?;
        let tracker = self.trace.vars.tracker(variable);
        let known = self.trace.trackers.is_made(tracker) && self.trace.vars.get(variable).constant().is_some();
        if self.trace.trackers.is_loadable(tracker) && !known {
            self.load_tracker(tracker)?;
            // A getter implemented in C may return another object at each read, so the first one is kept.
            if !matches!(self.trace.trackers.get(tracker), Tracker::Getattr { .. }) {
                return Ok(());
            }
            self.define(variable)?;
            return self.load(variable);
        }
        let payload = self.trace.vars.get(variable);
        if let Some(constant) = payload.constant() {
            let constant = constant.clone_ref(self.trace.py);
            return self.load_const(constant);
        }
        self.construction.begin(variable)?;
        payload.reconstruct(self, variable)?;
        self.construction.end();
        if !self.slots.hold(variable) {
            self.define(variable)?;
        }
        self.fill_attributes_in_time(variable)?;
        self.fill()?;
        self.load(variable)
    }

    fn load_argument(&mut self, argument: Argument) -> Flow<()> {
        match argument {
            Argument::Variable(variable) => self.load(variable),
            Argument::Constant(object) => self.load_const(object),
            Argument::Globals(tracker) => self.load_globals(tracker),
            Argument::Tuple(items) => self.build(Op::BUILD_TUPLE, items),
            Argument::List(items) => self.build(Op::BUILD_LIST, items),
            Argument::Dict(entries) => {
                let count = entries.len() as u32;
                for (key, value) in entries {
                    self.load_argument(key)?;
                    self.load_argument(value)?;
                }
                self.op(Op::BUILD_MAP, count)
            }
        }
    }

    fn load_const(&mut self, value: Py<PyAny>) -> Flow<()> {
        self.emitter.load_const(value)
    }

    fn load_attr(&mut self, name: &str) -> Flow<()> {
        self.emitter.load_attr(name)
    }

    fn store_attr(&mut self, object: VarId, name: &str, value: Option<Argument>) -> Flow<()> {
        if let Some(value) = value {
            self.load_argument(value)?;
            self.load(object)?;
            let index = self.emitter.name(name);
            return self.op(Op::STORE_ATTR, index);
        }
        self.load(object)?;
        let index = self.emitter.name(name);
        self.op(Op::DELETE_ATTR, index)
    }

    fn load_instance_dict(&mut self, object: VarId) -> Flow<()> {
        let py = self.trace.py;
        let ty = self.trace.vars.get(object).python_type(self.trace);
        if ty.cast::<PyType>().is_ok_and(cpython::uses_generic_getattr) {
            self.load(object)?;
            return self.load_attr("__dict__");
        }
        let read = readers::own_read(py)?;
        let name = Argument::string(py, "__dict__");
        self.call_of(read, [object.into(), name])
    }

    fn load_globals(&mut self, tracker: TrackerId) -> Flow<()> {
        if let Some(slot) = self.slots.of_globals(tracker) {
            return self.emitter.op(Op::LOAD_FAST, slot);
        }
        self.load_tracker(tracker)
    }

    fn load_suspended(&mut self, frame: &Frame) -> Flow<()> {
        generator::load_suspended(self, frame)
    }

    fn op(&mut self, op: Op, arg: u32) -> Flow<()> {
        self.emitter.op(op, arg)
    }

    fn binary(&mut self, op: BinaryOp) -> Flow<()> {
        self.emitter.binary(op)
    }

    fn before_callable(&mut self) -> Flow<()> {
        self.emitter.begin_call()
    }

    fn after_callable(&mut self) -> Flow<()> {
        self.emitter.callable_loaded()
    }

    fn end_call(&mut self, argc: u32) -> Flow<()> {
        self.emitter.call(argc)
    }

    fn call_with(&mut self, callable: Argument, args: &CallArgs) -> Flow<()> {
        self.before_callable()?;
        self.load_argument(callable)?;
        self.after_callable()?;
        for value in args.all() {
            self.load(value)?;
        }
        let given = args.all().count() as u32;
        if args.keywords.is_empty() {
            return self.end_call(given);
        }
        let names: Vec<&str> = args.keywords.iter().map(|(name, _)| &**name).collect();
        self.emitter.call_with_keywords(self.trace.py, given, &names)
    }

    fn define(&mut self, variable: VarId) -> Flow<()> {
        let slot = self.slots.add(&mut self.emitter, variable);
        self.emitter.op(Op::STORE_FAST, slot)
    }

    fn is_defined(&self, variable: VarId) -> bool {
        self.slots.hold(variable)
    }

    fn leaves_empty(&mut self, container: VarId) -> bool {
        self.construction.leaves_empty(self.trace, &self.slots, container)
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
        self.construction.end_class();
        while let Some(cell) = self.construction.next_open_cell() {
            self.trace.vars.get(cell).restore_contents(self, cell)?;
        }
        Ok(())
    }
}

impl CodeGen<'_, '_> {
    fn build(&mut self, op: Op, items: Vec<Argument>) -> Flow<()> {
        let count = items.len() as u32;
        items.into_iter().try_for_each(|item| self.load_argument(item))?;
        self.op(op, count)
    }
}
