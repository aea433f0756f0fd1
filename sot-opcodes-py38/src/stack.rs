//! Opcodes that move the stack or do nothing.

use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::opcode;
use sot_core::opcode::{Next, Quiet};

opcode! { NOP [3.8..3.14] ( -- ) .quiet(Quiet::Always) => |_cx, _| Ok(()) }
opcode! { EXTENDED_ARG [3.8..3.14] ( -- ) => |_cx, _| Ok(()) }
opcode! { POP_TOP [3.8..3.14] (_value -- ) .quiet(Quiet::Always) => |_cx, _| Ok(()) }
opcode! { ROT_TWO [3.8..3.11] (below, top -- first, second) .quiet(Quiet::Always) => |_cx, _| Ok([top, below]) }
opcode! { ROT_THREE [3.8..3.11] (..) .quiet(Quiet::Always) => |cx, _| rotate(cx, 3) }
opcode! { ROT_FOUR [3.8..3.11] (..) .quiet(Quiet::Always) => |cx, _| rotate(cx, 4) }
opcode! { ROT_N [3.10..3.11] (..) => |cx, op| rotate(cx, op.arg as usize) }
opcode! { DUP_TOP [3.8..3.11] (value -- first, second) .quiet(Quiet::Always) => |_cx, _| Ok([value, value]) }
opcode! { DUP_TOP_TWO [3.8..3.11] (a, b -- c, d, e, f) => |_cx, _| Ok([a, b, a, b]) }

/// Moves the top of the stack below the `n - 1` items under it.
fn rotate(cx: &mut OpcodeExecutor<'_>, n: usize) -> Flow<Next> {
    let mut items = cx.stack.pop_many(n)?;
    items.rotate_right(1);
    cx.stack.frame_mut().stack.extend(items);
    Ok(Next::Continue)
}
