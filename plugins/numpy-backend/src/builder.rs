//! A graph while it is built: the work is done by `_program.py`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use sot_core::backend::{CallKind, GraphBuilder, TensorMeta};

use crate::backend::meta_of;

pub(crate) struct NumPyBuilder {
    graph: Py<PyAny>,
    value: Py<PyType>,
    refused: Py<PyAny>,
}

impl NumPyBuilder {
    pub(crate) fn new(py: Python<'_>) -> PyResult<Self> {
        let module = py.import("sot_numpy._program")?;
        Ok(NumPyBuilder {
            graph: module.getattr("Graph")?.call0()?.unbind(),
            value: module.getattr("Value")?.extract()?,
            refused: module.getattr("Refused")?.unbind(),
        })
    }

    fn refuse(&self, py: Python<'_>, why: &str) -> PyErr {
        match self.refused.bind(py).call1((why,)) {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        }
    }
}

impl GraphBuilder for NumPyBuilder {
    fn input(&mut self, _: &str, array: &Bound<'_, PyAny>, _: &TensorMeta) -> PyResult<Py<PyAny>> {
        self.graph.call_method1(array.py(), "input", (array,))
    }

    fn parameter(&mut self, array: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        Err(self.refuse(array.py(), "NumPy has no parameters"))
    }

    fn call<'py>(
        &mut self,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = callee.py();
        let kind = match kind {
            CallKind::Api => "function",
            CallKind::Method => "method",
            _ => return Err(self.refuse(py, "it changes an array in place")),
        };
        let kwargs = kwargs.map_or_else(|| PyDict::new(py), Clone::clone);
        self.graph.bind(py).call_method1("call", (kind, callee, args, kwargs))
    }

    fn value_meta(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<TensorMeta>> {
        if !object.get_type().is(&self.value) {
            return Ok(None);
        }
        meta_of(&object.getattr("example")?).map(Some)
    }

    fn finish(
        self: Box<Self>,
        py: Python<'_>,
        name: &str,
        inputs: &[Py<PyAny>],
        outputs: &[Py<PyAny>],
    ) -> PyResult<Py<PyAny>> {
        self.graph.call_method1(py, "finish", (name, PyList::new(py, inputs)?, PyList::new(py, outputs)?))
    }

    fn program(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let lines = self.graph.bind(py).getattr("lines").and_then(|lines| lines.extract::<Vec<String>>()).ok()?;
        lines.join("\n").into_pyobject(py).ok().map(|text| text.into_any().unbind())
    }
}
