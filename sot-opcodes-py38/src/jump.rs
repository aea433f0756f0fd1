//! Jumps. A branch on a tensor's value is a graph break.

use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::opcode;
use sot_core::opcode::{BranchTest, Next, Operand, Quiet};
use sot_core::resume::AnswerUse;
use sot_core::variable::VarId;

opcode! { JUMP_FORWARD [3.8..3.14] ( -- ) .quiet(Quiet::Always) => |_cx, op| op.jump().map(Next::Jump) }
opcode! { JUMP_ABSOLUTE [3.8..3.11] ( -- ) .quiet(Quiet::Always) => |_cx, op| op.jump().map(Next::Jump) }
opcode! {
    POP_JUMP_IF_TRUE [3.8..3.11] (value -- )
        .branch(BranchTest::Truth(true)).quiet(Quiet::OfConstant)
        => |cx, op| jump_if(cx, op, value, true)
}
opcode! {
    POP_JUMP_IF_FALSE [3.8..3.11] (value -- )
        .branch(BranchTest::Truth(false)).quiet(Quiet::OfConstant)
        => |cx, op| jump_if(cx, op, value, false)
}
opcode! {
    JUMP_IF_TRUE_OR_POP [3.8..3.12] (..)
        .reach(|_| 1).branch_or_pop(BranchTest::Truth(true))
        => |cx, op| jump_if_or_pop(cx, op, true)
}
opcode! {
    JUMP_IF_FALSE_OR_POP [3.8..3.12] (..)
        .reach(|_| 1).branch_or_pop(BranchTest::Truth(false))
        => |cx, op| jump_if_or_pop(cx, op, false)
}

/// Jumps if the truth of the value is `wanted`.
pub fn jump_if(cx: &mut OpcodeExecutor<'_>, op: &Operand, value: VarId, wanted: bool) -> Flow<Next> {
    jump_if_above(cx, op, value, wanted, Vec::new())
}

fn jump_if_above(
    cx: &mut OpcodeExecutor<'_>,
    op: &Operand,
    value: VarId,
    wanted: bool,
    below: Vec<VarId>,
) -> Flow<Next> {
    cx.claims.truth(value, AnswerUse::Branch, below);
    let truth = cx.truth(value)?;
    jump_when(op, truth == wanted)
}

/// Jumps if a condition holds that is known while tracing.
pub fn jump_when(op: &Operand, condition: bool) -> Flow<Next> {
    if condition {
        return op.jump().map(Next::Jump);
    }
    Ok(Next::Continue)
}

fn jump_if_or_pop(cx: &mut OpcodeExecutor<'_>, op: &Operand, wanted: bool) -> Flow<Next> {
    let value = cx.stack.peek(1)?;
    let next = jump_if_above(cx, op, value, wanted, vec![value])?;
    if next == Next::Continue {
        cx.stack.pop()?;
    }
    Ok(next)
}
