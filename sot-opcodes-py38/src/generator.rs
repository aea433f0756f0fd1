//! Generators: their frames yield values to the caller that resumes them, and receive the value that the caller
//! sends.

use pyo3::prelude::*;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, OpcodeExecutor};
use sot_core::opcode;
use sot_core::opcode::{Next, Operand, Quiet};
use sot_core::variable::{Form, VarId};
use sot_variables::functions::generator::{self, GeneratorVariable, Resumed};

opcode! { YIELD_VALUE [3.8..3.14] (..) .quiet(Quiet::Always) => |cx, _| cx.stack.pop().map(Next::Yield) }
opcode! { GET_YIELD_FROM_ITER [3.8..3.14] (iterable -- iterator) => |cx, _| cx.iter(iterable) }
opcode! { YIELD_FROM [3.8..3.11] (..) => |cx, op| yield_from(cx, op) }
// Pops the value sent to start the generator: None. It is not on the stack if the generator was started without one.
opcode! { GEN_START [3.10..3.11] (..) => |cx, _| { cx.stack.frame_mut().stack.pop(); Ok(Next::Continue) } }

/// Repeats the instruction, with the next value sent, until the iterator is exhausted.
fn yield_from(cx: &mut OpcodeExecutor<'_>, op: &Operand) -> Flow<Next> {
    let [iterator, sent] = cx.stack.pop_array()?;
    match send(cx, iterator, sent)? {
        Resumed::Yielded(item) => {
            cx.stack.push(iterator);
            cx.stack.frame_mut().pc = op.at;
            Ok(Next::Yield(item))
        }
        Resumed::Returned(result) => {
            cx.stack.push(result);
            Ok(Next::Continue)
        }
    }
}

/// Sends a value to an iterator, and returns the outcome. Breaks the graph if the result of an exhausted iterator is
/// not known.
pub fn send(cx: &mut OpcodeExecutor<'_>, iterator: VarId, sent: VarId) -> Flow<Resumed> {
    if cx.see_as::<GeneratorVariable>(iterator)?.is_some() {
        return generator::send(cx, iterator, sent);
    }
    if !cx.known(sent)?.is_some_and(|sent| sent.is_none()) {
        let yielded = cx.call_method(iterator, "send", &[sent]);
        return generator::resumed(cx, yielded);
    }
    if object_model::is_python_method(cx, iterator, "__next__")? {
        let yielded = object_model::call_special(cx, iterator, "__next__", &[]);
        return generator::resumed(cx, yielded);
    }
    match cx.next_or_raise(iterator) {
        Ok(Some(item)) => return Ok(Resumed::Yielded(item)),
        Ok(None) => {}
        Err(unwind) => return generator::resumed(cx, Err(unwind)),
    }
    if matches!(cx.see(iterator)?.form(), Form::Object | Form::Instance) {
        return Err(refuse("the result of `yield from` an iterator of C code"));
    }
    Ok(Resumed::Returned(cx.trace.none()))
}

fn refuse(what: &str) -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedOperation, what)
}
