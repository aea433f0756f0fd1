//! Functions that return their argument itself if there is nothing to do. Only eager mode does so.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyString, PyTuple};

use crate::backend::memory::views::is_plain;
use crate::backend::numbers::scalar;
use crate::backend::paddle::Paddle;

/// True if the call returns its first argument itself in eager mode: `x.reshape(x.shape)`, `x.unflatten(0,
/// [x.shape[0]])`.
pub(crate) fn is_given_back(
    paddle: &Paddle,
    callee: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<bool> {
    let name = scalar::name(callee)?;
    let name = name.as_deref().unwrap_or_default();
    if !matches!(name, "reshape" | "unflatten") || !is_of_tensors(callee)? {
        return Ok(false);
    }
    let py = callee.py();
    let Some(tensor) = args.iter().next().filter(|tensor| paddle.is_value(tensor)) else { return Ok(false) };
    let own = tensor.getattr(intern!(py, "shape"))?.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let by_name = |name| kwargs.map(|kwargs| kwargs.get_item(name)).transpose().map(Option::flatten);
    let rest = args.get_slice(1, args.len());
    let (shape, own) = if name == "unflatten" {
        let axis = by_name("axis")?.or_else(|| rest.get_item(0).ok());
        let shape = by_name("shape")?.or_else(|| rest.iter().last());
        let (Some(axis), Some(shape)) = (axis, shape) else { return Ok(false) };
        let Some(size) = size_along(&own, &axis) else { return Ok(false) };
        (shape, vec![size])
    } else {
        (given_shape(by_name("shape")?, &rest), own)
    };
    let is_shape = shape.is_instance_of::<PyList>() || shape.is_instance_of::<PyTuple>();
    if !is_shape || !is_plain(paddle, &shape) {
        return Ok(false);
    }
    let sizes: Vec<Bound<'_, PyAny>> = shape.try_iter()?.collect::<PyResult<_>>()?;
    let own = PyList::new(py, own)?;
    Ok(!own.contains(-1)? && PyList::new(py, sizes)?.eq(own)?)
}

fn is_of_tensors(callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(callee.is_instance_of::<PyString>() || callee.getattr("__module__")?.eq("paddle.tensor.manipulation")?)
}

/// Returns the shape argument of `reshape`: one sequence, which a name may follow, or the sizes themselves.
fn given_shape<'py>(by_name: Option<Bound<'py, PyAny>>, rest: &Bound<'py, PyTuple>) -> Bound<'py, PyAny> {
    let first = rest.get_item(0).ok().filter(|first| !first.is_instance_of::<PyInt>());
    by_name.or(first).unwrap_or_else(|| rest.clone().into_any())
}

fn size_along<'py>(shape: &[Bound<'py, PyAny>], axis: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let (axis, dimensions) = (axis.extract::<isize>().ok()?, isize::try_from(shape.len()).ok()?);
    shape.get(usize::try_from(if axis < 0 { axis + dimensions } else { axis }).ok()?).cloned()
}

/// Refuses `squeeze` with axes that are a tensor: in a program it ends the process.
pub(crate) fn refuse_axes(
    paddle: &Paddle,
    callee: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    if !matches!(scalar::name(callee)?.as_deref(), Some("squeeze" | "squeeze_")) {
        return Ok(());
    }
    let axes = args.iter().skip(1).map(|axes| Ok(paddle.is_value(&axes)));
    let named = kwargs.into_iter().flat_map(PyDictMethods::iter);
    let named =
        named.map(|(name, axes)| Ok(matches!(name.extract::<&str>()?, "axis" | "dim") && paddle.is_value(&axes)));
    if axes.chain(named).try_fold(false, |any, one: PyResult<bool>| Ok::<_, PyErr>(any || one?))? {
        return Err(PyNotImplementedError::new_err("squeeze with axes that are a tensor is done in eager mode only"));
    }
    Ok(())
}
