//! A toy backend whose values have memory. The framework is the Python source beside this file, registered as module
//! `strided`; this file says only what its objects mean to the tracer.

use std::ffi::{CStr, CString};
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyType};
use sot_core::backend::{
    Backend, CallPolicy, GivenArguments, GradientFlow, GraphBuilder, MetaTest, ObjectTest, ObjectsTest, PythonGraph,
    Returns, StateTest, TensorAttribute, TensorMeta, ValueMemory,
};

sot_core::backend! { "strided", |py| StridedBackend::new(py).map(|backend| Box::new(backend) as Box<dyn Backend>) }

const SOURCE: &str = include_str!("python/strided.py");
const FILE: &CStr = c"<strided>/strided.py";

/// The module `strided`; made and put into `sys.modules` at the first question.
pub fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || {
        let module = PyModule::from_code(py, &CString::new(SOURCE)?, FILE, c"strided")?;
        py.import("sys")?.getattr("modules")?.set_item("strided", &module)?;
        PyResult::Ok(module.unbind())
    })?;
    Ok(module.bind(py))
}

struct StridedBackend {
    module: Py<PyModule>,
    tensor: Py<PyType>,
    parameter: Py<PyType>,
    graph_functions: Vec<Py<PyAny>>,
    methods: Vec<String>,
    in_place: Vec<String>,
}

impl StridedBackend {
    fn new(py: Python<'_>) -> PyResult<Self> {
        let module = module(py)?;
        Ok(StridedBackend {
            module: module.clone().unbind(),
            tensor: module.getattr("Tensor")?.extract()?,
            parameter: module.getattr("Parameter")?.extract()?,
            graph_functions: module.getattr("_GRAPH_FUNCTIONS")?.extract()?,
            methods: module.getattr("_METHODS")?.extract()?,
            in_place: module.getattr("_IN_PLACE")?.extract()?,
        })
    }

    fn is_function(&self, callable: &Bound<'_, PyAny>, name: &str) -> bool {
        self.module.bind(callable.py()).getattr(name).is_ok_and(|function| function.is(callable))
    }
}

/// How the tensor lies in memory is a part of its element type: what is a view and what a copy depends on it.
fn meta_of(tensor: &Bound<'_, PyAny>) -> PyResult<TensorMeta> {
    let shape: Vec<i64> = tensor.getattr("_shape")?.extract()?;
    let strides: Vec<i64> = tensor.getattr("_strides")?.extract()?;
    let dtype = format!("float64, strides {strides:?}");
    let shape = shape.into_iter().map(Some).collect();
    Ok(TensorMeta { shape, dtype: Rc::from(dtype), gradient: GradientFlow::NONE })
}

