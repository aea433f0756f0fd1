//! Inputs that a graph changes in place. A program gives their new numbers as results, which are written into the tensors when
//! it has run. That is right where an input shares memory with no other one and its memory is in order; where not, the
//! statements are called one by one instead, and do what they do in eager mode.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// What a graph writes.
pub(super) struct Writes {
    pub(super) each: Vec<Write>,
    /// Its statements, called one by one.
    pub(super) calls: Py<PyAny>,
}

/// What an input is to have.
pub(super) struct Write {
    pub(super) input: usize,
    pub(super) result: usize,
    /// How many versions of the tensor autograd is to count.
    pub(super) versions: usize,
}

impl Writes {
    /// Whether what is written shares no memory with other tensors that the graph is given.
    pub(super) fn are_alone(&self, inputs: &[Bound<'_, PyAny>], parameters: &Bound<'_, PyTuple>) -> PyResult<bool> {
        for write in &self.each {
            let written = &inputs[write.input];
            if !written.call_method0(intern!(written.py(), "is_contiguous"))?.is_truthy()? {
                return Ok(false);
            }
            let memory = Memory::of(written)?;
            let others = inputs.iter().enumerate().filter(|(at, _)| *at != write.input).map(|(_, other)| other.clone());
            for other in others.chain(parameters.iter()).filter(is_tensor) {
                if shares_buffer(written, &other)? || memory.meets(&Memory::of(&other)?) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The inputs of a program whose backward pass may read them when they have been written to.
    pub(super) fn keep_inputs(&self, inputs: &mut [Bound<'_, PyAny>]) -> PyResult<()> {
        for write in &self.each {
            let input = &mut inputs[write.input];
            let place = input.getattr(intern!(input.py(), "place"))?;
            *input = input.call_method1(intern!(input.py(), "_copy_to"), (place, true))?;
        }
        Ok(())
    }

    /// Writes; gives the results, none of which is in the memory written to.
    pub(super) fn write<'py>(
        &self,
        results: &Bound<'py, PyAny>,
        inputs: &[Bound<'py, PyAny>],
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = results.py();
        let mut results = results.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        for write in &self.each {
            let written = &inputs[write.input];
            for result in &mut results {
                if shares_buffer(written, result)? {
                    *result = result.call_method0(intern!(py, "clone"))?;
                }
            }
        }
        for write in &self.each {
            let written = &inputs[write.input];
            written.call_method1(intern!(py, "copy_"), (&results[write.result], false))?;
            for _ in 0..write.versions {
                written.call_method0(intern!(py, "_bump_inplace_version"))?;
            }
        }
        Ok(PyTuple::new(py, results)?.into_any())
    }
}

/// Numbers are inputs, too.
fn is_tensor(object: &Bound<'_, PyAny>) -> bool {
    object.hasattr(intern!(object.py(), "_is_shared_buffer_with")).unwrap_or(false)
}

fn shares_buffer(tensor: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor.call_method1(intern!(tensor.py(), "_is_shared_buffer_with"), (other,))?.is_truthy()
}

/// From where to where a tensor's numbers are, as far as they are without gaps: memory that other libraries gave has a buffer
/// for each tensor.
struct Memory {
    start: usize,
    end: usize,
}

impl Memory {
    fn of(tensor: &Bound<'_, PyAny>) -> PyResult<Memory> {
        let py = tensor.py();
        let start: usize = tensor.call_method0(intern!(py, "data_ptr"))?.extract()?;
        let items: usize = tensor.getattr(intern!(py, "size"))?.extract()?;
        let size: usize = tensor.call_method0(intern!(py, "element_size"))?.extract()?;
        Ok(Memory { start, end: start + items * size })
    }

    fn meets(&self, other: &Memory) -> bool {
        self.start < other.end && other.start < self.end
    }
}
