//! Inputs of a graph that are numbers in Python and tensors without dimensions in the program.

use pyo3::prelude::*;
use pyo3::types::PyList;
use sot_core::cpython;

use crate::backend::paddle::state;
use crate::backend::paddle::Paddle;

/// Makes the tensors.
pub(crate) struct NumberInputs {
    /// What `paddle.full` comes to, which takes three times as long.
    full: Py<PyAny>,
    shape: Py<PyList>,
    place: Py<PyAny>,
    /// Which inputs are numbers, and of what type the tensors are.
    each: Vec<(usize, Py<PyAny>)>,
}

impl NumberInputs {
    /// Those of the program's inputs at these positions.
    pub(crate) fn new(paddle: &Paddle, inputs: &Bound<'_, PyList>, at: &[usize]) -> PyResult<Self> {
        let py = inputs.py();
        let dtype = |&at: &usize| Ok((at, inputs.get_item(at)?.getattr("dtype")?.unbind()));
        Ok(NumberInputs {
            full: cpython::import(py, "paddle")?.getattr("_C_ops")?.getattr("full")?.unbind(),
            shape: PyList::empty(py).unbind(),
            place: state::expected_place(py, paddle)?.unbind(),
            each: at.iter().map(dtype).collect::<PyResult<_>>()?,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Puts tensors into the place of the numbers.
    pub(crate) fn make(&self, inputs: &mut [Bound<'_, PyAny>]) -> PyResult<()> {
        for (at, dtype) in &self.each {
            let py = inputs[*at].py();
            let given = [self.shape.bind(py).as_any(), &inputs[*at], dtype.bind(py), self.place.bind(py)];
            let tensor = cpython::call_with_vector(self.full.bind(py), &given)?;
            inputs[*at] = tensor;
        }
        Ok(())
    }
}
