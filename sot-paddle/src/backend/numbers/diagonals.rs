//! `tril`, `triu` and `eye` of open numbers. In a program the diagonal, and the sizes of a unit matrix, are attributes,
//! which must be known. So the numbers of rows and columns are compared here, which selects the same elements.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyTuple};
use sot_core::backend::{CallKind, SizesMatter};
use sot_core::cpython;

use crate::backend::numbers::scalar;
use crate::backend::numbers::sizes::NumberValues;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

const FUNCTIONS: &[Function] = &[
    ("eye", &[&["num_rows", "n"], &["num_columns", "m"], &["dtype"], &["name"]]),
    ("tril", &[&["x", "input"], &["diagonal"], &["name"]]),
    ("triu", &[&["x", "input"], &["diagonal"], &["name"]]),
];

/// The modules that define them.
const MODULES: &[&str] = &["paddle.tensor.creation", "paddle.base.dygraph.generated_tensor_methods_patch"];

/// The element types of a unit matrix that every release can make.
const TYPES_OF_EYE: &[&str] = &["float32", "float64", "int32", "int64"];

/// A function, with the names of each parameter.
type Function = (&'static str, &'static [&'static [&'static str]]);

/// The function that a call leads to, if it is one of these.
fn found(kind: CallKind, callee: &Bound<'_, PyAny>) -> PyResult<Option<Function>> {
    if !matches!(kind, CallKind::Api | CallKind::Method) {
        return Ok(None);
    }
    let Some(name) = scalar::name(callee)? else { return Ok(None) };
    let name = name.strip_prefix('_').unwrap_or(&name);
    let Some(found) = FUNCTIONS.iter().find(|(function, _)| *function == name).copied() else { return Ok(None) };
    if kind == CallKind::Method {
        return Ok(Some(found));
    }
    let module = callee.getattr_opt(intern!(callee.py(), "__module__"))?;
    let is_own = module.is_some_and(|module| module.extract::<&str>().is_ok_and(|module| MODULES.contains(&module)));
    Ok(Some(found).filter(|_| is_own))
}

/// True if a function takes open numbers here.
pub(crate) fn take_sizes(kind: CallKind, callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(found(kind, callee)?.is_some())
}

/// Returns the result of such a call with an open number. To be called in static mode.
pub(crate) fn call<'py>(
    paddle: &Paddle,
    numbers: &NumberValues,
    (kind, callee): (CallKind, &Bound<'py, PyAny>),
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some((name, parameters)) = found(kind, callee)? else { return Err(refused("a function")) };
    let given = bind(name, parameters, args, kwargs)?;
    if name == "eye" {
        unit_matrix(paddle, numbers, callee.py(), &given)
    } else {
        triangle(paddle, numbers, name, &given)
    }
}

fn refused(name: &str) -> PyErr {
    SizesMatter::new_err(format!("{name} with this number is not as it is with a number that is known"))
}

/// Returns the arguments in the order of the parameters. What is `None` counts as left out.
fn bind<'py>(
    name: &str,
    parameters: &[&[&str]],
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
    let mut given: Vec<_> = args.iter().map(Some).collect();
    if given.len() > parameters.len() {
        return Err(refused(name));
    }
    given.resize(parameters.len(), None);
    for (keyword, value) in kwargs.into_iter().flat_map(PyDictMethods::iter) {
        let keyword = keyword.extract::<&str>()?;
        let at = parameters.iter().position(|names| names.contains(&keyword)).ok_or_else(|| refused(name))?;
        if given[at].is_some() {
            return Err(refused(name));
        }
        given[at] = Some(value);
    }
    Ok(given.into_iter().map(|value| value.filter(|value| !value.is_none())).collect())
}

/// The elements of a tensor below or above an open diagonal, with zeros elsewhere.
fn triangle<'py>(
    paddle: &Paddle,
    numbers: &NumberValues,
    name: &str,
    given: &[Option<Bound<'py, PyAny>>],
) -> PyResult<Bound<'py, PyAny>> {
    let [Some(tensor), Some(diagonal), ..] = given else { return Err(refused(name)) };
    let rank = meta::of_value(paddle, tensor)?.map_or(0, |meta| meta.shape.len());
    if rank < 2 || !is_open_integer(paddle, numbers, diagonal)? {
        return Err(refused(name));
    }
    let py = tensor.py();
    let api = cpython::import(py, "paddle")?;
    // The numbers of the positions along an axis, counted from 1. The other axis has one position.
    let positions = |axis: usize, other: usize| {
        let line = api.call_method1(intern!(py, "slice"), (tensor, [other], [0], [1]))?;
        let ones = api.call_method1(intern!(py, "ones_like"), (line, "int64"))?;
        api.call_method1(intern!(py, "cumsum"), (ones, axis))
    };
    let (rows, columns) = (positions(rank - 2, rank - 1)?, positions(rank - 1, rank - 2)?);
    let edge = rows.add(diagonal)?;
    let comparison = if name == "tril" { "less_equal" } else { "greater_equal" };
    let is_kept = api.call_method1(comparison, (columns, edge))?;
    let zeros = api.call_method1(intern!(py, "zeros_like"), (tensor,))?;
    api.call_method1(intern!(py, "where"), (is_kept, tensor, zeros))
}

/// A matrix of open sizes with ones on its diagonal.
fn unit_matrix<'py>(
    paddle: &Paddle,
    numbers: &NumberValues,
    py: Python<'py>,
    given: &[Option<Bound<'py, PyAny>>],
) -> PyResult<Bound<'py, PyAny>> {
    let [Some(rows), columns, dtype, ..] = given else { return Err(refused("eye")) };
    let columns = columns.as_ref().unwrap_or(rows);
    for size in [rows, columns] {
        let is_known = size.is_exact_instance_of::<PyInt>() && size.ge(0)?;
        if !is_known && !is_open_integer(paddle, numbers, size)? {
            return Err(refused("eye"));
        }
    }
    let api = cpython::import(py, "paddle")?;
    let one = PyInt::new(py, 1).into_any();
    // Where a number is negative, this raises, as `eye` does.
    let positions = |shape: [&Bound<'py, PyAny>; 2], axis: usize| {
        let ones = api.call_method1(intern!(py, "ones"), (shape.to_vec(), "int64"))?;
        api.call_method1(intern!(py, "cumsum"), (ones, axis))
    };
    let is_one =
        api.call_method1(intern!(py, "equal"), (positions([rows, &one], 0)?, positions([&one, columns], 1)?))?;
    let dtype = match dtype {
        Some(dtype) => dtype.clone(),
        None => api.call_method0(intern!(py, "get_default_dtype"))?,
    };
    let matrix = is_one.call_method1(intern!(py, "astype"), (dtype,))?;
    let made = meta::of_value(paddle, &matrix)?;
    if made.is_none_or(|made| !TYPES_OF_EYE.contains(&&*made.dtype)) {
        return Err(refused("eye"));
    }
    Ok(matrix)
}

/// True if a value stands for an integer.
fn is_open_integer(paddle: &Paddle, numbers: &NumberValues, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(numbers.has(paddle, value)
        && meta::of_value(paddle, value)?.is_some_and(|meta| meta.shape.is_empty() && &*meta.dtype == "int64"))
}
