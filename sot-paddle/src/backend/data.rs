//! Tensors made of Python data inside a trace. What the data are is known and guarded; the tensor is made in eager mode once,
//! and its values become a constant of the program, of which every run gives a tensor of its own.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sot_core::backend::CallKind;

use super::meta;
use super::paddle::Paddle;
use super::views::is_plain;

/// Functions that make a tensor of Python data, in `paddle.tensor.creation`.
const MAKERS: &[&str] = &["as_tensor", "asarray", "tensor", "to_tensor"];

/// Element types that a program has constants of.
const TYPES: &[&str] = &["bool", "float32", "float64", "int32", "int64"];

/// More elements than this are not copied into the program.
const MOST: i64 = 4096;

/// The values of the tensor that a call makes, as an array; `None` for any other call. To be called in eager mode.
pub(crate) fn values<'py>(
    paddle: &Paddle,
    kind: CallKind,
    callee: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if kind != CallKind::Api || !is_maker(callee)? {
        return Ok(None);
    }
    let known = |item: &Bound<'py, PyAny>| is_plain(paddle, item);
    if !args.iter().all(|item| known(&item))
        || !kwargs.is_none_or(|kwargs| kwargs.values().iter().all(|item| known(&item)))
    {
        return Err(refused("copies data that may change between calls; make the tensor outside the hot function"));
    }
    let tensor = callee.call(args, kwargs)?;
    let meta = meta::of_tensor(paddle, &tensor)?;
    if !meta.stop_gradient {
        return Err(refused("makes a tensor that collects a gradient"));
    }
    let elements: i64 = meta.shape.iter().map(|size| size.unwrap_or(i64::MAX)).product();
    if !TYPES.contains(&&*meta.dtype) || elements > MOST {
        return Err(refused("makes what is no constant of a program; make the tensor outside the hot function"));
    }
    tensor.call_method0(intern!(tensor.py(), "numpy")).map(Some)
}

fn is_maker(callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    let text = |attribute: &str| -> PyResult<String> {
        Ok(callee.getattr_opt(attribute)?.and_then(|text| text.extract().ok()).unwrap_or_default())
    };
    Ok(MAKERS.contains(&&*text("__name__")?) && text("__module__")? == "paddle.tensor.creation")
}

fn refused(what: &str) -> PyErr {
    PyNotImplementedError::new_err(format!("it {what}"))
}
