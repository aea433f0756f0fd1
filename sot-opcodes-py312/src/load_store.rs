//! Locals and cells that share the slots of the frame (3.11), and the superinstructions on two locals (3.13).
//!
//! A slot that belongs to a cell holds the cell. Only while an inlined comprehension runs (3.12) may it be empty or
//! hold a plain value: then the frame's cell is NULL, and the value, if any, is among the locals.

use std::rc::Rc;

use pyo3::exceptions::{PyNameError, PyUnboundLocalError};
use sot_core::error::{Flow, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::opcode;
use sot_core::opcode::{Access, Quiet};
use sot_core::variable::VarId;
use sot_opcodes_py38::bug;
use sot_opcodes_py38::load_store::{cell_name, delete_deref, load_deref, load_global};
use sot_variables::functions::cell::CellVariable;

opcode! { LOAD_FAST [3.11..3.14] ( -- value) .quiet(Quiet::Always) => |cx, op| load_fast(cx, op.arg) }
opcode! { LOAD_FAST_CHECK [3.12..3.14] ( -- value) .quiet(Quiet::Always) => |cx, op| load_fast(cx, op.arg) }
opcode! {
    LOAD_FAST_AND_CLEAR [3.12..3.14] ( -- value)
        .local(Access::Clear)
        => |cx, op| Ok(load_fast_and_clear(cx, op.arg))
}
opcode! {
    STORE_FAST [3.11..3.14] (value -- )
        .local(Access::Store).quiet(Quiet::Always)
        => |cx, op| store_fast(cx, op.arg, value)
}
opcode! {
    DELETE_FAST [3.11..3.14] ( -- )
        .local(Access::Delete).quiet(Quiet::Always)
        => |cx, op| delete_fast(cx, op.arg)
}

opcode! {
    LOAD_FAST_LOAD_FAST [3.13..3.14] ( -- first, second)
        .two_locals(Access::Load, Access::Load)
        => |cx, op| { let first = load_fast(cx, op.arg >> 4)?; load_fast(cx, op.arg & 15).map(|second| [first, second]) }
}
opcode! {
    STORE_FAST_LOAD_FAST [3.13..3.14] (value -- loaded)
        .two_locals(Access::Store, Access::Load)
        => |cx, op| { store_fast(cx, op.arg >> 4, value)?; load_fast(cx, op.arg & 15) }
}
opcode! {
    STORE_FAST_STORE_FAST [3.13..3.14] (second, first -- )
        .two_locals(Access::Store, Access::Store)
        => |cx, op| { store_fast(cx, op.arg >> 4, first)?; store_fast(cx, op.arg & 15, second) }
}

opcode! { LOAD_GLOBAL [3.11..3.13] (..)
    .quiet(Quiet::GlobalUnwritten).reach(|_| 0).leaves_pair(|arg| arg & 1 != 0)
    => |cx, op| {
    let value = load_global(cx, op.arg >> 1)?;
    Ok(crate::call::push_after_null(cx, value, op.arg & 1 != 0))
} }
opcode! { LOAD_GLOBAL [3.13..3.14] (..)
    .quiet(Quiet::GlobalUnwritten).reach(|_| 0).leaves_pair(|arg| arg & 1 != 0)
    => |cx, op| {
    let value = load_global(cx, op.arg >> 1)?;
    Ok(crate::call::push_before_null(cx, value, op.arg & 1 != 0))
} }

// The frame has its cells before its first instruction, so nothing is to be done.
opcode! { COPY_FREE_VARS [3.11..3.14] ( -- ) => |_cx, _| Ok(()) }
opcode! { MAKE_CELL [3.11..3.14] ( -- ) => |cx, op| make_cell(cx, op.arg) }
opcode! { LOAD_DEREF [3.11..3.14] ( -- value) => |cx, op| load_deref(cx, op.arg, unbound_cell) }
opcode! { DELETE_DEREF [3.11..3.14] ( -- ) => |cx, op| delete_deref(cx, op.arg, unbound_cell) }

fn load_fast(cx: &mut OpcodeExecutor<'_>, slot: u32) -> Flow<VarId> {
    match read(cx, slot) {
        Some(value) => Ok(value),
        None => Err(unbound_slot(cx, slot)),
    }
}

fn load_fast_and_clear(cx: &mut OpcodeExecutor<'_>, slot: u32) -> VarId {
    let value = read(cx, slot);
    clear(cx, slot);
    value.unwrap_or(cx.trace.null())
}

fn delete_fast(cx: &mut OpcodeExecutor<'_>, slot: u32) -> Flow<()> {
    load_fast(cx, slot)?;
    clear(cx, slot);
    Ok(())
}

/// Stores the top of the stack. It is NULL where an unbound local is restored, and a cell where a cell is restored.
fn store_fast(cx: &mut OpcodeExecutor<'_>, slot: u32, value: VarId) -> Flow<()> {
    let Some(index) = cell_index(cx, slot) else {
        return cx.stack.set_local(slot, (value != cx.trace.null()).then_some(value));
    };
    clear(cx, slot);
    if value == cx.trace.null() {
        return Ok(());
    }
    // An open number is not examined, because this would specialise on its value.
    if !cx.trace.guard_type_if_lazy(value) && cx.see_as::<CellVariable>(value)?.is_some() {
        cx.stack.frame_mut().cells[index] = value;
        return Ok(());
    }
    cx.stack.set_local(slot, Some(value))
}

/// The contents of a slot: a plain value, or else a cell.
fn read(cx: &OpcodeExecutor<'_>, slot: u32) -> Option<VarId> {
    cx.stack.local(slot).or_else(|| {
        let cell = cx.stack.frame().cells[cell_index(cx, slot)?];
        (cell != cx.trace.null()).then_some(cell)
    })
}

fn clear(cx: &mut OpcodeExecutor<'_>, slot: u32) {
    if let Some(index) = cell_index(cx, slot) {
        cx.stack.frame_mut().cells[index] = cx.trace.null();
    }
    if let Some(local) = cx.stack.frame_mut().locals.get_mut(slot as usize) {
        *local = None;
    }
}

/// Index of the frame's cell that a slot belongs to.
fn cell_index(cx: &OpcodeExecutor<'_>, slot: u32) -> Option<usize> {
    let frame = cx.stack.frame();
    let index = if frame.cells.is_empty() { None } else { frame.code.code.cell_index(slot) };
    index.filter(|&index| index < frame.cells.len())
}

/// Creates a cell in a slot that an inlined comprehension has cleared. At the start of a frame the cell exists
/// already.
fn make_cell(cx: &mut OpcodeExecutor<'_>, slot: u32) -> Flow<()> {
    let index = cell_index(cx, slot).ok_or_else(|| bug("a cell is made in a slot that is none of a cell"))?;
    if cx.stack.frame().cells[index] == cx.trace.null() {
        let contents = cx.stack.local(slot);
        let cell = cx.trace.produce(Rc::new(CellVariable::new(contents)));
        clear(cx, slot);
        cx.stack.frame_mut().cells[index] = cell;
    }
    Ok(())
}

fn unbound_slot(cx: &mut OpcodeExecutor<'_>, slot: u32) -> Unwind {
    let name = cx.stack.frame().code.code.slot_name(slot).unwrap_or_default().to_owned();
    unbound_local(cx, &name)
}

fn unbound_local(cx: &mut OpcodeExecutor<'_>, name: &str) -> Unwind {
    let text = format!("cannot access local variable '{name}' where it is not associated with a value");
    cx.raise(PyUnboundLocalError::new_err(text))
}

pub(crate) fn unbound_cell(cx: &mut OpcodeExecutor<'_>, index: usize) -> Unwind {
    let (name, free) = cell_name(cx, index);
    if !free {
        return unbound_local(cx, &name);
    }
    let text =
        format!("cannot access free variable '{name}' where it is not associated with a value in enclosing scope");
    cx.raise(PyNameError::new_err(text))
}
