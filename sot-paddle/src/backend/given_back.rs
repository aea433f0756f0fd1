//! Functions that give back the tensor they are given where there is nothing to do, which only eager mode looks for.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::paddle::Paddle;
use super::scalar;
use super::views::is_plain;

/// Whether the call gives back its first argument in eager mode: `x.reshape(x.shape)`.
pub(crate) fn is_given_back(
    paddle: &Paddle,
    callee: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<bool> {
    let is_method = callee.is_instance_of::<PyString>();
    if scalar::name(callee)?.as_deref() != Some("reshape")
        || !is_method && !callee.getattr("__module__")?.eq("paddle.tensor.manipulation")?
    {
        return Ok(false);
    }
    let py = callee.py();
    let Some(tensor) = args.iter().next().filter(|tensor| paddle.is_value(tensor)) else { return Ok(false) };
    let shape = match kwargs.map(|kwargs| kwargs.get_item("shape")).transpose()?.flatten() {
        Some(shape) => shape,
        None => match args.get_slice(1, args.len()) {
            rest if rest.len() == 1 => rest.get_item(0)?,
            rest => rest.into_any(),
        },
    };
    let is_shape = shape.is_instance_of::<PyList>() || shape.is_instance_of::<PyTuple>();
    if !is_shape || !is_plain(paddle, &shape) {
        return Ok(false);
    }
    let sizes: Vec<Bound<'_, PyAny>> = shape.try_iter()?.collect::<PyResult<_>>()?;
    let own = tensor.getattr(intern!(py, "shape"))?;
    Ok(!own.contains(-1)?
        && PyList::new(py, sizes)?.eq(PyList::new(py, own.try_iter()?.collect::<PyResult<Vec<_>>>()?)?)?)
}
