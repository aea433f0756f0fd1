//! Open sizes of results that follow from the sizes of the graph's inputs, so that the trace can compute with them.

use super::open_number::{open_binary, open_compare};
use crate::backend::{InputSize, SizeFormula, SizeQuotient};
use crate::error::Flow;
use crate::machine::executor::{BinaryOp, CompareOp, OpcodeExecutor};
use crate::machine::variable::VarId;

/// Returns an integer that equals the size of a result's dimension, computed from sizes of tensors from outside;
/// `None` if the backend does not know a formula, or what it rests on is not so in this call.
pub(super) fn derived_size(cx: &mut OpcodeExecutor<'_>, tensor: VarId, axis: usize) -> Flow<Option<VarId>> {
    let result = cx.see(tensor)?.graph_argument(cx, tensor)?;
    if let Some(known) = cx.trace.graph.inputs.derived_size(&result.text, axis) {
        return Ok(Some(known));
    }
    let value = result.value.bind(cx.py);
    let Some(formula) = cx.trace.graph.building.build(|builder| builder.size_formula(value, axis))? else {
        return Ok(None);
    };
    let Some(size) = computed(cx, &formula)? else { return Ok(None) };
    cx.trace.graph.inputs.note_derived_size(result.text, axis, size);
    Ok(Some(size))
}

fn computed(cx: &mut OpcodeExecutor<'_>, formula: &SizeFormula) -> Flow<Option<VarId>> {
    for [one, other] in &formula.equal {
        let (Some(one), Some(other)) = (input_size(cx, one), input_size(cx, other)) else { return Ok(None) };
        if !holds(cx, CompareOp::Equal, one, other)? {
            return Ok(None);
        }
    }
    let mut sum = cx.trace.integer(formula.constant)?;
    let mut is_first = formula.constant == 0;
    if let Some(SizeQuotient { size, divisor, remainder, plus }) = &formula.quotient {
        let Some(size) = bounded(cx, size)? else { return Ok(None) };
        let [divisor, remainder, plus] = [*divisor, *remainder, *plus].map(|number| cx.trace.integer(number));
        let (divisor, left) = (divisor?, remainder?);
        let remainder = arithmetic(cx, BinaryOp::Remainder, size, divisor)?;
        if !holds(cx, CompareOp::Equal, remainder, left)? {
            return Ok(None);
        }
        let quotient = arithmetic(cx, BinaryOp::FloorDivide, size, divisor)?;
        sum = arithmetic(cx, BinaryOp::Add, quotient, plus?)?;
        is_first = false;
    }
    for product in &formula.products {
        let mut value = cx.trace.integer(product.factor)?;
        for (at, size) in product.sizes.iter().enumerate() {
            let Some(size) = bounded(cx, size)? else { return Ok(None) };
            if product.factor == 0 {
                continue;
            }
            let is_plain = at == 0 && product.factor == 1;
            value = if is_plain { size } else { arithmetic(cx, BinaryOp::Multiply, value, size)? };
        }
        if product.factor != 0 {
            sum = if is_first { value } else { arithmetic(cx, BinaryOp::Add, sum, value)? };
            is_first = false;
        }
    }
    Ok(Some(sum))
}

/// The size of an input, within the bounds of the formula; `None` if this call's size is not.
fn bounded(cx: &mut OpcodeExecutor<'_>, size: &InputSize) -> Flow<Option<VarId>> {
    let (from, up_to) = (size.from, cx.trace.integer(size.up_to)?);
    let Some(size) = input_size(cx, size) else { return Ok(None) };
    if !holds(cx, CompareOp::LessEqual, size, up_to)? {
        return Ok(None);
    }
    if from > cx.sizes.least {
        let from = cx.trace.integer(from)?;
        if !holds(cx, CompareOp::GreaterEqual, size, from)? {
            return Ok(None);
        }
    }
    Ok(Some(size))
}

fn arithmetic(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, lhs: VarId, rhs: VarId) -> Flow<VarId> {
    match open_binary(cx, op, lhs, rhs)? {
        Some(result) => Ok(result),
        None => cx.binary(op, lhs, rhs),
    }
}

/// True if the comparison holds in this call. The trace then assumes that it holds.
fn holds(cx: &mut OpcodeExecutor<'_>, op: CompareOp, lhs: VarId, rhs: VarId) -> Flow<bool> {
    let Some(answer) = open_compare(cx, op, lhs, rhs)? else { return Ok(false) };
    cx.truth(answer)
}

/// The size of an input, as an open number; `None` if the input is no tensor from outside.
fn input_size(cx: &mut OpcodeExecutor<'_>, size: &InputSize) -> Option<VarId> {
    let tensor = cx.trace.graph.passed_variable(size.input.bind(cx.py))?;
    let is_sourced = cx.trace.trackers.is_sourced(cx.trace.vars.tracker(tensor));
    is_sourced.then(|| cx.trace.open_size(tensor, size.axis))
}
