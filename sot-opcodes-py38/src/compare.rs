//! Comparison, identity and membership. In 3.8 all of them, and the matching of exceptions, are operands of one opcode.

use sot_core::bytecode::Opcodes;
use sot_core::error::Flow;
use sot_core::executor::{CompareOp, OpcodeExecutor};
use sot_core::opcode;
use sot_core::opcode::Operand;
use sot_core::variable::VarId;

use crate::bug;

opcode! { COMPARE_OP [3.8..3.9] (lhs, rhs -- result) => |cx, op| compare_or_test(cx, op, lhs, rhs) }
opcode! { COMPARE_OP [3.9..3.13] (lhs, rhs -- result) => |cx, op| compare(cx, op, lhs, rhs) }
opcode! { IS_OP [3.9..3.14] (lhs, rhs -- result) => |cx, op| cx.is_op(lhs, rhs, op.arg == 1) }
opcode! { CONTAINS_OP [3.9..3.14] (item, container -- result) => |cx, op| cx.contains(container, item, op.arg == 1) }

/// The rich comparison that the operand names.
pub fn compare(cx: &mut OpcodeExecutor<'_>, op: &Operand, lhs: VarId, rhs: VarId) -> Flow<VarId> {
    let symbol = symbol(cx, op)?;
    let op = CompareOp::ALL.iter().find(|op| op.symbol() == symbol).ok_or_else(|| bug("an unknown comparison"))?;
    cx.compare(*op, lhs, rhs)
}

fn compare_or_test(cx: &mut OpcodeExecutor<'_>, op: &Operand, lhs: VarId, rhs: VarId) -> Flow<VarId> {
    match symbol(cx, op)? {
        "in" => cx.contains(rhs, lhs, false),
        "not in" => cx.contains(rhs, lhs, true),
        "is" => cx.is_op(lhs, rhs, false),
        "is not" => cx.is_op(lhs, rhs, true),
        "exception match" => {
            let matches = cx.exception_class_matches(lhs, rhs)?;
            Ok(cx.boolean(matches))
        }
        _ => compare(cx, op, lhs, rhs),
    }
}

fn symbol(cx: &OpcodeExecutor<'_>, op: &Operand) -> Flow<&'static str> {
    let opcodes = Opcodes::get(cx.py);
    let index = op.arg >> opcodes.info(op.opcode).shift;
    opcodes.comparisons().get(index as usize).map(String::as_str).ok_or_else(|| bug("an unknown comparison"))
}
