//! Binary and in-place operators, and subscripts. From 3.11 on, all operators share one opcode.

use sot_core::error::Flow;
use sot_core::executor::{BinaryOp, OpcodeExecutor};
use sot_core::opcode;
use sot_core::resume::Finish;
use sot_core::variable::VarId;

/// The special methods of binary and in-place operators.
pub const ARITHMETIC: &[&str] = &[
    "__add__",
    "__radd__",
    "__iadd__",
    "__sub__",
    "__rsub__",
    "__isub__",
    "__mul__",
    "__rmul__",
    "__imul__",
    "__truediv__",
    "__rtruediv__",
    "__itruediv__",
    "__floordiv__",
    "__rfloordiv__",
    "__mod__",
    "__rmod__",
    "__pow__",
    "__rpow__",
    "__matmul__",
    "__rmatmul__",
    "__and__",
    "__rand__",
    "__or__",
    "__ror__",
    "__xor__",
    "__rxor__",
    "__lshift__",
    "__rlshift__",
    "__rshift__",
    "__rrshift__",
];

macro_rules! operators {
    ($($op:ident: $binary:ident $inplace:ident;)+) => {$(
        opcode! { $binary [3.8..3.11] (lhs, rhs -- result) .asks(ARITHMETIC)
            => |cx, _| binary(cx, BinaryOp::$op, lhs, rhs) }
        opcode! { $inplace [3.8..3.11] (lhs, rhs -- result) .asks(ARITHMETIC)
            => |cx, _| inplace(cx, BinaryOp::$op, lhs, rhs) }
    )+};
}

operators! {
    Add: BINARY_ADD INPLACE_ADD;
    And: BINARY_AND INPLACE_AND;
    FloorDivide: BINARY_FLOOR_DIVIDE INPLACE_FLOOR_DIVIDE;
    LeftShift: BINARY_LSHIFT INPLACE_LSHIFT;
    MatrixMultiply: BINARY_MATRIX_MULTIPLY INPLACE_MATRIX_MULTIPLY;
    Multiply: BINARY_MULTIPLY INPLACE_MULTIPLY;
    Remainder: BINARY_MODULO INPLACE_MODULO;
    Or: BINARY_OR INPLACE_OR;
    Power: BINARY_POWER INPLACE_POWER;
    RightShift: BINARY_RSHIFT INPLACE_RSHIFT;
    Subtract: BINARY_SUBTRACT INPLACE_SUBTRACT;
    TrueDivide: BINARY_TRUE_DIVIDE INPLACE_TRUE_DIVIDE;
    Xor: BINARY_XOR INPLACE_XOR;
}

opcode! { BINARY_SUBSCR [3.8..3.14] (object, key -- value) .asks(&["__getitem__"])
=> |cx, _| get_item(cx, object, key) }
opcode! {
    STORE_SUBSCR [3.8..3.14] (value, object, key -- ) .asks(&["__setitem__"])
        => |cx, _| set_item(cx, object, key, value)
}
opcode! { DELETE_SUBSCR [3.8..3.14] (object, key -- ) => |cx, _| {
    cx.claims.direct(object, Finish::Drop);
    cx.del_item(object, key)
} }

/// Simulates `lhs op rhs` for an instruction that does only this.
pub fn binary(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, lhs: VarId, rhs: VarId) -> Flow<VarId> {
    cx.claims.operator((op, false).into(), lhs, rhs);
    cx.binary(op, lhs, rhs)
}

/// Simulates `lhs op= rhs` for an instruction that does only this.
pub fn inplace(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, lhs: VarId, rhs: VarId) -> Flow<VarId> {
    cx.claims.operator((op, true).into(), lhs, rhs);
    cx.inplace(op, lhs, rhs)
}

/// Simulates `object[key]` for an instruction that does only this.
pub fn get_item(cx: &mut OpcodeExecutor<'_>, object: VarId, key: VarId) -> Flow<VarId> {
    cx.claims.direct(object, Finish::Keep);
    cx.get_item(object, key)
}

/// Simulates `object[key] = value` for an instruction that does only this.
pub fn set_item(cx: &mut OpcodeExecutor<'_>, object: VarId, key: VarId, value: VarId) -> Flow<()> {
    cx.claims.direct(object, Finish::Drop);
    cx.set_item(object, key, value)
}
