//! Functions by which the traced program steers the tracer, and asks it. A backend registers them under the names that
//! it gives them.

use pyo3::exceptions::PyAssertionError;
use sot_core::error::{Flow, Reason, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::side_effects::Effect;
use sot_core::variable::{Form, VarId};

use super::io;
use super::required;

/// The graph ends here.
pub fn breakgraph(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    args.exactly::<0>(cx, "breakgraph")?;
    Err(Unwind::break_graph(ReasonId::Requested, "psdb.breakgraph() is called"))
}

/// The frame goes to CPython; with `recursive` what it calls, too.
pub fn fallback(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let [recursive] = args.named(cx, "fallback", ["recursive"], 0)?;
    let recursive = match recursive {
        Some(recursive) => cx.truth(recursive)?,
        None => false,
    };
    let text = format!("psdb.fallback({}) is called", if recursive { "recursive=True" } else { "" });
    Err(cx.leave_frame(Reason { recursive, ..Reason::new(ReasonId::Requested, text) }))
}

/// Whoever asks in a trace is in one.
pub fn in_sot(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    args.exactly::<0>(cx, "in_sot")?;
    Ok(cx.boolean(true))
}

/// The same, by the name that says what it is for.
pub fn is_compiling(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    args.exactly::<0>(cx, "is_compiling")?;
    Ok(cx.boolean(true))
}

/// An assertion about what is known while tracing, which is guarded.
pub fn assert_true(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let [condition] = args.named(cx, "assert_true", ["input"], 1)?;
    if cx.truth(required(condition)?)? {
        return Ok(cx.none());
    }
    Err(cx.raise(PyAssertionError::new_err(())))
}

/// Prints after the graph has run, so that tensors may be printed too; marked as coming from translated code.
pub fn print(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let mut texts = vec![cx.string("[SOT]")];
    for &arg in &args.positional {
        let is_tensor = !cx.is_open_number(arg) && cx.see(arg)?.form() == Form::Tensor;
        texts.push(if is_tensor { arg } else { io::text(cx, arg)? });
    }
    io::refuse_options(cx, args)?;
    let callable = io::print_variable(cx)?;
    cx.effects.record(Effect::Call { callable, args: texts, keywords: args.keywords.clone() });
    Ok(cx.none())
}

/// A debugger wants the program's own frame.
pub fn breakpoint(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    args.exactly::<0>(cx, "breakpoint")?;
    Err(cx.leave_frame(Reason::new(ReasonId::Requested, "psdb.breakpoint() is called")))
}
