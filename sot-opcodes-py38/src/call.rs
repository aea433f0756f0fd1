//! Calls. Before 3.11 each form of call has its own opcode.

use std::rc::Rc;

use sot_core::error::Flow;
use sot_core::executor::{CallArgs, Name, OpcodeExecutor};
use sot_core::opcode;
use sot_core::opcode::{Movement, Native, Next};
use sot_core::variable::VarId;

use sot_variables::classes::exception;

use crate::bug;

opcode! {
    CALL_FUNCTION [3.8..3.11] (callable, [args] -- result)
        .moves(Movement::Call)
        => |cx, _| cx.call_directly(callable, &CallArgs::positional(args))
}
opcode! {
    CALL_FUNCTION_KW [3.8..3.11] (..)
        .reach(|arg| arg + 2).moves(Movement::Call)
        => |cx, op| call_function_kw(cx, op.arg)
}
opcode! {
    CALL_FUNCTION_EX [3.8..3.11] (..)
        .moves(Movement::Call).reach(|flags| 2 + (flags & 1))
        => |cx, op| call_function_ex(cx, op.arg)
}
opcode! {
    CALL_METHOD [3.8..3.11] (first, second, [args] -- result)
        .native(Native::Call).moves(Movement::Call)
        => |cx, _| call_pair(cx, first, second, &CallArgs::positional(args))
}

fn call_function_kw(cx: &mut OpcodeExecutor<'_>, count: u32) -> Flow<Next> {
    let names = cx.stack.pop()?;
    let names = names_in(cx, names)?;
    let items = cx.stack.pop_many(count as usize)?;
    let args = CallArgs::split(items, names).ok_or_else(|| bug("a call with more names than arguments"))?;
    let callable = cx.stack.pop()?;
    let result = cx.call_directly(callable, &args)?;
    cx.stack.push(result);
    Ok(Next::Continue)
}

fn call_function_ex(cx: &mut OpcodeExecutor<'_>, flags: u32) -> Flow<Next> {
    let (args, kwargs) = pop_packed(cx, flags)?;
    let callable = cx.stack.pop()?;
    call_packed(cx, callable, args, kwargs)
}

/// `callable(*args, **kwargs)`
pub fn call_packed(cx: &mut OpcodeExecutor<'_>, callable: VarId, args: VarId, kwargs: Option<VarId>) -> Flow<Next> {
    let result = cx.call_packed(callable, args, kwargs)?;
    exception::keep_given(cx, callable, result, args)?;
    cx.stack.push(result);
    Ok(Next::Continue)
}

/// Pops the packed arguments of a call: the positional ones, and the keywords if the flags say so.
pub fn pop_packed(cx: &mut OpcodeExecutor<'_>, flags: u32) -> Flow<(VarId, Option<VarId>)> {
    let kwargs = if flags & 1 != 0 { Some(cx.stack.pop()?) } else { None };
    Ok((cx.stack.pop()?, kwargs))
}

/// Calls the pair in two stack slots: a callable and NULL in either order, or a method and its receiver.
pub fn call_pair(cx: &mut OpcodeExecutor<'_>, first: VarId, second: VarId, args: &CallArgs) -> Flow<VarId> {
    let null = cx.trace.null();
    match (first == null, second == null) {
        (true, _) => cx.call_directly(second, args),
        (_, true) => cx.call_directly(first, args),
        _ => cx.call_directly(first, &args.with_receiver(second)),
    }
}

/// Returns the strings in a tuple of keyword names.
pub fn names_in(cx: &mut OpcodeExecutor<'_>, tuple: VarId) -> Flow<Vec<Name>> {
    let mut names = Vec::new();
    for item in cx.unpack_all(tuple)? {
        let name = cx.known_str(item)?.ok_or_else(|| bug("a keyword name that is not a string"))?;
        names.push(Rc::from(name));
    }
    Ok(names)
}
