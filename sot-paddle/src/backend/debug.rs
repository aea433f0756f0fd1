//! The backend as private Python objects, for tests: `_GraphBuilder` drives a builder step by step, `_backend_*`
//! functions call the methods of the backend.

use std::sync::Arc;

use once_cell::sync::OnceCell;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sot_core::backend::{
    Backend, CallKind, CallPolicy, GraphBuilder, NoArguments, ObjectTest, StateTest, TensorAttribute,
};
use sot_core::cpython::{Recorder, Snapshot};

use crate::backend::calls::layer::LAYER;
use crate::backend::PaddleBackend;

static BACKEND: OnceCell<Arc<PaddleBackend>> = OnceCell::new();

/// Adds the objects to `module`.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DebugBuilder>()?;
    module.add_class::<DebugTest>()?;
    module.add_class::<DebugNote>()?;
    module.add_function(wrap_pyfunction!(_backend_call_policy, module)?)?;
    module.add_function(wrap_pyfunction!(_backend_tensor_test, module)?)?;
    module.add_function(wrap_pyfunction!(_backend_state_test, module)?)?;
    module.add_function(wrap_pyfunction!(_backend_leaf_layer, module)?)?;
    Ok(())
}

fn backend(py: Python<'_>) -> PyResult<&'static Arc<PaddleBackend>> {
    BACKEND.get_or_try_init(|| PaddleBackend::new(py).map(Arc::new))
}

/// A builder, driven from Python.
#[pyclass(name = "_GraphBuilder", unsendable)]
struct DebugBuilder {
    builder: Option<Box<dyn GraphBuilder>>,
}

impl DebugBuilder {
    fn builder(&mut self) -> PyResult<&mut Box<dyn GraphBuilder>> {
        self.builder.as_mut().ok_or_else(|| PyRuntimeError::new_err("the graph is finished"))
    }
}

#[pymethods]
impl DebugBuilder {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        Ok(DebugBuilder { builder: Some(backend(py)?.begin(py)?) })
    }

    fn input(&mut self, name: &str, tensor: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let meta = backend(tensor.py())?.meta(tensor)?;
        self.builder()?.input(name, tensor, &meta)
    }

    fn parameter(&mut self, tensor: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.builder()?.parameter(tensor)
    }

    #[pyo3(signature = (kind, callee, *args, **kwargs))]
    fn call<'py>(
        &mut self,
        kind: &str,
        callee: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kind = match kind {
            "api" => CallKind::Api,
            "method" => CallKind::Method,
            "layer" => LAYER,
            "inplace" => CallKind::InPlace,
            _ => return Err(PyValueError::new_err("kind is api, method or layer")),
        };
        self.builder()?.call(kind, callee, args, kwargs)
    }

    fn value_meta(&mut self, object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
        Ok(self.builder()?.value_meta(object)?.map(|meta| meta.to_string()))
    }

    /// Returns the attribute's kind, and its value or the reason of the graph break.
    fn attribute(&mut self, value: &Bound<'_, PyAny>, name: &str) -> PyResult<(&'static str, Py<PyAny>)> {
        let py = value.py();
        let meta = self.builder()?.value_meta(value)?.ok_or_else(|| PyValueError::new_err("no value of a graph"))?;
        Ok(match backend(py)?.tensor_attribute(py, name, &meta, value)? {
            TensorAttribute::Known(known) => ("known", known),
            TensorAttribute::Sizes(ty) | TensorAttribute::Elements(ty) => ("break", ty),
            TensorAttribute::OpenSizes(why) => ("break", why.into_pyobject(py)?.into_any().unbind()),
            TensorAttribute::Method | TensorAttribute::Becoming | TensorAttribute::Copy { .. } => ("method", py.None()),
            TensorAttribute::Follow => ("follow", py.None()),
            TensorAttribute::InPlace(_) => ("inplace", py.None()),
            TensorAttribute::Operation => ("operation", py.None()),
            TensorAttribute::Missing => ("missing", py.None()),
            TensorAttribute::Text { .. } => ("text", py.None()),
            TensorAttribute::Break(reason) | TensorAttribute::Outside { why: reason, .. } => {
                ("break", reason.into_pyobject(py)?.into_any().unbind())
            }
        })
    }

    fn finish(&mut self, py: Python<'_>, inputs: &Bound<'_, PyAny>, outputs: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let (inputs, outputs): (Vec<Py<PyAny>>, Vec<Py<PyAny>>) = (inputs.extract()?, outputs.extract()?);
        let builder = self.builder.take().ok_or_else(|| PyRuntimeError::new_err("the graph is finished"))?;
        builder.finish(py, "graph", &inputs, &outputs)
    }
}

