//! What the `forward` of a `paddle.autograd.PyLayer` tells its context: the tensors that `backward` will need, and how
//! gradients are treated. Paddle looks at that once `forward` has returned, so the new code tells it after its graph
//! has run.

use pyo3::prelude::*;
use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::side_effects::Effect;
use sot_core::variable::VarId;

builtin! { SAVE = "paddle.autograd:PyLayerContext.save_for_backward" => |cx, args| {
    tell(cx, args, "save_for_backward")
} }

builtin! { NOT_IN_PLACE = "paddle.autograd:PyLayerContext.mark_not_inplace" => |cx, args| {
    tell(cx, args, "mark_not_inplace")
} }

builtin! { NON_DIFFERENTIABLE = "paddle.autograd:PyLayerContext.mark_non_differentiable" => |cx, args| {
    tell(cx, args, "mark_non_differentiable")
} }

builtin! { MATERIALIZE = "paddle.autograd:PyLayerContext.set_materialize_grads" => |cx, args| {
    tell(cx, args, "set_materialize_grads")
} }

/// Calls the method of the context when the graph has run.
fn tell(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, method: &str) -> Flow<VarId> {
    let function = cpython::import(cx.py, "paddle.autograd")?.getattr("PyLayerContext")?.getattr(method)?;
    let tracker = cx.trace.trackers.constant(function.clone().unbind());
    let callable = cx.trace.wrap(&function, tracker);
    let (args, keywords) = (args.positional.clone(), args.keywords.clone());
    cx.trace.effects.record(Effect::Call { callable, args, keywords });
    Ok(cx.trace.none())
}
