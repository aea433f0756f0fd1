//! Calls whose callable takes two stack slots: the NULL is first in 3.11 and 3.12, and second in 3.13.

use std::rc::Rc;

use pyo3::prelude::*;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{names, CallArgs, Name, OpcodeExecutor};
use sot_core::opcode;
use sot_core::opcode::{Movement, Native, Next};
use sot_core::variable::VarId;
use sot_opcodes_py38::bug;
use sot_opcodes_py38::call::{call_packed, call_pair, names_in, pop_packed};

opcode! { KW_NAMES [3.11..3.13] ( -- ) => |cx, op| keyword_names(cx, op.arg) }
// CPython 3.11 counts the items that `CALL` pops as the effect of `PRECALL`.
opcode! {
    CALL [3.11..3.12] (..)
        .native(Native::Call).moves(Movement::Call).reach(|arg| arg + 2).leaves(|_| 1)
        => |cx, op| call_from_stack(cx, op.arg)
}
opcode! {
    CALL [3.12..3.14] (first, second, [items] -- result)
        .native(Native::Call).moves(Movement::Call)
        => |cx, _| call(cx, first, second, items)
}
opcode! { CALL_KW [3.13..3.14] (..) .reach(|arg| arg + 3).moves(Movement::Call) => |cx, op| call_kw(cx, op.arg) }
opcode! {
    CALL_FUNCTION_EX [3.11..3.14] (..)
        .moves(Movement::Call).reach(|flags| 3 + (flags & 1))
        => |cx, op| call_function_ex(cx, op.arg)
}

/// Pushes a value. If it is about to be called, the NULL of the call is pushed before it (up to 3.12).
pub(crate) fn push_after_null(cx: &mut OpcodeExecutor<'_>, value: VarId, is_call: bool) -> Next {
    if is_call {
        let null = cx.trace.null();
        cx.stack.push(null);
    }
    cx.stack.push(value);
    Next::Continue
}

/// Pushes a value. If it is about to be called, the NULL of the call is pushed after it (from 3.13 on).
pub(crate) fn push_before_null(cx: &mut OpcodeExecutor<'_>, value: VarId, is_call: bool) -> Next {
    cx.stack.push(value);
    if is_call {
        let null = cx.trace.null();
        cx.stack.push(null);
    }
    Next::Continue
}

fn keyword_names(cx: &mut OpcodeExecutor<'_>, index: u32) -> Flow<()> {
    let names = names::load_const(cx, index)?;
    let names = names_in(cx, names)?;
    cx.stack.frame_mut().keyword_names = Some(names);
    Ok(())
}

fn call_from_stack(cx: &mut OpcodeExecutor<'_>, count: u32) -> Flow<Next> {
    let items = cx.stack.pop_many(count as usize)?;
    let [first, second] = cx.stack.pop_array()?;
    let result = call(cx, first, second, items)?;
    cx.stack.push(result);
    Ok(Next::Continue)
}

fn call(cx: &mut OpcodeExecutor<'_>, first: VarId, second: VarId, items: Vec<VarId>) -> Flow<VarId> {
    let names = cx.stack.frame_mut().keyword_names.take().unwrap_or_default();
    call_with_names(cx, first, second, items, names)
}

fn call_with_names(
    cx: &mut OpcodeExecutor<'_>,
    first: VarId,
    second: VarId,
    items: Vec<VarId>,
    names: Vec<Name>,
) -> Flow<VarId> {
    let args = CallArgs::split(items, names).ok_or_else(|| bug("a call with more names than arguments"))?;
    call_pair(cx, first, second, &args)
}

fn call_kw(cx: &mut OpcodeExecutor<'_>, count: u32) -> Flow<Next> {
    let names = cx.stack.pop()?;
    let names = names_in(cx, names)?;
    let items = cx.stack.pop_many(count as usize)?;
    let [first, second] = cx.stack.pop_array()?;
    let result = call_with_names(cx, first, second, items, names)?;
    cx.stack.push(result);
    Ok(Next::Continue)
}

fn call_function_ex(cx: &mut OpcodeExecutor<'_>, flags: u32) -> Flow<Next> {
    let (args, kwargs) = pop_packed(cx, flags)?;
    let [first, second] = cx.stack.pop_array()?;
    let callable = if first == cx.trace.null() { second } else { first };
    call_packed(cx, callable, args, kwargs)
}

/// Reads `object.name` of a `super()` call, with the object and the class that the compiler provides (3.12).
pub(crate) fn super_attr(
    cx: &mut OpcodeExecutor<'_>,
    callable: VarId,
    class: VarId,
    this: VarId,
    arg: u32,
) -> Flow<VarId> {
    let has_arguments = arg & 2 != 0;
    let is_super = cx.see(callable)?.object().is_some_and(|object| {
        cpython::import(cx.py, "builtins")
            .and_then(|builtins| builtins.getattr("super"))
            .is_ok_and(|real| real.is(object))
    });
    let args = if is_super || has_arguments { vec![class, this] } else { Vec::new() };
    let object = cx.call(callable, &CallArgs::positional(args))?;
    let name: Rc<str> = cx.stack.name(arg >> 2)?;
    cx.get_attr(object, &name)
}
