//! Loops over iterators. They are unrolled: each round is simulated.

use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::opcode;
use sot_core::opcode::{Next, Operand};

opcode! { GET_ITER [3.8..3.14] (iterable -- iterator) => |cx, _| cx.iter(iterable) }
opcode! { FOR_ITER [3.8..3.12] (..) => |cx, op| for_iter(cx, op) }

fn for_iter(cx: &mut OpcodeExecutor<'_>, op: &Operand) -> Flow<Next> {
    let iterator = cx.peek(1)?;
    if let Some(item) = cx.next(iterator)? {
        cx.push(item);
        return Ok(Next::Continue);
    }
    cx.pop()?;
    op.jump().map(Next::Jump)
}
