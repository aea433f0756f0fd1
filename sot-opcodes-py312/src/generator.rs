//! Generators since they are made by an instruction of their own (3.11), and `yield from` as a loop.

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyType;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::opcode;
use sot_core::opcode::{Next, Operand};
use sot_core::variable::VarId;
use sot_opcodes_py38::generator::send;

// The generator is there before its frame runs: what the next instruction pops is the value that starts it.
opcode! { RETURN_GENERATOR [3.11..3.14] ( -- started) => |cx, _| Flow::Ok(cx.none()) }
opcode! { SEND [3.11..3.12] (..) => |cx, op| send_or_leave(cx, op) }
opcode! { SEND [3.12..3.14] (..) => |cx, op| send_or_end(cx, op) }
opcode! { END_SEND [3.12..3.14] (_iterator, value -- result) => |_cx, _| Flow::Ok(value) }
opcode! { CLEANUP_THROW [3.12..3.14] (_iterator, _sent, exception -- none, value) => |cx, _| thrown(cx, exception) }

/// On exhaustion the result takes the place of the iterator.
fn send_or_leave(cx: &mut OpcodeExecutor<'_>, op: &Operand) -> Flow<Next> {
    let [iterator, sent] = cx.pop_array()?;
    let target = op.jump()?;
    if let Some(item) = send(cx, iterator, sent, target.0 - op.at.0)? {
        cx.push(iterator);
        cx.push(item);
        return Ok(Next::Continue);
    }
    let result = cx.none();
    cx.push(result);
    Ok(Next::Jump(target))
}

/// On exhaustion the result is above the iterator, for `END_SEND` at the target.
fn send_or_end(cx: &mut OpcodeExecutor<'_>, op: &Operand) -> Flow<Next> {
    let [iterator, sent] = cx.pop_array()?;
    let target = op.jump()?;
    let item = send(cx, iterator, sent, target.0 + 1 - op.at.0)?;
    cx.push(iterator);
    if let Some(item) = item {
        cx.push(item);
        return Ok(Next::Continue);
    }
    let result = cx.none();
    cx.push(result);
    Ok(Next::Jump(target))
}

/// An exception thrown into a generator that waits for another one.
fn thrown(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<[VarId; 2]> {
    let class = cx.type_of(exception)?;
    let stop = cx.py.get_type::<PyStopIteration>();
    if class.cast::<PyType>().is_ok_and(|class| class.mro().iter().any(|base| base.is(&stop))) {
        let text = "StopIteration thrown into a generator";
        return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
    }
    Err(Unwind::Raise(exception))
}