/// A test made by the backend.
#[pyclass(name = "_BackendTest", frozen)]
struct DebugTest {
    test: Test,
}

enum Test {
    Object(Box<dyn ObjectTest>),
    State(Box<dyn StateTest>),
}

#[pymethods]
impl DebugTest {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        match &self.test {
            Test::Object(test) => test.check(object),
            Test::State(test) => test.check(object.py()),
        }
    }

    /// Snapshot of the memory that the test's answer for `object` rests on; `None` if memory does not decide it.
    fn note(&self, object: Bound<'_, PyAny>) -> Option<DebugNote> {
        let Test::Object(test) = &self.test else { return None };
        let mut recorder = Recorder::default();
        let place = recorder.root(&object);
        test.note(&place, &mut recorder).then(|| DebugNote { snapshot: recorder.finish(), object: object.unbind() })
    }

    fn describe(&self) -> String {
        match &self.test {
            Test::Object(test) => test.describe("x"),
            Test::State(test) => test.describe(),
        }
    }
}

/// Snapshot of memory as it was when a test passed.
#[pyclass(name = "_BackendNote", frozen)]
struct DebugNote {
    snapshot: Snapshot,
    object: Py<PyAny>,
}

#[pymethods]
impl DebugNote {
    fn holds(&self, py: Python<'_>) -> bool {
        self.snapshot.check(py, &[self.object.bind(py).clone()]).is_ok()
    }
}

#[pyfunction]
fn _backend_call_policy(callable: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(match backend(callable.py())?.call_policy(callable, &mut NoArguments) {
        CallPolicy::Follow | CallPolicy::FollowOrCall | CallPolicy::FollowOutside(_) => "follow".to_owned(),
        CallPolicy::Api | CallPolicy::InPlaceIf { .. } => "api".to_owned(),
        CallPolicy::Switch => "switch".to_owned(),
        CallPolicy::InPlace => "in-place".to_owned(),
        CallPolicy::Manager => "manager".to_owned(),
        CallPolicy::Constant => "constant".to_owned(),
        CallPolicy::Make => "make".to_owned(),
        CallPolicy::Method(name) => format!("method {name}"),
        CallPolicy::Break(reason) | CallPolicy::ReadsValue(reason) | CallPolicy::Listed(reason) => reason,
    })
}

#[pyfunction]
fn _backend_tensor_test(tensor: &Bound<'_, PyAny>) -> PyResult<DebugTest> {
    let backend = backend(tensor.py())?;
    Ok(DebugTest { test: Test::Object(backend.tensor_test(tensor, &backend.meta(tensor)?, 0)?) })
}

#[pyfunction]
fn _backend_state_test(py: Python<'_>) -> PyResult<DebugTest> {
    Ok(DebugTest { test: Test::State(backend(py)?.state_test(py)?) })
}

/// Names of the attributes that a leaf layer's forward reads, `None` for any other object.
#[pyfunction]
fn _backend_leaf_layer(layer: &Bound<'_, PyAny>) -> PyResult<Option<Vec<String>>> {
    let backend = backend(layer.py())?;
    if backend.is_leaf_layer(layer) {
        Ok(Some(backend.layer_reads(layer)?.iter().map(ToString::to_string).collect()))
    } else {
        Ok(None)
    }
}
