//! `Tensor.clear_gradient()`, which writes zeros over the gradient, and notes that the next backward pass may write
//! over it, too.

use pyo3::prelude::*;
use sot_core::builtin;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::{Form, VarId};

use crate::backend::memory::in_place::clearing;

builtin! { CLEAR_GRADIENT = "paddle:Tensor.clear_gradient" => |cx, args| clear_gradient(cx, args) }

fn clear_gradient(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let refuse =
        |what: &str| Unwind::break_graph(ReasonId::UnsupportedMutation, format!("clear_gradient changes {what}"));
    let Some(&tensor) = args.positional.first() else { return Err(refuse("no tensor")) };
    let zeros = args.positional.get(1).map(|&zeros| cx.known(zeros)).transpose()?;
    let to_zero = zeros.is_none_or(|zeros| zeros.is_some_and(|zeros| zeros.is_truthy().unwrap_or(false)));
    if !cx.trace.trackers.is_sourced(cx.trace.vars.tracker(tensor)) || !to_zero || !args.keywords.is_empty() {
        return Err(refuse("the gradient of what the graph computes, or gives its memory back"));
    }
    let gradient = cx.get_attr(tensor, &"grad".into())?;
    if cx.see(gradient)?.form() != Form::Tensor {
        return Ok(cx.trace.none());
    }
    let clearing = clearing(cx.py)?.clone();
    cx.call_in_place(&clearing, "clear_gradient", &CallArgs::positional(vec![gradient, tensor]))?;
    Ok(cx.trace.none())
}
