//! Loops over iterators. They are unrolled: each iteration is simulated.

use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::opcode;
use sot_core::opcode::{AtBreak, Movement, Next, Operand};
use sot_core::resume::Finish;
use sot_core::variable::VarId;

/// The special methods that an instruction may call to take the items of an operand.
pub const ITERATION: &[&str] = &["__iter__", "__getitem__", "__len__"];

opcode! { GET_ITER [3.8..3.14] (iterable -- iterator) .asks(ITERATION) => |cx, _| get_iter(cx, iterable) }
opcode! {
    FOR_ITER [3.8..3.12] (..)
        .reach(|_| 1).at_break(AtBreak::Advance).moves(Movement::Advance)
        => |cx, op| for_iter(cx, op)
}

fn get_iter(cx: &mut OpcodeExecutor<'_>, iterable: VarId) -> Flow<VarId> {
    cx.claims.direct(iterable, Finish::Keep);
    cx.iter(iterable)
}

/// Returns the next item of the iterator on top of the stack.
pub fn next_item(cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
    let iterator = cx.stack.peek(1)?;
    cx.claims.above(iterator, Finish::Next, vec![iterator]);
    cx.next(iterator)
}

fn for_iter(cx: &mut OpcodeExecutor<'_>, op: &Operand) -> Flow<Next> {
    if let Some(item) = next_item(cx)? {
        cx.stack.push(item);
        return Ok(Next::Continue);
    }
    cx.stack.pop()?;
    op.jump().map(Next::Jump)
}
