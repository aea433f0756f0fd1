//! `Tensor.clear_gradient()`, which writes zeros over the gradient, and notes that the next backward pass may write
//! over it, too.

use pyo3::prelude::*;
use pyo3::types::PyString;
use sot_core::backend::CallKind;
use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::side_effects::Effect;
use sot_core::variable::{Form, VarId};

builtin! { CLEAR_GRADIENT = "paddle:Tensor.clear_gradient" => |cx, args| clear_gradient(cx, args) }

fn clear_gradient(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let refuse =
        |what: &str| Unwind::break_graph(ReasonId::UnsupportedMutation, format!("clear_gradient changes {what}"));
    let Some(&tensor) = args.positional.first() else { return Err(refuse("no tensor")) };
    let zeros = args.positional.get(1).map(|&zeros| cx.known(zeros)).transpose()?;
    let to_zero = zeros.is_none_or(|zeros| zeros.is_some_and(|zeros| zeros.is_truthy().unwrap_or(false)));
    if !cx.trackers.is_sourced(cx.vars.tracker(tensor)) || !to_zero || !args.keywords.is_empty() {
        return Err(refuse("the gradient of what the graph computes, or gives its memory back"));
    }
    let gradient = cx.get_attr(tensor, &"grad".into())?;
    if cx.see(gradient)?.form() != Form::Tensor {
        return Ok(cx.none());
    }
    let (shape, dtype) = (cx.get_attr(gradient, &"shape".into())?, cx.get_attr(gradient, &"dtype".into())?);
    let zeros = cpython::import(cx.py, "paddle")?.getattr("zeros")?;
    let zeros = cx.call_graph(CallKind::Api, &zeros, "zeros", &CallArgs::positional(vec![shape, dtype]))?;
    let set = PyString::intern(cx.py, "set_value").into_any();
    cx.call_in_place(&set, "set_value", &CallArgs::positional(vec![gradient, zeros]))?;
    let method = cpython::class_attr(&cx.see(tensor)?.python_type(cx), "clear_gradient")?;
    let tracker = cx.trackers.constant(method.clone().unbind());
    let callable = cx.wrap(&method, tracker);
    cx.effects.record(Effect::Call { callable, args: vec![tensor], keywords: Vec::new() });
    Ok(cx.none())
}
