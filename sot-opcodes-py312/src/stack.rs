//! Opcodes that move the stack or do nothing.

use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::opcode;
use sot_core::opcode::{Movement, Next, Quiet};
use sot_opcodes_py38::bug;

opcode! { CACHE [3.11..3.14] (..) => |_cx, _| Ok(Next::Continue) }
opcode! { RESUME [3.11..3.14] ( -- ) => |_cx, _| Ok(()) }
opcode! { PRECALL [3.11..3.12] (..) => |_cx, _| Ok(Next::Continue) }
opcode! { COPY [3.11..3.14] ( -- copy) .quiet(Quiet::Always) => |cx, op| cx.stack.peek(op.arg as usize) }
opcode! { SWAP [3.11..3.14] ( -- ) .moves(Movement::Swap).quiet(Quiet::Always) => |cx, op| swap(cx, op.arg as usize) }
opcode! { PUSH_NULL [3.11..3.14] ( -- null) => |cx, _| Ok(cx.trace.null()) }

/// Swaps the top of the stack with the `n`-th item.
fn swap(cx: &mut OpcodeExecutor<'_>, n: usize) -> Flow<()> {
    cx.stack.peek(n)?;
    let stack = &mut cx.stack.frame_mut().stack;
    let top = stack.len().checked_sub(1).ok_or_else(|| bug("a swap on an empty stack"))?;
    stack.swap(top, top + 1 - n);
    Ok(())
}
