//! Refuses calls through which a program's backward pass sends other gradients than eager mode does.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::backend::memory::in_place::stops;
use crate::backend::numbers::scalar;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// Operations with a tensor of values as third operand, whose gradient the kernels of eager mode compute differently.
const FILLING: [&str; 2] = ["pd_op.masked_fill", "pd_op.masked_fill_"];

/// Refuses a call by the name of its function, before it is built.
pub(crate) fn refuse_call(
    paddle: &Paddle,
    callee: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let Some(name) = scalar::name(callee)? else { return Ok(()) };
    let given = |at: usize, keyword: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        let by_name = kwargs.map(|kwargs| kwargs.get_item(keyword)).transpose()?.flatten();
        Ok(args.get_item(at).ok().or(by_name))
    };
    let (at, is_filled) = match &*name {
        // Static mode takes the tensor for a number.
        "index_fill" | "index_fill_" => (3, true),
        // With a mask, eager mode fills as `masked_fill` does.
        "__setitem__" => (2, given(1, "")?.map_or(Ok(false), |index| has_mask(paddle, &index))?),
        _ => return Ok(()),
    };
    match given(at, "value")?.filter(|value| is_filled && paddle.is_value(value)) {
        Some(value) if !stops(&value)? => Err(refused()),
        _ => Ok(()),
    }
}

fn has_mask(paddle: &Paddle, index: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_mask = |value| PyResult::Ok(meta::of_value(paddle, value)?.is_some_and(|meta| &*meta.dtype == "bool"));
    meta::values_in(paddle, index)?.iter().try_fold(false, |any, value| Ok(any || is_mask(value)?))
}

/// Refuses a new operation, whose operands are `sources`.
pub(crate) fn refuse_operation(name: &str, sources: &[Bound<'_, PyAny>]) -> PyResult<()> {
    match sources.get(2).filter(|_| FILLING.contains(&name)) {
        Some(value) if !stops(value)? => Err(refused()),
        _ => Ok(()),
    }
}

fn refused() -> PyErr {
    PyNotImplementedError::new_err("eager mode computes another gradient of the values that fill")
}
