//! Numbers of tensors that are written to, so that the writes can be undone.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sot_core::cpython;

use crate::backend::numbers::scalar;
use crate::backend::paddle::Paddle;

/// Functions that write to running statistics, their second and third arguments.
const WITH_STATISTICS: [&str; 2] = ["batch_norm", "sync_batch_norm_"];

/// Tensors with copies of their numbers.
pub(crate) struct Saved<'py>(Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>);

impl<'py> Saved<'py> {
    /// Saves the numbers of some of the items of a tuple.
    pub(crate) fn of(paddle: &Paddle, tensors: &Bound<'py, PyTuple>, places: &[usize]) -> PyResult<Self> {
        let mut saved = Vec::with_capacity(places.len());
        for &place in places {
            let tensor = tensors.get_item(place)?;
            if let Some(numbers) = contents(paddle, &tensor)? {
                saved.push((tensor, numbers));
            }
        }
        Ok(Saved(saved))
    }

    /// Gives the tensors their former numbers.
    pub(crate) fn put_back(&self, paddle: &Paddle) -> PyResult<()> {
        self.0.iter().try_for_each(|(tensor, numbers)| put_back(paddle, tensor, numbers))
    }
}

/// Returns a copy of the tensor's numbers; `None` if it has none.
pub(crate) fn contents<'py>(paddle: &Paddle, tensor: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = tensor.py();
    let has_numbers = tensor.call_method0(intern!(py, "is_dense"))?.is_truthy()?
        && tensor.call_method0(intern!(py, "_is_initialized"))?.is_truthy()?;
    if !paddle.is_tensor(tensor) || !has_numbers {
        return Ok(None);
    }
    tensor.call_method0(intern!(py, "detach"))?.call_method0(intern!(py, "clone")).map(Some)
}

/// Gives a tensor its former numbers.
pub(crate) fn put_back(paddle: &Paddle, tensor: &Bound<'_, PyAny>, contents: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = tensor.py();
    let held = tensor.call_method0(intern!(py, "detach"))?;
    let assign = cpython::import(py, "paddle")?.getattr(intern!(py, "assign"))?;
    paddle.without_grad(py, || assign.call1((contents, held)).map(drop))
}

/// True if calls of a function or layer write to other tensors than their operands: buffers of a layer in training
/// mode, and running statistics.
pub(crate) fn writes_beside(paddle: &Paddle, callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = callee.py();
    if !callee.is_instance(paddle.layer_type.bind(py))? {
        return Ok(scalar::name(callee)?.is_some_and(|name| WITH_STATISTICS.contains(&&*name)));
    }
    Ok(callee.getattr(intern!(py, "training"))?.is_truthy()? && callee.getattr(intern!(py, "_buffers"))?.is_truthy()?)
}

/// Returns these tensors.
pub(crate) fn written_beside<'py>(
    paddle: &Paddle,
    callee: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = callee.py();
    let found = if callee.is_instance(paddle.layer_type.bind(py))? {
        let buffers = callee.getattr(intern!(py, "_buffers"))?.call_method0(intern!(py, "values"))?;
        buffers.try_iter()?.collect::<PyResult<Vec<_>>>()?
    } else {
        args.iter().skip(1).take(2).cloned().collect()
    };
    Ok(found.into_iter().filter(|found| paddle.is_tensor(found)).collect())
}
