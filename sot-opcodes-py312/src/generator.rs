//! Generators that are created by an instruction (3.11), and `yield from` as a loop.

use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::opcode;
use sot_core::opcode::{Next, Operand, Quiet};
use sot_core::variable::VarId;
use sot_opcodes_py38::generator::send;
use sot_variables::functions::generator::{stop_value, Resumed};

// The generator exists before its frame runs. The next instruction pops the value pushed here, which starts the
// generator.
opcode! { RETURN_GENERATOR [3.11..3.14] ( -- started) => |cx, _| Ok(cx.trace.none()) }
opcode! { SEND [3.11..3.12] (..) => |cx, op| send_or_leave(cx, op) }
opcode! { SEND [3.12..3.14] (..) => |cx, op| send_or_end(cx, op) }
opcode! { END_SEND [3.12..3.14] (_iterator, value -- result) => |_cx, _| Ok(value) }
opcode! {
    CLEANUP_THROW [3.12..3.14] (_iterator, _sent, exception -- none, value)
        .quiet(Quiet::Always)
        => |cx, _| thrown(cx, exception)
}

/// Sends a value. The result of an exhausted iterator replaces the iterator on the stack.
fn send_or_leave(cx: &mut OpcodeExecutor<'_>, op: &Operand) -> Flow<Next> {
    let [iterator, sent] = cx.stack.pop_array()?;
    match send(cx, iterator, sent)? {
        Resumed::Yielded(item) => {
            cx.stack.push(iterator);
            cx.stack.push(item);
            Ok(Next::Continue)
        }
        Resumed::Returned(result) => {
            cx.stack.push(result);
            op.jump().map(Next::Jump)
        }
    }
}

/// Sends a value. The result of an exhausted iterator is pushed above the iterator, for `END_SEND`, which is the jump
/// target.
fn send_or_end(cx: &mut OpcodeExecutor<'_>, op: &Operand) -> Flow<Next> {
    let [iterator, sent] = cx.stack.pop_array()?;
    let resumed = send(cx, iterator, sent)?;
    cx.stack.push(iterator);
    match resumed {
        Resumed::Yielded(item) => {
            cx.stack.push(item);
            Ok(Next::Continue)
        }
        Resumed::Returned(result) => {
            cx.stack.push(result);
            op.jump().map(Next::Jump)
        }
    }
}

/// Handles an exception thrown into a generator that waits for another one. The `StopIteration` of the inner one is
/// no exception.
fn thrown(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<[VarId; 2]> {
    match stop_value(cx, exception)? {
        Some(value) => Ok([cx.trace.none(), value]),
        None => Err(cx.trace.raised.again(exception)),
    }
}
