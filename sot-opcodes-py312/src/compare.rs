//! The comparison that can convert its result to a bool at once (3.13).

use sot_core::error::{Flow, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::opcode;
use sot_core::opcode::Operand;
use sot_core::resume::SpecialResultUse;
use sot_core::variable::{Form, VarId};
use sot_opcodes_py38::compare::{compare, compare_to_test, COMPARISONS};

opcode! {
    COMPARE_OP [3.13..3.14] (lhs, rhs -- result) .asks(COMPARISONS) => |cx, op| compare_maybe_bool(cx, op, lhs, rhs)
}
opcode! { TO_BOOL [3.13..3.14] (value -- truth) .asks_for_branch() => |cx, _| ask(cx, value) }

/// Bit of the operand that requests the truth of the result.
const AS_BOOL: u32 = 0x10;

fn compare_maybe_bool(cx: &mut OpcodeExecutor<'_>, op: &Operand, lhs: VarId, rhs: VarId) -> Flow<VarId> {
    if op.arg & AS_BOOL == 0 {
        return compare(cx, op, lhs, rhs);
    }
    let result = compare_to_test(cx, op, lhs, rhs)?;
    cx.claims.truth(result, SpecialResultUse::Leave, Vec::new());
    match to_bool(cx, result) {
        // The truth of a tensor is not known here. The following branch asks for it again. But if a function of the
        // program's was inlined to compute the truth, the break is in that function, or that function has taken the
        // claim.
        Err(Unwind::BreakGraph(reason)) if reason.stack.is_empty() && cx.see(result)?.form() == Form::Tensor => {
            match cx.claims.take() {
                Some((asked, _)) if asked == result => Ok(result),
                _ => Err(Unwind::BreakGraph(reason)),
            }
        }
        known => known,
    }
}

fn ask(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<VarId> {
    cx.claims.truth(value, SpecialResultUse::Leave, Vec::new());
    to_bool(cx, value)
}

fn to_bool(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<VarId> {
    let truth = cx.truth(value)?;
    Ok(cx.trace.boolean(truth))
}
