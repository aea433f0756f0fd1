//! Jumps: named by their direction in 3.11, and branches on None.

use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::opcode;
use sot_core::opcode::{BranchTest, Native, Next, Operand, Quiet};
use sot_core::variable::VarId;
use sot_opcodes_py38::jump::{jump_if, jump_when};

opcode! { JUMP_BACKWARD [3.11..3.14] ( -- ) => |_cx, op| op.jump().map(Next::Jump) }
opcode! { JUMP_BACKWARD_NO_INTERRUPT [3.11..3.14] ( -- ) => |_cx, op| op.jump().map(Next::Jump) }

opcode! {
    POP_JUMP_FORWARD_IF_TRUE [3.11..3.12] (value -- )
        .branch(BranchTest::Truth(true)).quiet(Quiet::OfConstant)
        => |cx, op| jump_if(cx, op, value, true)
}
opcode! {
    POP_JUMP_FORWARD_IF_FALSE [3.11..3.12] (value -- )
        .branch(BranchTest::Truth(false)).quiet(Quiet::OfConstant)
        => |cx, op| jump_if(cx, op, value, false)
}
opcode! {
    POP_JUMP_FORWARD_IF_NONE [3.11..3.12] (value -- )
        .branch(BranchTest::IsNone(true)).quiet(Quiet::OfConstant)
        => |cx, op| jump_if_none(cx, op, value, true)
}
opcode! {
    POP_JUMP_FORWARD_IF_NOT_NONE [3.11..3.12] (value -- )
        .branch(BranchTest::IsNone(false)).quiet(Quiet::OfConstant)
        => |cx, op| jump_if_none(cx, op, value, false)
}
opcode! {
    POP_JUMP_BACKWARD_IF_TRUE [3.11..3.12] (value -- )
        .branch(BranchTest::Truth(true)).quiet(Quiet::OfConstant).native(Native::As("POP_JUMP_FORWARD_IF_TRUE"))
        => |cx, op| jump_if(cx, op, value, true)
}
opcode! {
    POP_JUMP_BACKWARD_IF_FALSE [3.11..3.12] (value -- )
        .branch(BranchTest::Truth(false)).quiet(Quiet::OfConstant).native(Native::As("POP_JUMP_FORWARD_IF_FALSE"))
        => |cx, op| jump_if(cx, op, value, false)
}
opcode! {
    POP_JUMP_BACKWARD_IF_NONE [3.11..3.12] (value -- )
        .branch(BranchTest::IsNone(true)).quiet(Quiet::OfConstant).native(Native::As("POP_JUMP_FORWARD_IF_NONE"))
        => |cx, op| jump_if_none(cx, op, value, true)
}
opcode! {
    POP_JUMP_BACKWARD_IF_NOT_NONE [3.11..3.12] (value -- )
        .branch(BranchTest::IsNone(false)).quiet(Quiet::OfConstant).native(Native::As("POP_JUMP_FORWARD_IF_NOT_NONE"))
        => |cx, op| jump_if_none(cx, op, value, false)
}

opcode! {
    POP_JUMP_IF_TRUE [3.12..3.14] (value -- )
        .branch(BranchTest::Truth(true)).quiet(Quiet::OfConstant)
        => |cx, op| jump_if(cx, op, value, true)
}
opcode! {
    POP_JUMP_IF_FALSE [3.12..3.14] (value -- )
        .branch(BranchTest::Truth(false)).quiet(Quiet::OfConstant)
        => |cx, op| jump_if(cx, op, value, false)
}
opcode! {
    POP_JUMP_IF_NONE [3.12..3.14] (value -- )
        .branch(BranchTest::IsNone(true)).quiet(Quiet::OfConstant)
        => |cx, op| jump_if_none(cx, op, value, true)
}
opcode! {
    POP_JUMP_IF_NOT_NONE [3.12..3.14] (value -- )
        .branch(BranchTest::IsNone(false)).quiet(Quiet::OfConstant)
        => |cx, op| jump_if_none(cx, op, value, false)
}

fn jump_if_none(cx: &mut OpcodeExecutor<'_>, op: &Operand, value: VarId, wanted: bool) -> Flow<Next> {
    let none = cx.trace.none();
    let is_none = cx.is_same(value, none)?;
    jump_when(op, is_none == wanted)
}
