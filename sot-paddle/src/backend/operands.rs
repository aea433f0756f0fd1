//! Operands of several element types. Eager functions bring them to one, and static ones do so too for most operations, but
//! not for products of matrices: their kernel would read one operand as if it had the other's type.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use sot_core::backend::CallKind;

use super::paddle::Paddle;
use super::static_mode::Target;

/// Operations whose operands must be of one element type.
const OF_ONE_TYPE: [&str; 1] = ["pd_op.matmul"];

/// Whether a call has tensors of several element types to work on, so that its operations must be looked at.
pub(crate) fn differ(
    paddle: &Paddle,
    kind: CallKind,
    callee: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<bool> {
    let mut types = Types { paddle, first: None, differ: false };
    types.look_at_all(args.iter())?;
    if let Some(kwargs) = kwargs {
        types.look_at_all(kwargs.values())?;
    }
    if kind == CallKind::Layer {
        types.look_at_all(callee.getattr("_parameters")?.call_method0("values")?.try_iter()?.flatten())?;
    }
    Ok(types.differ)
}

struct Types<'a, 'py> {
    paddle: &'a Paddle,
    first: Option<Bound<'py, PyAny>>,
    differ: bool,
}

impl<'py> Types<'_, 'py> {
    fn look_at_all(&mut self, objects: impl IntoIterator<Item = Bound<'py, PyAny>>) -> PyResult<()> {
        objects.into_iter().try_for_each(|object| self.look_at(&object))
    }

    fn look_at(&mut self, object: &Bound<'py, PyAny>) -> PyResult<()> {
        if let Ok(items) = object.cast::<PyList>() {
            return self.look_at_all(items.iter());
        }
        if let Ok(items) = object.cast::<PyTuple>() {
            return self.look_at_all(items.iter());
        }
        if !self.paddle.is_value(object) && !self.paddle.is_tensor(object) {
            return Ok(());
        }
        let dtype = object.getattr(intern!(object.py(), "dtype"))?;
        match &self.first {
            None => self.first = Some(dtype),
            Some(first) => self.differ |= !first.eq(dtype)?,
        }
        Ok(())
    }
}

/// Number of operations so far.
pub(crate) fn count(target: &Target, py: Python<'_>) -> PyResult<usize> {
    operations(target, py)?.len()
}

/// Refuses operations after the first `before` ones that have operands of several types where there may be but one.
pub(crate) fn refuse(target: &Target, py: Python<'_>, before: usize) -> PyResult<()> {
    // New ones are last; what parameters are read by is put in front.
    let operations = operations(target, py)?;
    for at in before..operations.len()? {
        let operation = operations.get_item(at)?;
        let name: String = operation.call_method0(intern!(py, "name"))?.extract()?;
        if !OF_ONE_TYPE.contains(&name.as_str()) {
            continue;
        }
        let sources: Vec<Bound<'_, PyAny>> = operation.call_method0(intern!(py, "operands_source"))?.extract()?;
        let mut types = sources.iter().map(|source| source.getattr(intern!(py, "dtype")));
        let Some(first) = types.next().transpose()? else { continue };
        for other in types {
            let other = other?;
            if !first.eq(&other)? {
                return Err(PyNotImplementedError::new_err(format!(
                    "a product of matrices of {first} and {other} is done in eager mode only"
                )));
            }
        }
    }
    Ok(())
}

fn operations<'py>(target: &Target, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
    target.main.bind(py).call_method0(intern!(py, "global_block"))?.getattr(intern!(py, "ops"))
}