impl Backend for StridedBackend {
    fn name(&self) -> &'static str {
        "strided"
    }

    fn is_tensor(&self, object: &Bound<'_, PyAny>) -> bool {
        let ty = object.get_type();
        ty.is(&self.tensor) || ty.is(&self.parameter)
    }

    fn is_parameter(&self, object: &Bound<'_, PyAny>) -> bool {
        object.get_type().is(&self.parameter)
    }

    fn meta(&self, tensor: &Bound<'_, PyAny>) -> PyResult<TensorMeta> {
        meta_of(tensor)
    }

    fn tensor_test(&self, tensor: &Bound<'_, PyAny>, _: &TensorMeta, _: i64) -> PyResult<Box<dyn ObjectTest>> {
        MetaTest::of(tensor, meta_of)
    }

    fn state_test(&self, py: Python<'_>) -> PyResult<Box<dyn StateTest>> {
        let scale = self.module.bind(py).getattr("_scale")?.extract()?;
        Ok(Box::new(ScaleTest { module: self.module.clone_ref(py), scale }))
    }

    fn tensor_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.tensor.bind(py).clone().into_any())
    }

    fn call_policy(&self, callable: &Bound<'_, PyAny>, _: &mut dyn GivenArguments) -> CallPolicy {
        if self.graph_functions.iter().any(|function| callable.is(function)) {
            CallPolicy::Api
        } else if self.is_function(callable, "add") {
            CallPolicy::InPlaceIf { argument: "inplace", at: 2 }
        } else if self.is_function(callable, "scale") {
            CallPolicy::Constant
        } else if self.is_function(callable, "set_scale") {
            CallPolicy::Switch
        } else if ["manual_seed", "tensor"].iter().any(|name| self.is_function(callable, name)) {
            CallPolicy::Break("it runs for real; move the call out of the function".to_owned())
        } else {
            CallPolicy::Follow
        }
    }

    fn tensor_attribute(
        &self,
        py: Python<'_>,
        name: &str,
        meta: &TensorMeta,
        _: &Bound<'_, PyAny>,
    ) -> PyResult<TensorAttribute> {
        let shape: Vec<i64> = meta.shape.iter().map(|size| size.unwrap_or(-1)).collect();
        Ok(match name {
            "shape" => TensorAttribute::Known(PyList::new(py, shape)?.into_any().unbind()),
            "ndim" => TensorAttribute::Known(shape.len().into_pyobject(py)?.into_any().unbind()),
            "T" => TensorAttribute::Operation,
            _ if self.in_place.iter().any(|method| method == name) => TensorAttribute::InPlace(Returns::It),
            _ if self.methods.iter().any(|method| method == name) => TensorAttribute::Method,
            _ if self.tensor.bind(py).hasattr(name)? => {
                TensorAttribute::Break(format!("'{name}' of a tensor needs its value; read it outside the function"))
            }
            _ => TensorAttribute::Missing,
        })
    }

    fn skipped_paths(&self, _: Python<'_>) -> PyResult<Vec<String>> {
        Ok(vec!["<strided>/".to_owned()])
    }

    fn begin(&self, py: Python<'_>) -> PyResult<Box<dyn GraphBuilder>> {
        let module = self.module.bind(py);
        let value: Bound<'_, PyType> = module.getattr("Value")?.extract()?;
        Ok(Box::new(PythonGraph::new(&module.getattr("Graph")?.call0()?, &value, meta_of).with_memory()))
    }

    fn value_memory(&self) -> Option<&dyn ValueMemory> {
        Some(self)
    }
}

impl ValueMemory for StridedBackend {
    fn sharing_test(&self, tensors: &[Bound<'_, PyAny>]) -> PyResult<Option<Box<dyn ObjectsTest>>> {
        let expected = storages(tensors.iter())?;
        Ok((tensors.len() > 1).then(|| Box::new(SharingTest(expected)) as Box<dyn ObjectsTest>))
    }
}

/// For each tensor, the first one that has the same storage.
struct SharingTest(Vec<usize>);

fn storages<'a, 'py: 'a>(tensors: impl Iterator<Item = &'a Bound<'py, PyAny>>) -> PyResult<Vec<usize>> {
    let storages = tensors.map(|tensor| tensor.getattr("_storage")).collect::<PyResult<Vec<_>>>()?;
    let first = |storage: &Bound<'_, PyAny>| storages.iter().position(|other| other.is(storage)).unwrap_or_default();
    Ok(storages.iter().map(first).collect())
}

impl ObjectsTest for SharingTest {
    fn check(&self, objects: &[&Bound<'_, PyAny>]) -> bool {
        storages(objects.iter().copied()).is_ok_and(|storages| storages == self.0)
    }

    fn describe(&self, subjects: &[String]) -> String {
        format!("storages of {} are those of numbers {:?}", subjects.join(", "), self.0)
    }
}

struct ScaleTest {
    module: Py<PyModule>,
    scale: f64,
}

impl StateTest for ScaleTest {
    fn check(&self, py: Python<'_>) -> bool {
        let scale = self.module.bind(py).getattr("_scale").and_then(|scale| scale.extract::<f64>());
        scale.is_ok_and(|scale| scale.to_bits() == self.scale.to_bits())
    }

    fn restore(&self, py: Python<'_>) -> PyResult<()> {
        self.module.bind(py).setattr("_scale", self.scale)
    }

    fn describe(&self) -> String {
        format!("strided.scale() == {}", self.scale)
    }
}
