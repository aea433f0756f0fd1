//! Inputs that a graph writes to. A program returns their new numbers as results, which are copied into the tensors
//! after the run. That is right if such an input shares memory with no other tensor and is contiguous. Otherwise the
//! statements are called one by one, and do what they do in eager mode.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::backend::graph::outputs::Origin;
use crate::backend::paddle::Paddle;

/// The writes of a graph to its inputs.
pub(crate) struct GraphWrites {
    pub(crate) each: Vec<Write>,
    /// Calls the graph's statements one by one.
    pub(crate) calls: Py<PyAny>,
}

/// A write to one input: the indices of the input and of the result that it gets.
pub(crate) struct Write {
    pub(crate) input: usize,
    pub(crate) result: usize,
    /// Number of writes that autograd counts for the tensor.
    pub(crate) versions: usize,
    /// True if the tensor has a gradient of its own, and the write is not recorded for it.
    pub(crate) keeps_gradient: bool,
    /// The tensors whose `clear_gradient` wrote to this one. It also notes that the next backward pass may write over
    /// the gradient, so it is called again before the write.
    pub(crate) cleared_for: Vec<Origin>,
}

impl GraphWrites {
    /// Returns the memory of the written inputs, if it is shared with no other tensor that the graph is given.
    pub(crate) fn exclusive_memory(
        &self,
        inputs: &[Bound<'_, PyAny>],
        parameters: &Bound<'_, PyTuple>,
    ) -> PyResult<Option<TensorsMemory>> {
        let written: Vec<&Bound<'_, PyAny>> = self.each.iter().map(|write| &inputs[write.input]).collect();
        let Some(places) = TensorsMemory::of(&written)? else { return Ok(None) };
        let is_written = |at: usize| self.each.iter().any(|write| write.input == at);
        let others = inputs.iter().enumerate().filter(|(at, _)| !is_written(*at)).map(|(_, other)| other.clone());
        for other in others.chain(parameters.iter()).filter(is_tensor) {
            if places.share_memory_with(&other, &written)? {
                return Ok(None);
            }
        }
        Ok(Some(places))
    }

    /// Copies the inputs that are written to: the program's backward pass may read their old numbers.
    pub(crate) fn keep_inputs(&self, inputs: &mut [Bound<'_, PyAny>]) -> PyResult<()> {
        for write in &self.each {
            let input = &mut inputs[write.input];
            let place = input.getattr(intern!(input.py(), "place"))?;
            *input = input.call_method1(intern!(input.py(), "_copy_to"), (place, true))?;
        }
        Ok(())
    }

    /// Writes the program's results to the inputs. Returns the results, copied where they are in the memory that is
    /// written to.
    pub(crate) fn write<'py>(
        &self,
        paddle: &Paddle,
        places: &TensorsMemory,
        computed: &Bound<'py, PyAny>,
        (inputs, parameters): (&[Bound<'py, PyAny>], &Bound<'py, PyTuple>),
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = computed.py();
        let written: Vec<&Bound<'_, PyAny>> = self.each.iter().map(|write| &inputs[write.input]).collect();
        let mut results = computed.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        for result in &mut results {
            if places.share_memory_with(result, &written)? {
                *result = result.call_method0(intern!(py, "clone"))?;
            }
        }
        for write in &self.each {
            for origin in &write.cleared_for {
                let tensor = origin.find(computed, inputs, parameters)?;
                tensor.call_method0(intern!(py, "clear_gradient"))?;
            }
            let written = &inputs[write.input];
            let copy = || written.call_method1(intern!(py, "copy_"), (&results[write.result], false));
            if write.keeps_gradient {
                paddle.without_grad(py, copy)?;
            } else {
                copy()?;
            }
            for _ in 0..write.versions {
                written.call_method0(intern!(py, "_bump_inplace_version"))?;
            }
        }
        Ok(PyTuple::new(py, results)?.into_any())
    }
}

/// True for tensors; numbers are inputs, too.
fn is_tensor(object: &Bound<'_, PyAny>) -> bool {
    object.hasattr(intern!(object.py(), "_is_shared_buffer_with")).unwrap_or(false)
}

fn shares_buffer(tensor: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor.call_method1(intern!(tensor.py(), "_is_shared_buffer_with"), (other,))?.is_truthy()
}

/// The memory of several tensors in order of address. No two of them share memory.
pub(crate) struct TensorsMemory(Vec<AddressRange>);

impl TensorsMemory {
    /// Returns `None` if two tensors share memory, or one is not contiguous.
    fn of(tensors: &[&Bound<'_, PyAny>]) -> PyResult<Option<Self>> {
        let mut places = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            if !is_contiguous(tensor)? {
                return Ok(None);
            }
            places.push(AddressRange::of(tensor)?);
        }
        places.sort_unstable_by_key(|place| (place.start, place.end));
        let meet = places.windows(2).any(|pair| pair[0].overlaps(&pair[1]));
        Ok((!meet).then_some(TensorsMemory(places)))
    }

    /// True if another tensor shares memory with one of these.
    fn share_memory_with(&self, other: &Bound<'_, PyAny>, tensors: &[&Bound<'_, PyAny>]) -> PyResult<bool> {
        let memory = AddressRange::of(other)?;
        let next = self.0.partition_point(|place| place.end <= memory.start);
        if self.0.get(next).is_some_and(|place| place.overlaps(&memory)) {
            return Ok(true);
        }
        if is_contiguous(other)? {
            return Ok(false);
        }
        for tensor in tensors {
            if shares_buffer(tensor, other)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn is_contiguous(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor.call_method0(intern!(tensor.py(), "is_contiguous"))?.is_truthy()
}

/// Start and end address of a tensor's numbers, if it is contiguous. Addresses are compared, not buffers, because
/// tensors in memory from other libraries have a buffer object each.
struct AddressRange {
    start: usize,
    end: usize,
}

impl AddressRange {
    fn of(tensor: &Bound<'_, PyAny>) -> PyResult<AddressRange> {
        let py = tensor.py();
        let start: usize = tensor.call_method0(intern!(py, "data_ptr"))?.extract()?;
        // The attribute `size` calls an operation, which takes many times as long.
        let shape: Vec<usize> = tensor.getattr(intern!(py, "shape"))?.extract()?;
        let items: usize = shape.iter().product();
        let size: usize = tensor.call_method0(intern!(py, "element_size"))?.extract()?;
        Ok(AddressRange { start, end: start + items * size })
    }

    fn overlaps(&self, other: &AddressRange) -> bool {
        self.start < other.end && other.start < self.end
    }
}
