//! Loads a value by its tracker.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyWeakrefReference};

use super::CodeGen;
use crate::bytecode::Op;
use crate::cpython::{self, Part};
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::{is_held_weakly, Test};
use crate::machine::variable::Rebuild;
use crate::readers;
use crate::tracker::{Computation, Key, Tracker, TrackerId};

fn builtin(py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
    cpython::builtin(py, name).map(Bound::unbind)
}

impl CodeGen<'_, '_> {
    /// Loads the tracker's value.
    pub(super) fn load_tracker(&mut self, id: TrackerId) -> Flow<()> {
        let py = self.trace.py;
        match &*self.trace.trackers.share(id) {
            Tracker::Local { slot, .. } => self.load_slot(*slot),
            Tracker::FreeCell { index, .. } => {
                self.emitter.load_closure(self.root.code.cellvars.len() + *index as usize)
            }
            Tracker::Globals => {
                let globals = builtin(py, "globals")?;
                self.call_of(globals, [])
            }
            Tracker::Builtins => {
                let module = cpython::import(py, "builtins")?.into_any().unbind();
                self.load_const(module)?;
                self.load_attr("__dict__")
            }
            Tracker::Constant(object) | Tracker::Registered(object) => self.load_const(object.0.clone_ref(py)),
            Tracker::GuardedKey(object) => self.load_key(object.0.bind(py)),
            Tracker::Attribute { of, name } | Tracker::Getattr { of, name }
                if matches!(self.trace.trackers.get(*of), Tracker::AsBuiltinBase { .. }) =>
            {
                let name = PyString::intern(py, name).into_any().unbind();
                self.call_on(readers::own_read(py)?, *of, [name])
            }
            Tracker::Attribute { of, name } | Tracker::Getattr { of, name } => {
                self.load_tracker(*of)?;
                self.load_attr(name)
            }
            Tracker::Lookup { of, name } => {
                let name = PyString::intern(py, name).into_any().unbind();
                self.call_on(readers::lookup(py)?, *of, [name])
            }
            Tracker::Cached { of, key, args, keywords } => {
                let parts = [key, args, keywords].map(|part| part.0.clone_ref(py));
                self.call_on(readers::cached(py)?, *of, parts)
            }
            Tracker::Type { of } => self.call_on(builtin(py, "type")?, *of, []),
            Tracker::Item { of, key } => self.load_item(*of, key),
            Tracker::CellContents { of } => self.load_cell_contents(*of),
            Tracker::Part { of, part: Part::Proxied } => self.call_on(readers::proxied(py)?, *of, []),
            Tracker::Part { of, part } => {
                self.load_tracker(*of)?;
                self.load_attr(part.attribute())
            }
            Tracker::RealObject(variable) => self.load(*variable),
            Tracker::AsBuiltinBase { of } => self.load_tracker(*of),
            Tracker::Length { of } => self.call_on(builtin(py, "len")?, *of, []),
            Tracker::Upcoming { of, after, is_new } => {
                let after = after.into_pyobject(py).map_err(PyErr::from)?.into_any().unbind();
                let reader = readers::upcoming(py)?;
                let load = |cg: &mut Self| cg.call_on(reader, *of, [after]);
                if *is_new {
                    self.load_once(id, load)
                } else {
                    load(self)
                }
            }
            Tracker::Computed { how, of } => self.load_once(id, |cg| cg.load_computed(how, of)),
            Tracker::Foreign { of, how } => {
                let reader = readers::foreign(py, how)?;
                self.load_once(id, |cg| cg.call_on(reader, *of, []))
            }
            // Only guards use the iterables of an iterator.
            Tracker::Iterated { .. } | Tracker::Produced => {
                Err(pyo3::exceptions::PyRuntimeError::new_err("a value made in the trace was loaded").into())
            }
        }
    }

    /// Calls a function with the tracker's value and these constants.
    fn call_on<const N: usize>(&mut self, function: Py<PyAny>, of: TrackerId, constants: [Py<PyAny>; N]) -> Flow<()> {
        self.begin_call_of(function)?;
        self.load_tracker(of)?;
        for constant in constants {
            self.load_const(constant)?;
        }
        self.end_call(1 + N as u32)
    }

