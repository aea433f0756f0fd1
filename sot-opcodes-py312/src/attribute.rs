//! Attributes, from 3.12 on with method loads as a flag of `LOAD_ATTR`, and attributes of `super()`.

use sot_core::opcode;
use sot_core::opcode::{Operand, Quiet};
use sot_core::resume::Finish;
use sot_opcodes_py38::attribute::load_attr;

use crate::call::{push_after_null, push_before_null, super_attr};

opcode! { LOAD_ATTR [3.12..3.13] (..)
    .quiet(Quiet::ModuleUnwritten).reach(|_| 1).leaves_pair(|arg| arg & 1 != 0)
    => |cx, op| {
    let object = cx.stack.pop()?;
    let value = load_attr(cx, object, op.arg >> 1, finish(op))?;
    Ok(push_after_null(cx, value, op.arg & 1 != 0))
} }
opcode! { LOAD_ATTR [3.13..3.14] (..)
    .quiet(Quiet::ModuleUnwritten).reach(|_| 1).leaves_pair(|arg| arg & 1 != 0)
    => |cx, op| {
    let object = cx.stack.pop()?;
    let value = load_attr(cx, object, op.arg >> 1, finish(op))?;
    Ok(push_before_null(cx, value, op.arg & 1 != 0))
} }
opcode! { LOAD_SUPER_ATTR [3.12..3.13] (..) .reach(|_| 3).leaves_pair(|arg| arg & 1 != 0).needs_frame() => |cx, op| {
    let [callable, class, this] = cx.stack.pop_array()?;
    let value = super_attr(cx, callable, class, this, op.arg)?;
    Ok(push_after_null(cx, value, op.arg & 1 != 0))
} }
opcode! { LOAD_SUPER_ATTR [3.13..3.14] (..) .reach(|_| 3).leaves_pair(|arg| arg & 1 != 0).needs_frame() => |cx, op| {
    let [callable, class, this] = cx.stack.pop_array()?;
    let value = super_attr(cx, callable, class, this, op.arg)?;
    Ok(push_before_null(cx, value, op.arg & 1 != 0))
} }

/// The form in which the instruction leaves the attribute.
fn finish(op: &Operand) -> Finish {
    if op.arg & 1 == 0 {
        Finish::Keep
    } else {
        Finish::Pair
    }
}
