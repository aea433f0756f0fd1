//! `except` and `finally` with the exception table, and `except*`.

use pyo3::prelude::*;
use sot_core::error::Flow;
use sot_core::executor::{unwinding, OpcodeExecutor};
use sot_core::opcode;
use sot_core::opcode::{AtBreak, Movement, Quiet};
use sot_core::variable::VarId;
use sot_variables::classes::exception::group;

opcode! {
    PUSH_EXC_INFO [3.11..3.14] (exception -- previous, same)
        .quiet(Quiet::Always)
        => |cx, _| Ok([handle(cx, exception), exception])
}
opcode! {
    POP_EXCEPT [3.11..3.14] (_previous -- )
        .moves(Movement::EndHandling).quiet(Quiet::Always)
        => |cx, _| cx.stack.end_handling()
}
opcode! {
    CHECK_EXC_MATCH [3.11..3.14] (exception, pattern -- same, matches)
        .quiet(Quiet::Always)
        => |cx, _| unwinding::exception_matches(cx, exception, pattern).map(|matches| [exception, cx.trace.boolean(matches)])
}
opcode! {
    RERAISE [3.11..3.14] (exception -- )
        .at_break(AtBreak::RaiseAgain).quiet(Quiet::Always)
        => |cx, _| Flow::<()>::Err(cx.trace.raised.again(exception))
}

opcode! {
    CHECK_EG_MATCH [3.11..3.14] (exception, pattern -- rest, found)
        .changes_handled().needs_frame()
        => |cx, _| match_group(cx, exception, pattern)
}
opcode! { PREP_RERAISE_STAR [3.11..3.12] (original, raised -- exception)
=> |cx, _| combine_raised(cx, original, raised) }

/// Notes that the exception is handled. Returns the exception handled before, or None.
fn handle(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> VarId {
    match unwinding::begin_handling(cx, exception) {
        Some(previous) => previous,
        None => cx.trace.none(),
    }
}

fn is_none(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<bool> {
    Ok(cx.known(value)?.is_some_and(|value| value.is_none()))
}

/// Simulates `except*`. Returns the rest of the exception and the caught part, which is handled from here on.
fn match_group(cx: &mut OpcodeExecutor<'_>, exception: VarId, pattern: VarId) -> Flow<[VarId; 2]> {
    if is_none(cx, exception)? {
        return Ok([cx.trace.none(), cx.trace.none()]);
    }
    let [rest, caught] = group::catch(cx, exception, pattern)?;
    if let Some(caught) = caught {
        if let Some(handled) = cx.stack.frame_mut().handled.last_mut() {
            handled.exception = caught;
        }
    }
    Ok([rest, caught].map(|part| part.unwrap_or_else(|| cx.trace.none())))
}

/// The exception raised after all `except*` clauses: None if each clause left None, and unchanged if it was no group.
pub(crate) fn combine_raised(cx: &mut OpcodeExecutor<'_>, original: VarId, raised: VarId) -> Flow<VarId> {
    let mut left = Vec::new();
    for item in cx.unpack_all(raised)? {
        if !is_none(cx, item)? {
            left.push(item);
        }
    }
    if left.is_empty() {
        return Ok(cx.trace.none());
    }
    if !group::is_group(cx, original)? {
        return Ok(left[0]);
    }
    Ok(group::raised_again(cx, original, &left)?.unwrap_or_else(|| cx.trace.none()))
}
