//! Constants, locals, cells and globals.

use pyo3::exceptions::{PyNameError, PyUnboundLocalError};
use pyo3::types::PyCode;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::{names, OpcodeExecutor};
use sot_core::opcode;
use sot_core::opcode::{Access, Quiet};
use sot_core::translate;
use sot_core::variable::VarId;
use sot_variables::functions::cell::{self, CellVariable};

use crate::bug;

opcode! { LOAD_CONST [3.8..3.14] ( -- value) .quiet(Quiet::Always) => |cx, op| names::load_const(cx, op.arg) }

opcode! { LOAD_FAST [3.8..3.11] ( -- value) .quiet(Quiet::Always) => |cx, op| names::load_fast(cx, op.arg) }
opcode! {
    STORE_FAST [3.8..3.11] (value -- )
        .local(Access::Store).quiet(Quiet::Always)
        => |cx, op| cx.stack.set_local(op.arg, Some(value))
}
opcode! {
    DELETE_FAST [3.8..3.11] ( -- )
        .local(Access::Delete).quiet(Quiet::Always)
        => |cx, op| delete_fast(cx, op.arg)
}

opcode! { LOAD_GLOBAL [3.8..3.11] ( -- value) .quiet(Quiet::GlobalUnwritten) => |cx, op| load_global(cx, op.arg) }
opcode! { STORE_GLOBAL [3.8..3.14] (value -- ) => |cx, op| store_global(cx, op.arg, Some(value)) }
opcode! { DELETE_GLOBAL [3.8..3.14] ( -- ) => |cx, op| store_global(cx, op.arg, None) }

opcode! { LOAD_CLOSURE [3.8..3.13] ( -- cell) => |cx, op| cx.stack.cell(op.arg) }
opcode! { LOAD_DEREF [3.8..3.11] ( -- value) => |cx, op| load_deref(cx, op.arg, unbound_cell) }
opcode! { STORE_DEREF [3.8..3.14] (value -- ) => |cx, op| store_deref(cx, op.arg, Some(value)) }
opcode! { DELETE_DEREF [3.8..3.11] ( -- ) => |cx, op| delete_deref(cx, op.arg, unbound_cell) }

/// Creates the program's exception for an empty cell.
pub type UnboundCell = fn(&mut OpcodeExecutor<'_>, index: usize) -> Unwind;

fn delete_fast(cx: &mut OpcodeExecutor<'_>, slot: u32) -> Flow<()> {
    names::load_fast(cx, slot)?;
    cx.stack.set_local(slot, None)
}

/// Loads the global or builtin that `co_names[index]` names.
pub fn load_global(cx: &mut OpcodeExecutor<'_>, index: u32) -> Flow<VarId> {
    let name = cx.stack.name(index)?;
    names::load_global(cx, &name)
}

fn store_global(cx: &mut OpcodeExecutor<'_>, index: u32, value: Option<VarId>) -> Flow<()> {
    let name = cx.stack.name(index)?;
    names::set_global(cx, &name, value)
}

/// Loads the contents of the operand's cell.
pub fn load_deref(cx: &mut OpcodeExecutor<'_>, arg: u32, unbound: UnboundCell) -> Flow<VarId> {
    let cell = cx.stack.cell(arg)?;
    let cell = cx.see_as::<CellVariable>(cell)?.ok_or_else(|| bug("a slot for a cell holds something else"))?;
    match cell.contents() {
        Some(value) => Ok(value),
        None => Err(unbound_at(cx, arg, unbound)),
    }
}

/// Stores a value into the operand's cell, or empties the cell.
pub fn store_deref(cx: &mut OpcodeExecutor<'_>, arg: u32, value: Option<VarId>) -> Flow<()> {
    let cell = cx.stack.cell(arg)?;
    cx.see(cell)?;
    cell::write(cx, cell, value);
    Ok(())
}

/// Empties the operand's cell. Raises if it is empty already.
pub fn delete_deref(cx: &mut OpcodeExecutor<'_>, arg: u32, unbound: UnboundCell) -> Flow<()> {
    load_deref(cx, arg, unbound)?;
    store_deref(cx, arg, None)
}

fn unbound_at(cx: &mut OpcodeExecutor<'_>, arg: u32, unbound: UnboundCell) -> Unwind {
    match cx.stack.frame().code.code.cell_index(arg) {
        Some(index) => unbound(cx, index),
        None => bug("an instruction names a cell that the code does not have"),
    }
}

fn unbound_cell(cx: &mut OpcodeExecutor<'_>, index: usize) -> Unwind {
    let (name, free) = cell_name(cx, index);
    if free {
        let text = format!("free variable '{name}' referenced before assignment in enclosing scope");
        return cx.raise(PyNameError::new_err(text));
    }
    cx.raise(PyUnboundLocalError::new_err(format!("local variable '{name}' referenced before assignment")))
}

/// Returns the name of a cell, and whether it belongs to an enclosing function.
pub fn cell_name(cx: &mut OpcodeExecutor<'_>, index: usize) -> (String, bool) {
    let code = &cx.stack.frame().code.code;
    let name = code.cellvars.iter().chain(&code.freevars).nth(index).cloned().unwrap_or_default();
    let object = cx.stack.frame().code.object.bind(cx.py).cast::<PyCode>().ok();
    let resumed = object.and_then(translate::own_cells_of);
    let free = index >= resumed.unwrap_or(code.cellvars.len());
    if resumed.is_some() && !free {
        cx.note_empty_own_cell();
    }
    (name, free)
}
