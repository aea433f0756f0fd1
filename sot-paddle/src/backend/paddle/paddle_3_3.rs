//! Paddle 3.3: `_C_ops.run_program` makes its outputs itself and takes the program as one capsule.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use sot_core::cpython;

use crate::backend::paddle::release::{none_if_empty, Release, Runner};

/// The table of this release line.
pub(crate) static RELEASE: Release = Release {
    recorder_module: "paddle.jit.dy2static.parameter_recorder",
    divides_by_reciprocal: false,
    rank_dtype: "int64",
    where_float: "float32",
    where_dimensions: 0,
    follows_eager_methods: true,
    set_to_none: &["grad"],
    eager_attributes: &[("data", "detach")],
    static_methods: &["_create_program", "_append_backward"],
    merges_writes: false,
    runner,
};

fn runner(layer: &Bound<'_, PyAny>, _outputs: &Bound<'_, PyList>) -> PyResult<Box<dyn Runner>> {
    let py = layer.py();
    let (attributes, cuda_graph) =
        layer.call_method1("_prepare_attributes", (true,))?.extract::<(Py<PyAny>, Py<PyAny>)>()?;
    let function = cpython::import(py, "paddle")?.getattr("_C_ops")?.getattr("run_program")?.unbind();
    Ok(Box::new(Runner33 { function, attributes, cuda_graph }))
}

struct Runner33 {
    function: Py<PyAny>,
    attributes: Py<PyAny>,
    cuda_graph: Py<PyAny>,
}

impl Runner for Runner33 {
    fn run<'py>(
        &self,
        inputs: &Bound<'py, PyTuple>,
        parameters: &Bound<'py, PyTuple>,
        scope: &Bound<'py, PyList>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = inputs.py();
        let arguments = [
            &none_if_empty(inputs),
            &none_if_empty(parameters),
            scope.as_any(),
            self.attributes.bind(py),
            self.cuda_graph.bind(py),
        ];
        cpython::call_with_vector(self.function.bind(py), &arguments)
    }
}
