//! Tensors made of Python data, or of arrays made in the trace. What the data are is known and guarded; the tensor is made in eager mode once,
//! and its values become a constant of the program, of which every run gives a tensor of its own.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyTuple, PyType};
use sot_core::backend::{CallKind, SizesMatter};
use sot_core::cpython;
use sot_variables::numpy;

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
    let mut given = args.iter().chain(kwargs.into_iter().flat_map(PyDictMethods::values));
    if kind != CallKind::Api || !is_maker(callee)? {
        return if given.any(|item| has_array(&item).unwrap_or(true)) {
            Err(refused("takes an array"))
        } else {
            Ok(None)
        };
    }
    if numbers.are_in(paddle, args, kwargs)? {
        return Ok(None);
    }
    if !given.all(|item| is_known(paddle, &item).unwrap_or(false)) {
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

/// An array that has the numbers of one made in the trace: nobody can write what it lies in, by which it is told from all others.
pub(super) fn known<'py>(array: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = array.py();
    let (shape, dtype) = (array.getattr(intern!(py, "shape"))?, array.getattr(intern!(py, "dtype"))?);
    let kind: String = dtype.getattr(intern!(py, "kind"))?.extract()?;
    if !matches!(kind.as_str(), "b" | "i" | "u" | "f") {
        return Ok(None);
    }
    let numbers = numbers_type(py)?.call1((array.call_method0(intern!(py, "tobytes"))?,))?;
    array.get_type().call1((shape, dtype, numbers)).map(Some)
}

/// The type of what such arrays lie in.
fn numbers_type(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static NUMBERS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || {
        let bases = (py.get_type::<PyBytes>(),);
        PyResult::Ok(py.get_type::<PyType>().call1(("Numbers", bases, PyDict::new(py)))?.unbind())
    };
    NUMBERS.get_or_try_init(py, make).map(|numbers| numbers.bind(py))
}

fn is_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    if &*cpython::type_name(&object.get_type()) != "ndarray" {
        return Ok(false);
    }
    let base = object.getattr_opt(intern!(py, "base"))?;
    Ok(base.is_some_and(|base| numbers_type(py).is_ok_and(|numbers| base.get_type().is(numbers))))
}

/// Whether such an array is in an argument.
fn has_array(argument: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(is_array(argument)? || parts(argument)?.iter().any(|part| has_array(part).unwrap_or(true)))
}

/// Whether an argument is data that the trace knows.
fn is_known(paddle: &Paddle, argument: &Bound<'_, PyAny>) -> PyResult<bool> {
    if is_plain(paddle, argument) || is_array(argument)? || numpy::is_value_type(&argument.get_type()) {
        return Ok(true);
    }
    let parts = parts(argument)?;
    Ok(!parts.is_empty() && parts.iter().all(|part| is_known(paddle, part).unwrap_or(false)))
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
