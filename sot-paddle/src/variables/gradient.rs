//! Gradients in the function: `paddle.grad` as a statement, and `Tensor.clear_gradient()`, which writes zeros over the
//! gradient, and notes that the next backward pass may write over it, too.

use pyo3::prelude::*;
use sot_core::backend::CallKind;
use sot_core::builtin;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::{Form, VarId};

use crate::backend::memory::in_place::clearing;
use crate::backend::PaddleBackend;

builtin! { GRAD = "paddle:grad" => |cx, args| grad(cx, args) }

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

/// Makes a statement of `paddle.grad`. A program computes first gradients. It knows its own operations only, so no
/// gradient may flow out of it into an operation from outside.
fn grad(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let creates_graph = args.keywords.iter().find(|(name, _)| &**name == "create_graph").map(|(_, flag)| *flag);
    let creates_graph = match creates_graph.or_else(|| args.positional.get(4).copied()) {
        Some(flag) => cx.truth(flag)?,
        None => false,
    };
    if !creates_graph {
        refuse_outside(cx)?;
    }
    let function = PaddleBackend::installed(cx.py)?.grad(cx.py);
    cx.call_graph(CallKind::Api, &function, "paddle.grad", args)
}

/// Refuses graphs that were given the result of an operation through which gradients flow.
fn refuse_outside(cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
    for (input, symbol) in cx.trace.graph.inputs() {
        if !cx.trace.graph.meta(symbol)?.is_some_and(|meta| meta.gradient.flows) {
            continue;
        }
        let is_leaf = cx.get_attr(input, &"is_leaf".into())?;
        if !cx.truth(is_leaf)? {
            let text = "paddle.grad where gradients flow into operations outside of the graph runs a backward pass in \
                eager mode";
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
        }
    }
    Ok(())
}
