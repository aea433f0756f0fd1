//! Paddle 3.0: `_legacy_C_ops.pir_run_program` fills outputs that were made beforehand, and takes the program as a
//! flat list of names and values after its arguments.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use sot_core::cpython;

use crate::backend::paddle::release::{none_if_empty, Release, Runner};

/// The table of this release line.
pub(crate) static RELEASE: Release = Release {
    recorder_module: "paddle.jit.pir_dy2static.parameter_recorder",
    divides_by_reciprocal: true,
    rank_dtype: "int32",
    where_float: "float64",
    where_dimensions: 1,
    follows_eager_methods: false,
    set_to_none: &[],
    // `data` is the tensor itself.
    eager_attributes: &[],
    static_methods: &["_create_program", "_append_backward_desc"],
    merges_writes: true,
    runner,
};

fn runner(layer: &Bound<'_, PyAny>, outputs: &Bound<'_, PyList>) -> PyResult<Box<dyn Runner>> {
    let py = layer.py();
    let attributes = layer.call_method1("_prepare_attributes", (true,))?.extract()?;
    let core = cpython::import(py, "paddle")?.getattr("framework")?.getattr("core")?;
    Ok(Box::new(Runner30 {
        function: cpython::import(py, "paddle")?.getattr("_legacy_C_ops")?.getattr("pir_run_program")?.unbind(),
        empty_tensors: core.getattr("create_empty_tensors_with_values")?.unbind(),
        outputs: outputs.clone().unbind(),
        _owner_of_outputs: layer.getattr("_origin_main_program")?.unbind(),
        cuda_graph: layer.getattr("_cuda_graph_vec")?.unbind(),
        attributes,
    }))
}

struct Runner30 {
    function: Py<PyAny>,
    empty_tensors: Py<PyAny>,
    outputs: Py<PyList>,
    /// Kept because values do not keep their program alive.
    _owner_of_outputs: Py<PyAny>,
    cuda_graph: Py<PyAny>,
    attributes: Vec<Py<PyAny>>,
}

impl Runner for Runner30 {
    fn run<'py>(
        &self,
        inputs: &Bound<'py, PyTuple>,
        parameters: &Bound<'py, PyTuple>,
        scope: &Bound<'py, PyList>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = inputs.py();
        let results = self.empty_tensors.bind(py).call1((self.outputs.bind(py),))?;
        let (inputs, parameters) = (none_if_empty(inputs), none_if_empty(parameters));
        let mut arguments = Vec::with_capacity(5 + self.attributes.len());
        arguments.extend([&inputs, &parameters, &results, scope.as_any(), self.cuda_graph.bind(py)]);
        arguments.extend(self.attributes.iter().map(|attribute| attribute.bind(py)));
        cpython::call_with_vector(self.function.bind(py), &arguments)?;
        Ok(results)
    }
}
