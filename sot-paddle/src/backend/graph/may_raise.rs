//! Calls in eager mode that raise for no numbers of their operands: what they raise for, element types, shapes and
//! flags, is the same in each run of a graph.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sot_core::backend::CallKind;

use crate::backend::memory::in_place;
use crate::backend::numbers::scalar;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// Functions and methods that compute the same way for all numbers, if these are no integers: integers are not divided
/// by zero. Names without the underscore of functions in place, and without those of operators.
const TAKE_ALL_NUMBERS: &[&str] = &[
    "abs",
    "add",
    "add_n",
    "assign",
    "assign_to",
    "astype",
    "cast",
    "clear_gradient_to_zero",
    "clip",
    "clone",
    "copy",
    "cos",
    "detach",
    "div",
    "divide",
    "dropout",
    "equal",
    "exp",
    "fill",
    "flatten",
    "floor",
    "full",
    "full_like",
    "ge",
    "gelu",
    "gt",
    "le",
    "lerp",
    "log",
    "lt",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mm",
    "mul",
    "multiply",
    "neg",
    "norm",
    "ones",
    "ones_like",
    "pow",
    "radd",
    "rand",
    "randn",
    "relu",
    "reshape",
    "rmul",
    "rsqrt",
    "rsub",
    "rtruediv",
    "scale",
    "set_value",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "softmax",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "sub",
    "subtract",
    "sum",
    "tanh",
    "transpose",
    "truediv",
    "uniform",
    "unsqueeze",
    "where",
    "zero",
    "zeros",
    "zeros_like",
];

/// True if a call may raise although the same call of the same element types and shapes did not.
pub(crate) fn may_raise(
    paddle: &Paddle,
    kind: CallKind,
    callee: &Bound<'_, PyAny>,
    (args, kwargs): (&Bound<'_, PyTuple>, Option<&Bound<'_, PyDict>>),
) -> PyResult<bool> {
    if matches!(kind, CallKind::Object(_)) {
        return Ok(true);
    }
    let Some(name) = scalar::name(callee)? else { return Ok(true) };
    if !TAKE_ALL_NUMBERS.contains(&name.trim_matches('_')) {
        return Ok(true);
    }
    let mut values = meta::values_in(paddle, args)?;
    if let Some(kwargs) = kwargs {
        values.extend(meta::values_in(paddle, kwargs)?);
    }
    for value in &values {
        let known = meta::of_value(paddle, value)?;
        if known.is_none_or(|meta| meta.shape.contains(&None) || meta.dtype.contains("int")) {
            return Ok(true);
        }
    }
    // A tensor that needs gradients cannot be changed where they are recorded, unless it was computed.
    let changed = args.get_item(0).ok().filter(|_| kind == CallKind::InPlace);
    match changed {
        Some(changed) if paddle.grad_enabled(callee.py())? && !in_place::is_set_value(callee)? => {
            Ok(!in_place::stops(&changed)?)
        }
        _ => Ok(false),
    }
}
