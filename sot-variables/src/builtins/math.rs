//! Functions of `math` that accept unknown values, through special methods and sequences.

use pyo3::prelude::*;

use sot_core::builtin;
use sot_core::error::Flow;
use sot_core::executor::{BinaryOp, CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;

use super::{cannot, required};
use crate::iterators::library;

builtin! { CEIL = "math:ceil" => |cx, args| special(cx, args, "ceil", "__ceil__") }
builtin! { FLOOR = "math:floor" => |cx, args| special(cx, args, "floor", "__floor__") }
builtin! { TRUNC = "math:trunc" => |cx, args| special(cx, args, "trunc", "__trunc__") }

builtin! { PROD = "math:prod" => |cx, args| {
    if let Some(product) = fold(cx, args, "prod")? {
        return Ok(product);
    }
    let start = args.keywords.iter().find(|(name, _)| &**name == "start").map(|(_, value)| *value);
    let mut product = start.map_or_else(|| cx.trace.integer(1), Ok)?;
    cx.each(required(args.positional.first().copied())?, |cx, item| {
        product = cx.binary(BinaryOp::Multiply, product, item)?;
        Ok(())
    })?;
    Ok(product)
} }

/// True if the value is a container of items some of which are open sizes, or integers computed from them.
fn has_open_items(cx: &mut OpcodeExecutor<'_>, value: Option<VarId>) -> Flow<bool> {
    let Some(value) = value else { return Ok(false) };
    let payload = cx.trace.vars.get(value);
    // A number is no container, and an open one must not be looked at.
    if payload.constant().is_some() || cx.is_open_operand(value) {
        return Ok(false);
    }
    let items = payload.items(cx, value)?;
    Ok(items.is_some_and(|items| items.iter().any(|&item| cx.trace.is_open_number(item))))
}

/// Calls the function if its arguments are known. Sizes that are left open stay so.
fn fold(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, name: &str) -> Flow<Option<VarId>> {
    if has_open_items(cx, args.positional.first().copied())? {
        return Ok(None);
    }
    let Some((positional, keywords)) = cx.materialize_args(args)? else { return Ok(None) };
    let function = library(cx.py, "math", name)?.into_bound(cx.py);
    cx.fold(|_| function.call(positional, Some(&keywords))).map(Some)
}

fn special(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, name: &str, method: &str) -> Flow<VarId> {
    if let Some(value) = fold(cx, args, name)? {
        return Ok(value);
    }
    let [value] = args.exactly(name)?;
    match cx.special_method(value, method)? {
        Some(method) => cx.call(method, &CallArgs::default()),
        None => Err(cannot(&format!("math.{name}() of a value that is not known while tracing"))),
    }
}