    /// Loads a value that would be another object at each load: it is made at the first load and kept.
    fn load_once(&mut self, id: TrackerId, load: impl FnOnce(&mut Self) -> Flow<()>) -> Flow<()> {
        if let Some(slot) = self.slots.of_computed(id) {
            return self.op(Op::LOAD_FAST, slot);
        }
        load(self)?;
        let slot = self.slots.add_computed(&mut self.emitter, id);
        self.op(Op::STORE_FAST, slot)?;
        self.op(Op::LOAD_FAST, slot)
    }

    fn load_computed(&mut self, how: &Computation, of: &[TrackerId]) -> Flow<()> {
        if let Computation::Call(function) | Computation::Convert { function, .. } = how {
            let function = function.0.clone_ref(self.trace.py);
            self.begin_call_of(function)?;
        }
        for &number in of {
            self.load_tracker(number)?;
        }
        match how {
            Computation::Binary(op) => self.binary(*op),
            Computation::Call(_) | Computation::Convert { .. } => self.end_call(of.len() as u32),
            // The result of a comparison is assumed, so it is never loaded.
            Computation::Compare(_) => {
                Err(pyo3::exceptions::PyRuntimeError::new_err("a comparison of the guards was loaded").into())
            }
        }
    }

    fn load_slot(&mut self, slot: u32) -> Flow<()> {
        if self.slots.has_moved(slot) {
            let text = "a value found by way of an argument that is gone";
            let refuse = || Unwind::fallback(ReasonId::CannotRestore, text);
            let present = self.slots.of_argument(slot).ok_or_else(refuse)?;
            return self.op(Op::LOAD_FAST, present);
        }
        let root = Rc::clone(&self.root);
        let name = &root.code.varnames[slot as usize];
        match root.code.cellvars.iter().position(|cell| cell == name) {
            Some(cell) => self.emitter.cell_op(Op::LOAD_DEREF, cell),
            None => self.op(Op::LOAD_FAST, slot),
        }
    }

    fn load_item(&mut self, of: TrackerId, key: &Key) -> Flow<()> {
        if let Key::Str(name) = key {
            let is_found = match self.trace.trackers.get(of) {
                Tracker::Globals => true,
                // A function of another module may have found the name in the builtins, while the frame's own globals
                // define it.
                Tracker::Builtins => {
                    let globals = self.trace.trackers.find(&Tracker::Globals);
                    let lacks = |globals| self.trace.guards.has(globals, Test::LacksKey(Key::Str(Rc::clone(name))));
                    globals.is_some_and(lacks)
                }
                _ => false,
            };
            if is_found {
                return self.emitter.load_global(name);
            }
        }
        let key = key.object(self.trace.py)?;
        if matches!(self.trace.trackers.get(of), Tracker::AsBuiltinBase { .. }) {
            let kept = readers::kept(self.trace.py)?;
            self.begin_call_of(kept)?;
            self.load_tracker(of)?;
            self.load_key(&key)?;
            return self.end_call(2);
        }
        self.load_tracker(of)?;
        self.load_key(&key)?;
        self.op(Op::BINARY_SUBSCR, 0)
    }

    /// Loads a key. If it is held weakly, the guards have just seen it alive.
    fn load_key(&mut self, key: &Bound<'_, PyAny>) -> Flow<()> {
        if !is_held_weakly(key) {
            return self.load_const(key.clone().unbind());
        }
        let reference = PyWeakrefReference::new(key)?.into_any().unbind();
        self.begin_call_of(reference)?;
        self.end_call(0)
    }

    fn load_cell_contents(&mut self, of: TrackerId) -> Flow<()> {
        if let Tracker::FreeCell { index, .. } = self.trace.trackers.get(of) {
            let cell = self.root.code.cellvars.len() + *index as usize;
            return self.emitter.cell_op(Op::LOAD_DEREF, cell);
        }
        self.load_tracker(of)?;
        self.load_attr("cell_contents")
    }
}
