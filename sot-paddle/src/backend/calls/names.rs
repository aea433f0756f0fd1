//! Names of tensors. Eager mode gives every result a unique name. Programs name their results by position, so results
//! of two runs, or of two programs, have equal names. `Layer.__setattr__` asks whether a buffer has a name, and static
//! programs distinguish buffers by name. So a result whose name is read gets a unique name when the graph has run.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::intern;
use pyo3::prelude::*;
use sot_core::backend::TensorAttribute;

use crate::backend::paddle::Paddle;

/// Decides what a read of `name` means.
pub(crate) fn attribute(paddle: &Paddle, value: &Bound<'_, PyAny>) -> PyResult<TensorAttribute> {
    let why = "Tensor.name is given at run time".to_owned();
    if value.is_instance(paddle.parameter_type.bind(value.py()))? {
        return Ok(TensorAttribute::Outside { of_result: None, why });
    }
    Ok(TensorAttribute::Text { why, prepare: wrap_pyfunction!(give_name, value.py())?.into_any().unbind() })
}

/// Returns the tensor. If it has no name, or the name of a program's result, it gets a unique one.
#[pyfunction]
fn give_name(tensor: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let attribute = intern!(tensor.py(), "name");
    let name = tensor.getattr(attribute)?;
    let name: String = name.extract()?;
    if name.is_empty() || name.starts_with("output_") {
        tensor.setattr(attribute, format!("sot_tmp_{}", NEXT.fetch_add(1, Ordering::Relaxed)))?;
    }
    Ok(tensor)
}
