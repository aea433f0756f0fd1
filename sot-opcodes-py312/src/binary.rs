//! The single opcode for all binary and in-place operators, and slices without a slice object.

use sot_core::bytecode::Opcodes;
use sot_core::error::Flow;
use sot_core::executor::{BinaryOp, OpcodeExecutor};
use sot_core::opcode;
use sot_core::variable::VarId;
use sot_opcodes_py38::{binary, bug};
use sot_variables::containers::slice::SliceVariable;

opcode! { BINARY_OP [3.11..3.14] (lhs, rhs -- result) .asks(binary::ARITHMETIC)
=> |cx, op| binary_op(cx, op.arg, lhs, rhs) }
opcode! {
    BINARY_SLICE [3.12..3.14] (object, start, stop -- value) .asks(&["__getitem__"])
        => |cx, _| { let slice = SliceVariable::build(cx, start, stop, None)?; binary::get_item(cx, object, slice) }
}
opcode! {
    STORE_SLICE [3.12..3.14] (value, object, start, stop -- ) .asks(&["__setitem__"])
        => |cx, _| { let slice = SliceVariable::build(cx, start, stop, None)?; binary::set_item(cx, object, slice, value) }
}

fn binary_op(cx: &mut OpcodeExecutor<'_>, number: u32, lhs: VarId, rhs: VarId) -> Flow<VarId> {
    let unknown = || bug("an unknown binary operator");
    let symbol = Opcodes::get(cx.py).operators().get(number as usize).ok_or_else(unknown)?;
    let (symbol, inplace) = match symbol.strip_suffix('=') {
        Some(symbol) => (symbol, true),
        None => (symbol.as_str(), false),
    };
    let op = *BinaryOp::ALL.iter().find(|op| op.symbol() == symbol).ok_or_else(unknown)?;
    if inplace {
        binary::inplace(cx, op, lhs, rhs)
    } else {
        binary::binary(cx, op, lhs, rhs)
    }
}
