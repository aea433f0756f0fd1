//! Finds variables outside of a function to which its code assigns (`global`, `nonlocal`).

use pyo3::prelude::*;
use pyo3::types::PyCode;

use crate::bytecode::{BytecodeError, Code, Op, Opcodes};
use crate::cache;

/// Returns the name of a global, or of a variable of an enclosing function, to which the code or a function nested in
/// it assigns; `None` if there is none.
///
/// # Errors
///
/// If the code, or that of a nested function, cannot be decoded.
pub(super) fn find(code: &Bound<'_, PyCode>) -> Result<Option<String>, BytecodeError> {
    let unit = cache::unit_of(code.as_any())?;
    find_in(code.py(), &unit.code, &unit.code.freevars)
}

/// `outside`: the variables of enclosing functions that the outermost code refers to.
fn find_in(py: Python<'_>, code: &Code, outside: &[String]) -> Result<Option<String>, BytecodeError> {
    let opcodes = Opcodes::get(py);
    for instruction in &code.instructions {
        let is = |op| opcodes.is(instruction.opcode, op);
        let assigned = if is(Op::STORE_GLOBAL) || is(Op::DELETE_GLOBAL) {
            code.names.get(instruction.arg as usize)
        } else if is(Op::STORE_DEREF) || is(Op::DELETE_DEREF) {
            let free = code.cell_index(instruction.arg).and_then(|cell| cell.checked_sub(code.cellvars.len()));
            free.and_then(|free| code.freevars.get(free)).filter(|name| outside.contains(name))
        } else {
            None
        };
        if assigned.is_some() {
            return Ok(assigned.cloned());
        }
    }
    for constant in &code.consts {
        let Ok(inner) = constant.bind(py).cast::<PyCode>() else { continue };
        if let Some(name) = find_in(py, &cache::unit_of(inner.as_any())?.code, outside)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}
