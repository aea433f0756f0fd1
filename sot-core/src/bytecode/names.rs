//! The names that code looks up.

use pyo3::prelude::*;
use pyo3::types::{PyCode, PyString, PyTuple};

use super::decode::bytecode;
use super::{BytecodeError, Op, Opcodes, OperandTable};

/// The names in the operands of a code object, and of the code objects in its constants (comprehensions, lambdas). A
/// name may occur several times.
#[derive(Default)]
pub struct Names<'py> {
    /// Names looked up in the globals, then in the builtins. The body of a class looks them up in the class first.
    pub globals: Vec<Bound<'py, PyString>>,
    /// All other names: attributes, modules, names imported from modules.
    pub others: Vec<Bound<'py, PyString>>,
}

impl<'py> Names<'py> {
    /// Collects the names of a code object.
    pub fn of(code: &Bound<'py, PyCode>) -> Result<Self, BytecodeError> {
        let mut names = Names::default();
        names.add(code)?;
        Ok(names)
    }

    fn add(&mut self, code: &Bound<'py, PyCode>) -> Result<(), BytecodeError> {
        let opcodes = Opcodes::try_get(code.py())?;
        let table = code.getattr("co_names")?.cast_into::<PyTuple>().map_err(PyErr::from)?;
        let mut arg = 0_usize;
        for unit in bytecode(code)?.chunks_exact(2) {
            arg = arg << 8 | usize::from(unit[1]);
            if unit[0] == opcodes.extended_arg() {
                continue;
            }
            let info = opcodes.info(unit[0]);
            if info.operand == OperandTable::Name {
                let name = table.get_item(arg >> info.shift)?.cast_into::<PyString>().map_err(PyErr::from)?;
                let is_global = opcodes.is(unit[0], Op::LOAD_GLOBAL)
                    || matches!(opcodes.name(unit[0]), "LOAD_NAME" | "LOAD_FROM_DICT_OR_GLOBALS");
                if is_global { &mut self.globals } else { &mut self.others }.push(name);
            }
            arg = 0;
        }
        for constant in code.getattr("co_consts")?.cast_into::<PyTuple>().map_err(PyErr::from)?.iter() {
            if let Ok(inner) = constant.cast::<PyCode>() {
                self.add(inner)?;
            }
        }
        Ok(())
    }
}
