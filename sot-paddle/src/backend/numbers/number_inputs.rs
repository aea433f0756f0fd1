//! Inputs of a graph that are Python numbers or arrays, and tensors in the program.

use pyo3::prelude::*;
use pyo3::types::PyList;
use sot_core::cpython;

use crate::backend::paddle::state;
use crate::backend::paddle::Paddle;

/// The Python type of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GivenAs {
    /// A number: a tensor without dimensions in the program.
    Number,
    /// An array: the tensor that eager mode makes of it.
    Array,
}

/// Makes the tensors of these inputs.
pub(crate) struct NumberInputs {
    /// The C function behind `paddle.full`, which itself takes three times as long.
    full: Py<PyAny>,
    to_tensor: Py<PyAny>,
    shape: Py<PyList>,
    place: Py<PyAny>,
    /// Positions of the inputs, with the element type of the tensor for a number, and `None` for an array.
    each: Vec<(usize, Option<Py<PyAny>>)>,
}

impl NumberInputs {
    /// Prepares the inputs at the positions `at`.
    pub(crate) fn new(paddle: &Paddle, inputs: &Bound<'_, PyList>, at: &[(usize, GivenAs)]) -> PyResult<Self> {
        let py = inputs.py();
        let dtype = |&(at, given): &(usize, GivenAs)| {
            let dtype = || PyResult::Ok(inputs.get_item(at)?.getattr("dtype")?.unbind());
            PyResult::Ok((at, (given == GivenAs::Number).then(dtype).transpose()?))
        };
        let module = cpython::import(py, "paddle")?;
        Ok(NumberInputs {
            full: module.getattr("_C_ops")?.getattr("full")?.unbind(),
            to_tensor: module.getattr("to_tensor")?.unbind(),
            shape: PyList::empty(py).unbind(),
            place: state::expected_place(py, paddle)?.unbind(),
            each: at.iter().map(dtype).collect::<PyResult<_>>()?,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Replaces the numbers and arrays by tensors.
    pub(crate) fn make(&self, inputs: &mut [Bound<'_, PyAny>]) -> PyResult<()> {
        for (at, dtype) in &self.each {
            let py = inputs[*at].py();
            let tensor = match dtype {
                Some(dtype) => {
                    let given = [self.shape.bind(py).as_any(), &inputs[*at], dtype.bind(py), self.place.bind(py)];
                    cpython::call_with_vector(self.full.bind(py), &given)?
                }
                None => cpython::call_with_vector(self.to_tensor.bind(py), &[&inputs[*at]])?,
            };
            inputs[*at] = tensor;
        }
        Ok(())
    }
}
