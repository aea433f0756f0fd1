//! Comparison, identity and membership. In 3.8 one opcode does all of these, and also matches exceptions.

use sot_core::bytecode::Opcodes;
use sot_core::error::Flow;
use sot_core::executor::{unwinding, CompareOp, OpcodeExecutor, Trace};
use sot_core::opcode;
use sot_core::opcode::{Operand, Quiet};
use sot_core::resume::{Finish, SpecialResult, SpecialResultUse};
use sot_core::variable::VarId;

use crate::bug;

/// The special methods of comparisons.
pub const COMPARISONS: &[&str] = &["__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"];

/// Operand of `COMPARE_OP` that matches exceptions in 3.8.
const EXCEPTION_MATCH: u32 = 10;

opcode! {
    COMPARE_OP [3.8..3.9] (lhs, rhs -- result)
        .quiet(Quiet::Argument(|comparison| comparison == EXCEPTION_MATCH)).asks(COMPARISONS)
        => |cx, op| compare_or_test(cx, op, lhs, rhs)
}
opcode! { COMPARE_OP [3.9..3.13] (lhs, rhs -- result) .asks(COMPARISONS) => |cx, op| compare(cx, op, lhs, rhs) }
opcode! { IS_OP [3.9..3.14] (lhs, rhs -- result) => |cx, op| cx.is_op(lhs, rhs, op.arg == 1) }
opcode! { CONTAINS_OP [3.9..3.14] (item, container -- result) => |cx, op| contains(cx, container, item, op.arg == 1) }

/// Simulates the rich comparison that the operand names, for an instruction that does only this.
pub fn compare(cx: &mut OpcodeExecutor<'_>, op: &Operand, lhs: VarId, rhs: VarId) -> Flow<VarId> {
    let op = comparison(&cx.trace, op)?;
    cx.claims.operator(op.into(), lhs, rhs);
    cx.compare(op, lhs, rhs)
}

/// Simulates the rich comparison of an instruction that then converts the result to a bool.
pub fn compare_to_test(cx: &mut OpcodeExecutor<'_>, op: &Operand, lhs: VarId, rhs: VarId) -> Flow<VarId> {
    let op = comparison(&cx.trace, op)?;
    cx.claims.test(op.into(), lhs, rhs);
    let result = cx.compare(op, lhs, rhs)?;
    cx.claims.take();
    Ok(result)
}

fn comparison(trace: &Trace<'_>, op: &Operand) -> Flow<CompareOp> {
    let symbol = symbol(trace, op)?;
    CompareOp::ALL.iter().find(|op| op.symbol() == symbol).copied().ok_or_else(|| bug("an unknown comparison"))
}

fn compare_or_test(cx: &mut OpcodeExecutor<'_>, op: &Operand, lhs: VarId, rhs: VarId) -> Flow<VarId> {
    match symbol(&cx.trace, op)? {
        "in" => contains(cx, rhs, lhs, false),
        "not in" => contains(cx, rhs, lhs, true),
        "is" => cx.is_op(lhs, rhs, false),
        "is not" => cx.is_op(lhs, rhs, true),
        "exception match" => {
            let matches = unwinding::exception_class_matches(cx, lhs, rhs)?;
            Ok(cx.trace.boolean(matches))
        }
        _ => compare(cx, op, lhs, rhs),
    }
}

fn contains(cx: &mut OpcodeExecutor<'_>, container: VarId, item: VarId, invert: bool) -> Flow<VarId> {
    let then = if invert { SpecialResultUse::Not } else { SpecialResultUse::Leave };
    cx.claims.direct(container, Finish::SpecialResult(SpecialResult::Found, then));
    cx.contains(container, item, invert)
}

fn symbol(trace: &Trace<'_>, op: &Operand) -> Flow<&'static str> {
    let opcodes = Opcodes::get(trace.py);
    let index = op.arg >> opcodes.info(op.opcode).shift;
    opcodes.comparisons().get(index as usize).map(String::as_str).ok_or_else(|| bug("an unknown comparison"))
}
