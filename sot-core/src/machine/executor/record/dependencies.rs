//! Records the objects, code objects and opcodes that a trace meets. The translation is dropped if the program later
//! registers another meaning for one of the objects.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyFunction;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::bytecode::Label;
use crate::cache;
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::executor::{CodeUnit, OpcodeExecutor};
use crate::machine::opcode::OpcodeSet;
use crate::registered;

/// The objects, code objects and opcodes that the translation depends on.
#[derive(Default)]
pub(crate) struct Dependencies {
    /// Addresses of the objects.
    objects: FxHashSet<usize>,
    units: FxHashMap<usize, Rc<CodeUnit>>,
    opcodes: OpcodeSet,
    /// Simulated instructions, each with the address of its code object, if the trace begins in a resume function.
    places: FxHashSet<(usize, Label)>,
}

impl Dependencies {
    /// Notes that the translation depends on what is registered for an object, or on nothing being registered.
    pub(crate) fn object(&mut self, object: &Bound<'_, PyAny>) {
        self.objects.insert(object.as_ptr() as usize);
        self.class_of(object);
        if let Ok(function) = object.cast::<PyFunction>() {
            self.objects.insert(cpython::function_globals(function).as_ptr() as usize);
            self.objects.extend(registered::module_of(object).map(|module| registered::mark_of(&module)));
        }
    }

    /// Notes that the translation depends on what is registered for an object's class.
    pub(in crate::machine::executor) fn class_of(&mut self, object: &Bound<'_, PyAny>) {
        self.objects.insert(object.get_type_ptr() as usize);
    }

    /// Takes the addresses of the objects, at the end of the trace.
    pub(crate) fn take_objects(&mut self) -> FxHashSet<usize> {
        std::mem::take(&mut self.objects)
    }

    /// Returns a decoded code object.
    fn code_unit(&mut self, code: &Bound<'_, PyAny>) -> Flow<Rc<CodeUnit>> {
        if let Some(unit) = self.units.get(&(code.as_ptr() as usize)) {
            return Ok(Rc::clone(unit));
        }
        let unit = cache::unit_of(code).map_err(|error| {
            let text = format!("the bytecode of a function cannot be read: {error}");
            Unwind::break_graph(ReasonId::UnsupportedCall, text)
        })?;
        self.units.insert(code.as_ptr() as usize, Rc::clone(&unit));
        Ok(unit)
    }

    /// Returns the code objects decoded so far.
    pub(crate) fn followed(&self) -> Vec<Rc<CodeUnit>> {
        self.units.values().cloned().collect()
    }

    /// Notes that the handler of an opcode has succeeded, or has raised an exception of the program.
    pub(in crate::machine::executor) fn opcode(&mut self, opcode: u8) {
        self.opcodes.insert(opcode);
    }

    /// The opcodes whose handlers have succeeded, or have raised an exception of the program.
    pub(crate) fn opcodes(&self) -> OpcodeSet {
        self.opcodes
    }

    /// Notes that an instruction is simulated.
    pub(in crate::machine::executor) fn place(&mut self, unit: &CodeUnit, at: Label) {
        self.places.insert((unit.object.as_ptr() as usize, at));
    }

    /// The simulated instructions of a code object, if the trace begins in a resume function.
    pub(crate) fn places_in<'a>(&'a self, unit: &CodeUnit) -> impl Iterator<Item = Label> + 'a {
        let address = unit.object.as_ptr() as usize;
        self.places.iter().filter(move |(code, _)| *code == address).map(|(_, at)| *at)
    }
}

impl OpcodeExecutor<'_> {
    /// Returns a decoded code object, and notes that the trace follows it.
    pub fn code_unit(&mut self, code: &Bound<'_, PyAny>) -> Flow<Rc<CodeUnit>> {
        self.dependencies.code_unit(code)
    }
}
