//! Binary and in-place operators, and subscripts. Since 3.11 the operators are operands of one opcode.

use sot_core::executor::BinaryOp;
use sot_core::opcode;

macro_rules! operators {
    ($($op:ident: $binary:ident $inplace:ident;)+) => {$(
        opcode! { $binary [3.8..3.11] (lhs, rhs -- result) => |cx, _| cx.binary(BinaryOp::$op, lhs, rhs) }
        opcode! { $inplace [3.8..3.11] (lhs, rhs -- result) => |cx, _| cx.inplace(BinaryOp::$op, lhs, rhs) }
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

opcode! { BINARY_SUBSCR [3.8..3.14] (object, key -- value) => |cx, _| cx.get_item(object, key) }
opcode! { STORE_SUBSCR [3.8..3.14] (value, object, key -- ) => |cx, _| cx.set_item(object, key, value) }
opcode! { DELETE_SUBSCR [3.8..3.14] (object, key -- ) => |cx, _| cx.del_item(object, key) }
