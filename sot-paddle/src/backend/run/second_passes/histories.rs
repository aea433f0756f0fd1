//! Inputs with a history: inputs that were computed with gradients before the graph, and that only some of its results
//! depend on, such as a running total or a kept state. In eager mode, a backward pass from another result does not
//! reach them. A program gives them zeros, which flow on to the operations that computed them, and may reach an
//! earlier run that a pass has released.

use pyo3::intern;
use pyo3::prelude::*;
use sot_core::cpython::WeakRef;

use super::reach::{Partial, ProgramInput};
use crate::backend::paddle::Paddle;

/// The inputs and buffers of a graph that may have a history.
pub(crate) struct Histories {
    inputs: Vec<usize>,
    /// Buffers only: a parameter has no history.
    buffers: Vec<WeakRef>,
}

impl Histories {
    pub(crate) fn new(py: Python<'_>, paddle: &Paddle, partial: &[Partial], parameters: &[WeakRef]) -> PyResult<Self> {
        let (mut inputs, mut buffers) = (Vec::new(), Vec::new());
        for part in partial {
            match part.given {
                ProgramInput::Input(at) => inputs.push(at),
                ProgramInput::Parameter(at) => {
                    let Some(tensor) = parameters[at].get(py) else { continue };
                    if !tensor.is_instance(paddle.parameter_type.bind(py))? {
                        buffers.push(WeakRef::new(&tensor, None)?);
                    }
                }
            }
        }
        Ok(Histories { inputs, buffers })
    }

    /// True if one of these inputs or buffers has been computed with gradients in this call.
    pub(crate) fn are_there(&self, py: Python<'_>, inputs: &[Bound<'_, PyAny>]) -> PyResult<bool> {
        for input in self.inputs.iter().filter_map(|&at| inputs.get(at)) {
            if has_history(input)? {
                return Ok(true);
            }
        }
        for buffer in self.buffers.iter().filter_map(|buffer| buffer.get(py)) {
            if has_history(&buffer)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn has_history(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(!tensor.getattr(intern!(tensor.py(), "is_leaf"))?.is_truthy()?)
}
