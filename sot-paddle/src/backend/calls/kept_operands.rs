//! Operations that keep the memory of an operand for the backward pass where the executor does not see it.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sot_core::backend::CallKind;
use sot_core::cpython;

use crate::backend::memory::in_place::stops;
use crate::backend::numbers::scalar;
use crate::backend::paddle::{meta, Paddle};

/// Calls `einsum` of several operands with copies of them, if gradients flow through them; `None` for other calls. To
/// be called in static mode.
///
/// The operation keeps its operands, as it has arranged them, for the backward pass. Where there was nothing to arrange
/// they are the operands' own memory. The executor does not know that, and lets a later operation, such as the addition
/// in `z + einsum(equation, a, z)`, write its result over `z`. Nothing else uses the copies.
pub(crate) fn call<'py>(
    paddle: &Paddle,
    (kind, callee): (CallKind, &Bound<'py, PyAny>),
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if kind != CallKind::Api || scalar::name(callee)?.as_deref() != Some("einsum") {
        return Ok(None);
    }
    let py = callee.py();
    let stopped = meta::values_in(paddle, args)?.iter().map(stops).collect::<PyResult<Vec<_>>>()?;
    // With one operand, the result may share its memory in eager mode, too.
    if args.len() < 3 || !stopped.contains(&false) {
        return Ok(None);
    }
    let api = cpython::import(py, "paddle")?;
    let copy = |value: Bound<'py, PyAny>| {
        if paddle.is_value(&value) {
            api.call_method1("assign", (value,))
        } else {
            Ok(value)
        }
    };
    let operands = args.iter().map(copy).collect::<PyResult<Vec<_>>>()?;
    callee.call(PyTuple::new(py, operands)?, kwargs).map(Some)
}
