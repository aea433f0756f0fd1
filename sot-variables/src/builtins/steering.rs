//! Functions by which the program controls the tracer and queries it. A backend registers them under names of its
//! own.

use pyo3::exceptions::PyAssertionError;
use sot_core::error::{Extent, Flow, Reason, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::side_effects::Effect;
use sot_core::variable::{Form, VarId};

use super::io;
use super::required;

/// Breaks the graph.
pub fn breakgraph(_: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    args.exactly::<0>("breakgraph")?;
    Err(Unwind::break_graph(ReasonId::Requested, "psdb.breakgraph() is called"))
}

/// Leaves the frame to CPython; with `recursive`, also the functions that it calls.
pub fn fallback(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let [recursive] = args.named("fallback", ["recursive"], 0)?;
    let recursive = match recursive {
        Some(recursive) => cx.truth(recursive)?,
        None => false,
    };
    let extent = if recursive { Extent::FrameAndCallees } else { Extent::Frame };
    let text = format!("psdb.fallback({}) is called", if recursive { "recursive=True" } else { "" });
    Err(cx.stack.leave_to_cpython(Reason { extent, ..Reason::new(ReasonId::Requested, text) }))
}

/// Returns `True`, as the caller is being traced.
pub fn in_sot(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    args.exactly::<0>("in_sot")?;
    Ok(cx.trace.boolean(true))
}

/// Returns `True`, as `in_sot` does, under the more common name.
pub fn is_compiling(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    args.exactly::<0>("is_compiling")?;
    Ok(cx.trace.boolean(true))
}

/// Asserts a condition that is known while tracing. The condition is guarded.
pub fn assert_true(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let [condition] = args.named("assert_true", ["input"], 1)?;
    if cx.truth(required(condition)?)? {
        return Ok(cx.trace.none());
    }
    Err(cx.raise(PyAssertionError::new_err(())))
}

/// Prints after the graph has run, so that tensors can be printed, too. The output is marked as coming from
/// translated code.
pub fn print(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let mut texts = vec![cx.trace.string("[SOT]")];
    for &arg in &args.positional {
        let is_tensor = !cx.trace.guard_type_if_lazy(arg) && cx.see(arg)?.form() == Form::Tensor;
        texts.push(if is_tensor { arg } else { io::text(cx, arg)? });
    }
    io::refuse_options(cx, args)?;
    let callable = super::original_builtin(cx, "print")?;
    cx.trace.effects.record(Effect::Call { callable, args: texts, keywords: args.keywords.clone() });
    Ok(cx.trace.none())
}

/// Leaves the frame to CPython, as a debugger needs the program's own frame.
pub fn breakpoint(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    args.exactly::<0>("breakpoint")?;
    Err(cx.stack.leave_to_cpython(Reason::new(ReasonId::Requested, "psdb.breakpoint() is called")))
}
