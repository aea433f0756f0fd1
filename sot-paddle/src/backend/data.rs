//! Tensors made of Python data inside a trace. What the data are is known and guarded; the tensor is made in eager mode once,
//! and its values become a constant of the program, of which every run gives a tensor of its own.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyTuple};
use sot_core::backend::{CallKind, SizesMatter};
use sot_core::cpython;

use super::meta;
use super::paddle::Paddle;
use super::sizes::Numbers;
use super::twin::parts;
use super::views::is_plain;

/// Functions that make a tensor of Python data, in `paddle.tensor.creation`.
const MAKERS: &[&str] = &["as_tensor", "asarray", "tensor", "to_tensor"];

/// Element types that a program has constants of.
const TYPES: &[&str] = &["bool", "float32", "float64", "int32", "int64"];

/// More elements than this are not copied into the program.
const MOST: i64 = 4096;

/// The tensor that a call makes of integers of which some are values of the graph; `None` for any other call. To be called in
/// static mode.
pub(super) fn of_numbers<'py>(
    paddle: &Paddle,
    numbers: &Numbers,
    (kind, callee): (CallKind, &Bound<'py, PyAny>),
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if kind != CallKind::Api || !numbers.are_in(paddle, args, kwargs)? || !is_maker(callee)? {
        return Ok(None);
    }
    let refused = || SizesMatter::new_err("a tensor made of numbers and of something else");
    let (data, rest) = (args.get_item(0).map_err(|_| refused())?, args.get_slice(1, args.len()));
    // What else is said of it is its type; a place or a gradient is nothing that a value has.
    let given = rest.iter().chain(kwargs.into_iter().flat_map(PyDictMethods::values)).collect::<Vec<_>>();
    let named = kwargs.is_none_or(|kwargs| kwargs.keys().iter().all(|name| name.eq("dtype").unwrap_or(false)));
    let typed = |ty: &Bound<'_, PyAny>| {
        let text = ty.str().map(|text| text.to_string()).unwrap_or_default();
        TYPES.contains(&text.trim_start_matches("paddle."))
    };
    if !named || given.len() > 1 || !given.iter().all(typed) || !is_made_of_integers(paddle, numbers, &data)? {
        return Err(refused());
    }
    let made = callee.call(args, kwargs)?;
    // Of a single one Paddle makes none.
    let made = if numbers.has(paddle, &made) {
        cpython::import(callee.py(), "paddle")?.call_method1("assign", (made,))?
    } else {
        made
    };
    Ok(Some(made))
}

fn is_made_of_integers(paddle: &Paddle, numbers: &Numbers, data: &Bound<'_, PyAny>) -> PyResult<bool> {
    if numbers.has(paddle, data) || data.is_exact_instance_of::<PyInt>() {
        return Ok(true);
    }
    let is_row = data.is_exact_instance_of::<PyList>() || data.is_exact_instance_of::<PyTuple>();
    let mut parts = if is_row { parts(data)?.into_iter() } else { return Ok(false) };
    parts.try_fold(true, |all, part| Ok(all && is_made_of_integers(paddle, numbers, &part)?))
}

/// The values of the tensor that a call makes, as an array; `None` for any other call. To be called in eager mode.
pub(super) fn values<'py>(
    paddle: &Paddle,
    numbers: &Numbers,
    (kind, callee): (CallKind, &Bound<'py, PyAny>),
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if kind != CallKind::Api || !is_maker(callee)? {
        return Ok(None);
    }
    if numbers.are_in(paddle, args, kwargs)? {
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
