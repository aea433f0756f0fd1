//! `with`: entering a context manager, and leaving it with or without an exception.

use std::rc::Rc;

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::{object_model, BookkeepingVariable, CallArgs, OpcodeExecutor};
use sot_core::opcode;
use sot_core::opcode::{AtBreak, Movement, Next, Operand};
use sot_core::resume::Finish;
use sot_core::variable::VarId;

use crate::bug;
use crate::exception::{entry_of, FinallyEntry};

opcode! {
    SETUP_WITH [3.8..3.11] (..)
        .reach(|_| 1).at_break(AtBreak::EnterWith).moves(Movement::EnterWith)
        => |cx, op| setup_with(cx, op)
}
opcode! {
    WITH_EXCEPT_START [3.9..3.11] (..)
        .reach(|_| 0).at_break(AtBreak::ExitWith)
        => |cx, _| { let (exit, exception) = (cx.stack.peek(7)?, cx.stack.peek(2)?); ask_exit(cx, exit, exception) }
}
opcode! {
    WITH_CLEANUP_START [3.8..3.9] (..)
        .reach(|_| 2).at_break(AtBreak::CleanUp).moves(Movement::Counted { next: 1, jump: 1 })
        => |cx, _| with_cleanup_start(cx)
}
opcode! { WITH_CLEANUP_FINISH [3.8..3.9] (..) => |cx, _| with_cleanup_finish(cx) }

/// Creates the program's exception for a missing method of the protocol.
pub type MissingMethod = fn(&mut OpcodeExecutor<'_>, manager: VarId, method: &str) -> Unwind;

/// Returns `type(manager).__exit__`, bound, and the result of `__enter__`. `finish` says what the instruction does
/// with that result.
pub fn enter(cx: &mut OpcodeExecutor<'_>, manager: VarId, finish: Finish, missing: MissingMethod) -> Flow<[VarId; 2]> {
    let enter = method(cx, manager, "__enter__", missing)?;
    let exit = method(cx, manager, "__exit__", missing)?;
    cx.claims.above(enter, finish, vec![exit]);
    let result = cx.call(enter, &CallArgs::default())?;
    Ok([exit, result])
}

fn method(cx: &mut OpcodeExecutor<'_>, manager: VarId, name: &str, missing: MissingMethod) -> Flow<VarId> {
    match cx.special_method(manager, name)? {
        Some(method) => Ok(method),
        None => Err(missing(cx, manager, name)),
    }
}

fn setup_with(cx: &mut OpcodeExecutor<'_>, op: &Operand) -> Flow<Next> {
    let manager = cx.stack.pop()?;
    let missing: MissingMethod = |cx, _, method| cx.raise(PyAttributeError::new_err(method.to_owned()));
    let [exit, result] = enter(cx, manager, Finish::Begin, missing)?;
    cx.stack.push(exit);
    cx.stack.push_block(op.target.ok_or_else(|| bug("a `with` without a handler"))?);
    cx.stack.push(result);
    Ok(Next::Continue)
}

/// Pushes the result of `__exit__` for an exception, for an instruction that does only this.
pub fn ask_exit(cx: &mut OpcodeExecutor<'_>, exit: VarId, exception: VarId) -> Flow<Next> {
    cx.claims.direct(exit, Finish::Keep);
    push_exit_result(cx, exit, exception)
}

fn push_exit_result(cx: &mut OpcodeExecutor<'_>, exit: VarId, exception: VarId) -> Flow<Next> {
    let class = object_model::type_variable(cx, exception)?;
    let traceback = cx.trace.traceback(exception);
    let result = cx.call(exit, &CallArgs::positional(vec![class, exception, traceback]))?;
    cx.stack.push(result);
    Ok(Next::Continue)
}

/// Calls `__exit__` and removes it from the stack, where it is below the items that tell how the cleanup was entered.
fn with_cleanup_start(cx: &mut OpcodeExecutor<'_>) -> Flow<Next> {
    let top = cx.stack.peek(1)?;
    if entry_of(&cx.trace, top) != FinallyEntry::Raised {
        let [exit, entry] = cx.stack.pop_array()?;
        let none = cx.trace.none();
        cx.claims.above(exit, Finish::Keep, vec![entry, none]);
        let result = cx.call(exit, &CallArgs::positional(vec![none, none, none]))?;
        cx.stack.frame_mut().stack.extend([entry, none, result]);
        return Ok(Next::Continue);
    }
    let (class, exception) = (top, cx.stack.peek(2)?);
    close_gap(cx)?;
    let exit = cx.stack.pop()?;
    restack(cx)?;
    cx.stack.push(class);
    push_exit_result(cx, exit, exception)
}

/// Moves `__exit__` from below the two triples of an exception to the top of the stack.
fn close_gap(cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
    let mut items = cx.stack.pop_many(7)?;
    items.rotate_left(1);
    cx.stack.frame_mut().stack.extend(items);
    Ok(())
}

/// Pushes a filler between the two triples, the lower of which is now one place lower, and adapts the handler's
/// block.
fn restack(cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
    let raised = cx.stack.pop_many(3)?;
    let gap = cx.trace.produce(Rc::new(BookkeepingVariable::NormalEntry));
    let frame = cx.stack.frame_mut();
    frame.stack.push(gap);
    frame.stack.extend(raised);
    let (Some(block), Some(handled)) = (frame.blocks.last_mut(), frame.handled.last_mut()) else {
        return Err(bug("an exception without a handler's block"));
    };
    block.depth -= 1;
    handled.depth -= 1;
    Ok(())
}

/// Drops the exception if the result of `__exit__` is true.
fn with_cleanup_finish(cx: &mut OpcodeExecutor<'_>) -> Flow<Next> {
    let [class, result] = cx.stack.pop_array()?;
    let raised = !cx.known(class)?.is_some_and(|class| class.is_none());
    if raised && cx.truth(result)? {
        cx.stack.abandon_handler()?;
        let normal_entry = cx.trace.produce(Rc::new(BookkeepingVariable::NormalEntry));
        cx.stack.push(normal_entry);
    }
    Ok(Next::Continue)
}
