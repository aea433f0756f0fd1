//! Refuses calls through which a program's backward pass sends other gradients than eager mode does.

use std::collections::HashSet;

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyTuple};

use crate::backend::memory::in_place::stops;
use crate::backend::numbers::scalar;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// Operations with a tensor of values as third operand, whose gradient the kernels of eager mode compute differently.
const FILLING: [&str; 2] = ["pd_op.masked_fill", "pd_op.masked_fill_"];

const OF_PAIRS: &str = "eager mode computes no gradient of a weight without a bias, nor of a bias without a weight";

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
    let value = match &*name {
        // Static mode takes the tensor for a number.
        "index_fill" | "index_fill_" => given(3, "value")?,
        // With a mask and one element, eager mode fills as `masked_fill` does.
        // With positions that occur twice, a program sends the gradient of the number that stays to both values.
        "__setitem__" => match (given(1, "")?, given(2, "value")?) {
            (Some(index), Some(value)) if is_mask(paddle, &index)? => {
                Some(value).filter(|value| may_be_one_element(paddle, value).unwrap_or(true))
            }
            (Some(index), Some(value)) if has_positions(paddle, &index)? => Some(value),
            _ => None,
        },
        _ => None,
    };
    match value.filter(|value| paddle.is_value(value)) {
        Some(value) if !stops(&value)? => Err(refused()),
        _ => Ok(()),
    }
}

/// True if an index is a single mask: a tensor, an array or a list.
fn is_mask(paddle: &Paddle, index: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let Ok(indices) = index.cast::<PyTuple>() {
        return if indices.len() == 1 { is_mask(paddle, &indices.get_item(0)?) } else { Ok(false) };
    }
    if let Ok(items) = index.cast::<PyList>() {
        return Ok(items.get_item(0).is_ok_and(|item| item.is_instance_of::<PyBool>()));
    }
    match meta::of_value(paddle, index)? {
        Some(meta) => Ok(&*meta.dtype == "bool"),
        // An array of NumPy.
        None => Ok(index.getattr_opt("dtype")?.is_some_and(|dtype| dtype.to_string() == "bool")),
    }
}

/// True if an index has tensors, arrays or lists of positions that may occur twice.
fn has_positions(paddle: &Paddle, index: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let Ok(indices) = index.cast::<PyTuple>() {
        return indices.iter().try_fold(false, |any, index| Ok(any || has_positions(paddle, &index)?));
    }
    if let Ok(positions) = index.cast::<PyList>() {
        let different: Option<HashSet<i64>> = positions.iter().map(|position| position.extract().ok()).collect();
        // Positions below zero count from the end, so that they may be those of others.
        return Ok(different.is_none_or(|all| all.len() < positions.len() || all.iter().any(|position| *position < 0)));
    }
    match meta::of_value(paddle, index)? {
        Some(meta) => Ok(!meta.shape.is_empty() && &*meta.dtype != "bool"),
        None => Ok(index.getattr_opt("__array__")?.is_some()),
    }
}

fn may_be_one_element(paddle: &Paddle, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let meta = meta::of_value(paddle, value)?;
    Ok(meta.is_some_and(|meta| meta.shape.iter().all(|size| size.is_none_or(|size| size == 1))))
}

/// Refuses a new operation, whose operands are `sources`.
pub(crate) fn refuse_operation(
    paddle: &Paddle,
    operation: &Bound<'_, PyAny>,
    name: &str,
    sources: &[Bound<'_, PyAny>],
) -> PyResult<()> {
    let py = operation.py();
    let flows_to =
        |at: usize| sources.get(at).map_or(Ok(false), |value| Ok::<_, PyErr>(exists(value)? && !stops(value)?));
    if FILLING.contains(&name) && flows_to(2)? {
        return Err(refused());
    }
    let is_alone = |at, other: usize| Ok::<_, PyErr>(flows_to(at)? && !exists(&sources[other])?);
    let attribute = |attribute: &str| -> PyResult<bool> {
        let attributes = operation.call_method0(intern!(py, "attrs"))?;
        attributes.get_item(attribute).map_or(Ok(false), |value| value.is_truthy())
    };
    let why = match name {
        "pd_op.embedding" if flows_to(1)? && attribute("sparse")? => {
            "eager mode computes the gradient of the used rows only (sparse=True)"
        }
        "pd_op.hsigmoid_loss" if flows_to(2)? && attribute("is_sparse")? => {
            "eager mode computes the gradient of the used rows only (is_sparse=True)"
        }
        "pd_op.batch_norm_" | "pd_op.sync_batch_norm_" if is_alone(3, 4)? || is_alone(4, 3)? => OF_PAIRS,
        "pd_op.instance_norm" if is_alone(1, 2)? || is_alone(2, 1)? => OF_PAIRS,
        _ => return Ok(()),
    };
    if paddle.grad_enabled(py)? {
        return Err(PyNotImplementedError::new_err(why));
    }
    Ok(())
}

/// False for an operand that is left out.
fn exists(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.call_method0(intern!(value.py(), "initialized"))?.is_truthy()
}

fn refused() -> PyErr {
    PyNotImplementedError::new_err("eager mode computes another gradient of the values that fill")
}
