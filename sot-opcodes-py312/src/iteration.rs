//! Loops whose exhausted iterator stays on the stack with one more item, both for `END_FOR` (3.12). CPython pops both
//! and jumps past `END_FOR`, with the same effect.

use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::opcode;
use sot_core::opcode::{AtBreak, Movement, Next, Operand};
use sot_opcodes_py38::iteration::next_item;

opcode! {
    FOR_ITER [3.12..3.14] (..)
        .reach(|_| 1).at_break(AtBreak::Advance).moves(Movement::Advance)
        => |cx, op| for_iter(cx, op)
}
opcode! { END_FOR [3.12..3.13] (_iterator, _item -- ) => |_cx, _| Ok(()) }
opcode! { END_FOR [3.13..3.14] (_item -- ) => |_cx, _| Ok(()) }

fn for_iter(cx: &mut OpcodeExecutor<'_>, op: &Operand) -> Flow<Next> {
    if let Some(item) = next_item(cx)? {
        cx.stack.push(item);
        return Ok(Next::Continue);
    }
    let item = cx.trace.none();
    cx.stack.push(item);
    op.jump().map(Next::Jump)
}
