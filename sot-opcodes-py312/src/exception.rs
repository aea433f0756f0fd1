//! `except` and `finally` by the exception table, and `except*`.

use pyo3::prelude::*;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::opcode;
use sot_core::variable::VarId;

opcode! { PUSH_EXC_INFO [3.11..3.14] (exception -- previous, same) => |cx, _| Ok([handle(cx, exception), exception]) }
opcode! { POP_EXCEPT [3.11..3.14] (_previous -- ) => |cx, _| cx.end_handling() }
opcode! {
    CHECK_EXC_MATCH [3.11..3.14] (exception, pattern -- same, matches)
        => |cx, _| cx.exception_matches(exception, pattern).map(|matches| [exception, cx.boolean(matches)])
}
opcode! { RERAISE [3.11..3.14] (exception -- ) => |_cx, _| Flow::<()>::Err(Unwind::Raise(exception)) }

opcode! { CHECK_EG_MATCH [3.11..3.14] (exception, pattern -- rest, found) => |cx, _| match_group(cx, exception, pattern) }
opcode! { PREP_RERAISE_STAR [3.11..3.12] (original, raised -- exception) => |cx, _| combine_raised(cx, original, raised) }

/// Notes that the exception is being handled; gives what was handled before, or None.
fn handle(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> VarId {
    match cx.begin_handling(exception) {
        Some(previous) => previous,
        None => cx.none(),
    }
}

fn is_none(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<bool> {
    Ok(cx.known(value)?.is_some_and(|value| value.is_none()))
}

/// `except*`: what is left of the exception, and what of it is caught. Groups are split by CPython alone.
fn match_group(cx: &mut OpcodeExecutor<'_>, exception: VarId, pattern: VarId) -> Flow<[VarId; 2]> {
    let group = cx.py.import("builtins")?.getattr("BaseExceptionGroup")?;
    let class = cx.type_of(exception)?;
    let is_group =
        class.cast::<pyo3::types::PyType>().is_ok_and(|class| class.mro().iter().any(|base| base.is(&group)));
    if is_none(cx, exception)? {
        return Ok([cx.none(), cx.none()]);
    }
    if is_group || cx.exception_matches(exception, pattern)? {
        return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, "`except*` that catches something"));
    }
    Ok([exception, cx.none()])
}

/// What is raised after all `except*` clauses: nothing if each left None, the one exception if no group was caught.
pub(crate) fn combine_raised(cx: &mut OpcodeExecutor<'_>, _original: VarId, raised: VarId) -> Flow<VarId> {
    let mut left = Vec::new();
    for item in cx.unpack_all(raised)? {
        if !is_none(cx, item)? {
            left.push(item);
        }
    }
    match left[..] {
        [] => Ok(cx.none()),
        [one] => Ok(one),
        _ => Err(Unwind::break_graph(ReasonId::UnsupportedOperation, "`except*` that leaves several exceptions")),
    }
}
