//! `paddle.broadcast_shape`, where sizes are open.

use pyo3::prelude::*;
use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CompareOp, OpcodeExecutor};
use sot_core::variable::VarId;

builtin! { BROADCAST_SHAPE = "paddle:broadcast_shape" => |cx, args| {
    let known = match args.positional[..] {
        [one, other] if args.keywords.is_empty() => broadcast(cx, one, other)?,
        _ => None,
    };
    if let Some(shape) = known {
        return Ok(cx.trace.list(shape));
    }
    let Some((positional, keywords)) = cx.materialize_args(args)? else {
        let text = "paddle.broadcast_shape of sizes that are not known while tracing";
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    };
    let function = cpython::import(cx.py, "paddle")?.getattr("broadcast_shape")?;
    cx.fold(|_| function.call(positional, Some(&keywords)))
} }

/// Returns the sizes; `None` if all are known, or the shapes do not fit.
fn broadcast(cx: &mut OpcodeExecutor<'_>, one: VarId, other: VarId) -> Flow<Option<Vec<VarId>>> {
    let (Some(mut one), Some(mut other)) = (cx.see(one)?.items(cx, one)?, cx.see(other)?.items(cx, other)?) else {
        return Ok(None);
    };
    if !one.iter().chain(&other).any(|&size| cx.trace.is_open_number(size)) {
        return Ok(None);
    }
    if one.len() < other.len() {
        std::mem::swap(&mut one, &mut other);
    }
    let single = cx.trace.integer(1)?;
    let new = one.len() - other.len();
    let mut sizes = one[..new].to_vec();
    for (&one, &other) in one[new..].iter().zip(&other) {
        if is_equal(cx, one, other)? || is_equal(cx, other, single)? {
            sizes.push(one);
        } else if is_equal(cx, one, single)? {
            sizes.push(other);
        } else {
            return Ok(None);
        }
    }
    Ok(Some(sizes))
}

fn is_equal(cx: &mut OpcodeExecutor<'_>, one: VarId, other: VarId) -> Flow<bool> {
    let equal = cx.compare(CompareOp::Equal, one, other)?;
    cx.truth(equal)
}
