//! Numbers of tensors that are written to and the state of the random numbers, so that a run can be undone.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sot_core::cpython;

use crate::backend::graph::statistics::Changes;
use crate::backend::numbers::scalar;
use crate::backend::paddle::Paddle;

/// Functions that write to running statistics, their second and third arguments.
const WITH_STATISTICS: [&str; 2] = ["batch_norm", "sync_batch_norm_"];

/// What the run of a program will change.
pub(crate) struct Saved<'py> {
    /// Tensors with copies of their numbers.
    tensors: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    random_state: Option<Bound<'py, PyAny>>,
}

impl<'py> Saved<'py> {
    /// Saves what the run of a program with these inputs and parameters will change.
    pub(crate) fn of(
        paddle: &Paddle,
        (inputs, parameters): (&Bound<'py, PyTuple>, &Bound<'py, PyTuple>),
        changes: &Changes,
    ) -> PyResult<Self> {
        let mut tensors = Vec::with_capacity(changes.statistics.len());
        for &place in &changes.statistics {
            let tensor = place.of(inputs, parameters)?;
            if let Some(numbers) = contents(paddle, &tensor)? {
                tensors.push((tensor, numbers));
            }
        }
        let random_state = if changes.random_numbers { Some(random_state(parameters.py())?) } else { None };
        Ok(Saved { tensors, random_state })
    }

    /// Undoes the changes.
    pub(crate) fn put_back(&self, paddle: &Paddle) -> PyResult<()> {
        self.tensors.iter().try_for_each(|(tensor, numbers)| put_back(paddle, tensor, numbers))?;
        self.random_state.as_ref().map_or(Ok(()), put_back_random_state)
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

/// Gives a tensor its former numbers. That does not count as a write to it, so that earlier backward passes can still
/// read it.
pub(crate) fn put_back(paddle: &Paddle, tensor: &Bound<'_, PyAny>, contents: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = tensor.py();
    let module = cpython::import(py, "paddle")?;
    // Another tensor in the same memory, with a count of writes of its own. That of `detach()` is the same.
    let alias = module.call_method1(intern!(py, "empty"), ((0,),))?;
    let memory = tensor.call_method0(intern!(py, "get_tensor"))?;
    alias.call_method0(intern!(py, "get_tensor"))?.call_method1(intern!(py, "_share_data_with"), (memory,))?;
    let assign = module.getattr(intern!(py, "assign"))?;
    paddle.without_grad(py, || assign.call1((contents, alias)).map(drop))
}

/// Returns the state of Paddle's random number generators.
pub(crate) fn random_state(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    cpython::import(py, "paddle")?.call_method0(intern!(py, "get_rng_state"))
}

/// Sets Paddle's random number generators to an earlier state.
pub(crate) fn put_back_random_state(state: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = state.py();
    cpython::import(py, "paddle")?.call_method1(intern!(py, "set_rng_state"), (state,)).map(drop)
}

/// True if calls of a function or layer write to other tensors than their operands: buffers of a layer in training
/// mode, and running statistics.
pub(crate) fn writes_beside(paddle: &Paddle, callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = callee.py();
    if !callee.is_instance(paddle.layer_type.bind(py))? {
        return Ok(scalar::name(callee)?.is_some_and(|name| WITH_STATISTICS.contains(&&*name)));
    }
    Ok(callee.getattr(intern!(py, "training"))?.is_truthy()? && !state_of_layer(callee)?.is_empty())
}

/// Returns these tensors.
pub(crate) fn written_beside<'py>(
    paddle: &Paddle,
    callee: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = callee.py();
    let found = if callee.is_instance(paddle.layer_type.bind(py))? {
        state_of_layer(callee)?
    } else {
        args.iter().skip(1).take(2).cloned().collect()
    };
    Ok(found.into_iter().filter(|found| paddle.is_tensor(found)).collect())
}

/// Returns what a layer of Paddle may write to: its buffers, and running statistics, which are parameters with names
/// such as `_mean`.
fn state_of_layer<'py>(layer: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = layer.py();
    let buffers = layer.getattr(intern!(py, "_buffers"))?.call_method0(intern!(py, "values"))?;
    let mut found = buffers.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    for parameter in layer.getattr(intern!(py, "_parameters"))?.call_method0(intern!(py, "items"))?.try_iter()? {
        let (name, parameter): (String, Bound<'_, PyAny>) = parameter?.extract()?;
        if name.starts_with('_') {
            found.push(parameter);
        }
    }
    Ok(found)
}
