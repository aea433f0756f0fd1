//! Formatted strings. Known values are formatted while tracing. For others, the equivalent builtins are called.

use pyo3::prelude::*;
use pyo3::types::PyString;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{BinaryOp, CallArgs, OpcodeExecutor};
use sot_core::opcode;
use sot_core::opcode::Next;
use sot_core::variable::VarId;

use sot_variables::builtins::original_builtin;

use crate::bug;

opcode! {
    FORMAT_VALUE [3.8..3.13] (..)
        .reach(|flags| 1 + u32::from(flags & SPECIFICATION != 0))
        => |cx, op| format_value(cx, op.arg)
}
opcode! { BUILD_STRING [3.8..3.14] ([parts] -- text) => |cx, _| build_string(cx, &parts) }

/// Bits of the operand for `!s`, `!r` and `!a`.
const CONVERSION: u32 = 0x03;
/// Bit of the operand for a format specification.
const SPECIFICATION: u32 = 0x04;

fn format_value(cx: &mut OpcodeExecutor<'_>, flags: u32) -> Flow<Next> {
    let specification = if flags & SPECIFICATION != 0 { Some(cx.stack.pop()?) } else { None };
    let mut value = cx.stack.pop()?;
    let conversion = flags & CONVERSION;
    if conversion != 0 {
        let function = conversion_function(cx, conversion)?;
        value = cx.call(function, &CallArgs::positional(vec![value]))?;
    }
    let text = match formatting(cx, value, specification)? {
        None => value,
        Some((function, args)) if conversion == 0 => cx.call_directly(function, &args)?,
        Some((function, args)) => cx.call(function, &args)?,
    };
    cx.stack.push(text);
    Ok(Next::Continue)
}

/// Simulates `f'{value!s}'`, `!r` or `!a`, given by the number of the conversion.
pub fn convert(cx: &mut OpcodeExecutor<'_>, value: VarId, conversion: u32) -> Flow<VarId> {
    let function = conversion_function(cx, conversion)?;
    cx.call_directly(function, &CallArgs::positional(vec![value]))
}

fn conversion_function(cx: &mut OpcodeExecutor<'_>, conversion: u32) -> Flow<VarId> {
    let name = match conversion {
        1 => "str",
        2 => "repr",
        3 => "ascii",
        _ => return Err(bug("an unknown conversion in a formatted string")),
    };
    original_builtin(cx, name)
}

/// Simulates `f'{value:specification}'`.
pub fn format(cx: &mut OpcodeExecutor<'_>, value: VarId, specification: Option<VarId>) -> Flow<VarId> {
    match formatting(cx, value, specification)? {
        Some((function, args)) => cx.call_directly(function, &args),
        None => Ok(value),
    }
}

/// Returns the call that formats the value; `None` for a text that stays unchanged.
fn formatting(
    cx: &mut OpcodeExecutor<'_>,
    value: VarId,
    specification: Option<VarId>,
) -> Flow<Option<(VarId, CallArgs)>> {
    let is_text = if cx.trace.guard_type_if_lazy(value) {
        cx.trace.vars.get(value).python_type(&cx.trace).is(cx.py.get_type::<PyString>())
    } else if cx.trace.is_open_number(value) {
        false
    } else {
        cx.known(value)?.is_some_and(|value| value.is_exact_instance_of::<PyString>())
    };
    if specification.is_none() && is_text {
        return Ok(None);
    }
    let args = CallArgs::positional(std::iter::once(value).chain(specification).collect());
    Ok(Some((original_builtin(cx, "format")?, args)))
}

fn build_string(cx: &mut OpcodeExecutor<'_>, parts: &[VarId]) -> Flow<VarId> {
    let mut text = cx.trace.string("");
    for &part in parts {
        text = append(cx, text, part)?;
    }
    Ok(text)
}

/// Appends a part. The text of an open number stays open.
fn append(cx: &mut OpcodeExecutor<'_>, text: VarId, part: VarId) -> Flow<VarId> {
    if let Some(longer) = cx.lazy_binary(BinaryOp::Add, text, part)? {
        return Ok(longer);
    }
    match (cx.known_str(text)?, cx.known_str(part)?) {
        (Some(text), Some(part)) => Ok(cx.trace.string(&(text + &part))),
        _ => Err(Unwind::break_graph(
            ReasonId::UnsupportedOperation,
            "a formatted string with a part that is not known while tracing",
        )),
    }
}
