//! Generators: their frames yield values to whoever runs them and are resumed with the value that is sent.

use sot_core::bytecode::Opcodes;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::opcode;
use sot_core::opcode::{Next, Operand};
use sot_core::variable::VarId;

opcode! { YIELD_VALUE [3.8..3.14] (..) => |cx, _| cx.pop().map(Next::Yield) }
opcode! { GET_YIELD_FROM_ITER [3.8..3.14] (iterable -- iterator) => |cx, _| cx.iter(iterable) }
opcode! { YIELD_FROM [3.8..3.11] (..) => |cx, op| yield_from(cx, op) }
// The value sent to start the generator: None, and not on the stack if the generator was started without one.
opcode! { GEN_START [3.10..3.11] (..) => |cx, _| { cx.frame_mut().stack.pop(); Flow::Ok(Next::Continue) } }

/// The instruction repeats, with the next value sent, until the iterator is exhausted.
fn yield_from(cx: &mut OpcodeExecutor<'_>, op: &Operand) -> Flow<Next> {
    let [iterator, sent] = cx.pop_array()?;
    match send(cx, iterator, sent, 1)? {
        Some(item) => {
            cx.push(iterator);
            cx.frame_mut().pc = op.at;
            Ok(Next::Yield(item))
        }
        None => {
            let result = cx.none();
            cx.push(result);
            Ok(Next::Continue)
        }
    }
}

/// What an iterator yields to a value sent to it; `None` when it is exhausted. Its result is taken to be None: an iterator
/// that may give another breaks the graph, unless the instruction `skip` further on drops the result.
pub fn send(cx: &mut OpcodeExecutor<'_>, iterator: VarId, sent: VarId, skip: u32) -> Flow<Option<VarId>> {
    if !cx.known(sent)?.is_some_and(|sent| sent.is_none()) {
        let text = "a value sent through `yield from`";
        return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
    }
    let item = cx.next(iterator)?;
    if item.is_none() && may_have_result(cx, iterator)? && !drops_result(cx, skip) {
        let text = "the result of `yield from`";
        return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
    }
    Ok(item)
}

fn may_have_result(cx: &mut OpcodeExecutor<'_>, iterator: VarId) -> Flow<bool> {
    let payload = cx.see(iterator)?;
    Ok(matches!(payload.kind(), "generator" | "object" | "instance"))
}

fn drops_result(cx: &OpcodeExecutor<'_>, skip: u32) -> bool {
    let frame = cx.frame();
    let next = frame.code.code.instructions.get((frame.at.0 + skip) as usize);
    next.is_some_and(|next| Opcodes::get(cx.py).name(next.opcode) == "POP_TOP")
}
