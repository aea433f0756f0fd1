//! What a trace has come across that its translation rests on, or that others are told of: objects for which the
//! program may register something, code objects, opcodes.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyFunction;
use rustc_hash::{FxHashMap, FxHashSet};

use super::CodeUnit;
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::opcode::OpcodeSet;
use crate::registered;

/// What a trace has come across.
#[derive(Default)]
pub struct Met {
    /// Addresses.
    objects: FxHashSet<usize>,
    units: FxHashMap<usize, Rc<CodeUnit>>,
    opcodes: OpcodeSet,
}

impl Met {
    /// The translation rests on what is registered for an object, or on nothing being registered.
    pub fn object(&mut self, object: &Bound<'_, PyAny>) {
        self.objects.insert(object.as_ptr() as usize);
        self.class_of(object);
        if let Ok(function) = object.cast::<PyFunction>() {
            self.objects.insert(cpython::function_globals(function).as_ptr() as usize);
            self.objects.extend(registered::module_of(object).map(|module| registered::mark_of(&module)));
        }
    }

    /// The same of an object's class.
    pub(super) fn class_of(&mut self, object: &Bound<'_, PyAny>) {
        self.objects.insert(object.get_type_ptr() as usize);
    }

    /// The addresses of the objects; the trace has ended.
    pub(crate) fn take_objects(&mut self) -> FxHashSet<usize> {
        std::mem::take(&mut self.objects)
    }

    /// A code object decoded; each is decoded once.
    pub fn code_unit(&mut self, code: &Bound<'_, PyAny>) -> Flow<Rc<CodeUnit>> {
        if let Some(unit) = self.units.get(&(code.as_ptr() as usize)) {
            return Ok(Rc::clone(unit));
        }
        let unit = CodeUnit::new(code).map_err(|error| {
            let text = format!("the bytecode of a function cannot be read: {error}");
            Unwind::break_graph(ReasonId::UnsupportedCall, text)
        })?;
        self.units.insert(code.as_ptr() as usize, Rc::clone(&unit));
        Ok(unit)
    }

    /// The code objects decoded so far.
    pub(crate) fn followed(&self) -> Vec<Rc<CodeUnit>> {
        self.units.values().cloned().collect()
    }

    /// The handler of an opcode went through, or raised what the program raises.
    pub(super) fn opcode(&mut self, opcode: u8) {
        self.opcodes.insert(opcode);
    }

    /// The opcodes whose handlers went through, or raised what the program raises.
    pub fn opcodes(&self) -> OpcodeSet {
        self.opcodes
    }
}
