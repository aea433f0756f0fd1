//! Unary operators.

use sot_core::error::Flow;
use sot_core::executor::{OpcodeExecutor, UnaryOp};
use sot_core::opcode;
use sot_core::resume::{Finish, SpecialResultUse};
use sot_core::variable::VarId;

opcode! { UNARY_POSITIVE [3.8..3.12] (value -- result) => |cx, _| unary(cx, UnaryOp::Positive, value) }
opcode! { UNARY_NEGATIVE [3.8..3.14] (value -- result) .asks(&["__neg__"])
=> |cx, _| unary(cx, UnaryOp::Negative, value) }
opcode! { UNARY_INVERT [3.8..3.14] (value -- result) .asks(&["__invert__"])
=> |cx, _| unary(cx, UnaryOp::Invert, value) }
opcode! { UNARY_NOT [3.8..3.14] (value -- result) => |cx, _| not(cx, value) }

fn not(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<VarId> {
    cx.claims.truth(value, SpecialResultUse::Not, Vec::new());
    cx.not(value)
}

fn unary(cx: &mut OpcodeExecutor<'_>, op: UnaryOp, operand: VarId) -> Flow<VarId> {
    cx.claims.direct(operand, Finish::Keep);
    cx.unary(op, operand)
}
