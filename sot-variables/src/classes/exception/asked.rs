//! `sys.exc_info`, `sys.exception` and `sys.exit`.

use pyo3::exceptions::PySystemExit;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, traceback, unwinding, OpcodeExecutor};
use sot_core::variable::VarId;

use super::{is_exception, is_none, is_tuple, make};

sot_core::builtin! { EXC_INFO = "sys:exc_info" => |cx, args| {
    let [] = args.exactly("exc_info")?;
    let Some(exception) = handled(cx)? else {
        let none = cx.trace.none();
        return Ok(cx.trace.tuple(vec![none; 3]));
    };
    let class = object_model::type_variable(cx, exception)?;
    let traceback = traceback::handled_traceback(cx).unwrap_or_else(|| cx.trace.none());
    Ok(cx.trace.tuple(vec![class, exception, traceback]))
} }

sot_core::builtin! { EXIT = "sys:exit" => |cx, args| {
    let status = match args.positional[..] {
        [] if args.keywords.is_empty() => Vec::new(),
        [status] if args.keywords.is_empty() => vec![status],
        _ => return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "sys.exit() with more than one status")),
    };
    let status = match status[..] {
        [status] if is_none(cx, status)? => Vec::new(),
        [status] if is_tuple(cx, status)? || is_exception(cx, status)? => {
            let text = "sys.exit() with an exception, or with several values";
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
        }
        _ => status,
    };
    let class = cx.py.get_type::<PySystemExit>().into_any();
    Err(Unwind::Raise(make(cx, &class, status)?))
} }

sot_core::builtin! { EXCEPTION = "sys:exception"? => |cx, args| {
    let [] = args.exactly("exception")?;
    Ok(handled(cx)?.unwrap_or_else(|| cx.trace.none()))
} }

/// Returns the exception that is being handled, or `None`. Breaks the graph if a caller outside the trace may be
/// handling one.
pub(crate) fn handled(cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
    match cx.stack.handled_exception() {
        None if !unwinding::nothing_is_handled(cx) => {
            Err(Unwind::break_graph(ReasonId::UnsupportedCall, "sys.exc_info() of what a caller is handling"))
        }
        exception => Ok(exception),
    }
}
