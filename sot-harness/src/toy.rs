//! The toy backend: tensors over flat lists of numbers, and graphs that replay calls. The framework itself is the
//! Python source beside this file, registered as module `toy`. This file defines only the meaning of its objects for
//! the tracer.

use std::ffi::CStr;
use std::rc::Rc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyType};
use sot_core::backend::{
    Backend, CallPolicy, GivenArguments, GradientFlow, GraphBuilder, MetaTest, ObjectTest, PythonGraph, StateTest,
    TensorAttribute, TensorMeta,
};

sot_core::backend! { "toy", |py| ToyBackend::new(py).map(|toy| Box::new(toy) as Box<dyn Backend>) }

const SOURCE: &str = include_str!("python/toy.py");
const FILE: &CStr = c"<toy>/toy.py";

/// Returns the module `toy`. The first call makes it and adds it to `sys.modules`.
pub fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || {
        let source = std::ffi::CString::new(SOURCE)?;
        let module = PyModule::from_code(py, &source, FILE, c"toy")?;
        py.import("sys")?.getattr("modules")?.set_item("toy", &module)?;
        PyResult::Ok(module.unbind())
    })?;
    Ok(module.bind(py))
}

/// The backend of the toy framework.
struct ToyBackend {
    module: Py<PyModule>,
    tensor: Py<PyType>,
    parameter: Py<PyType>,
    graph_functions: Vec<Py<PyAny>>,
    methods: Vec<String>,
}

impl ToyBackend {
    fn new(py: Python<'_>) -> PyResult<Self> {
        let module = module(py)?;
        Ok(ToyBackend {
            module: module.clone().unbind(),
            tensor: module.getattr("Tensor")?.extract()?,
            parameter: module.getattr("Parameter")?.extract()?,
            graph_functions: module.getattr("_GRAPH_FUNCTIONS")?.extract()?,
            methods: module.getattr("_METHODS")?.extract()?,
        })
    }

    fn is_function(&self, callable: &Bound<'_, PyAny>, name: &str) -> bool {
        self.module.bind(callable.py()).getattr(name).is_ok_and(|function| function.is(callable))
    }
}

fn meta_of(tensor: &Bound<'_, PyAny>) -> PyResult<TensorMeta> {
    let shape: Vec<i64> = tensor.getattr("_shape")?.extract()?;
    let dtype: String = tensor.getattr("dtype")?.extract()?;
    let shape = shape.into_iter().map(Some).collect();
    Ok(TensorMeta { shape, dtype: Rc::from(dtype), gradient: GradientFlow::NONE })
}

impl Backend for ToyBackend {
    fn name(&self) -> &'static str {
        "toy"
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
        let grad = self.module.bind(py).getattr("_grad")?.is_truthy()?;
        Ok(Box::new(GradTest { module: self.module.clone_ref(py), grad }))
    }

    fn tensor_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.tensor.bind(py).clone().into_any())
    }

    fn call_policy(&self, callable: &Bound<'_, PyAny>, given: &mut dyn GivenArguments) -> CallPolicy {
        if self.is_function(callable, "multiply") && given.is_given(2, "out") {
            CallPolicy::Break("it writes into the tensor that is given as `out`".to_owned())
        } else if self.graph_functions.iter().any(|function| callable.is(function)) {
            CallPolicy::Api
        } else if self.is_function(callable, "is_grad_enabled") {
            CallPolicy::Constant
        } else if self.is_function(callable, "set_grad_enabled") {
            CallPolicy::Switch
        } else if self.is_function(callable, "save") {
            CallPolicy::Break("it changes the state of the framework; move the call out of the function".to_owned())
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
            "size" => TensorAttribute::Known(shape.iter().product::<i64>().into_pyobject(py)?.into_any().unbind()),
            "dtype" => TensorAttribute::Known((&*meta.dtype).into_pyobject(py)?.into_any().unbind()),
            "T" => TensorAttribute::Operation,
            _ if self.methods.iter().any(|method| method == name) => TensorAttribute::Method,
            _ if self.tensor.bind(py).hasattr(name)? => {
                TensorAttribute::Break(format!("'{name}' of a tensor needs its value; read it outside the function"))
            }
            _ => TensorAttribute::Missing,
        })
    }

    fn skipped_paths(&self, _: Python<'_>) -> PyResult<Vec<String>> {
        Ok(vec!["<toy>/".to_owned()])
    }

    fn begin(&self, py: Python<'_>) -> PyResult<Box<dyn GraphBuilder>> {
        let module = self.module.bind(py);
        let value: Bound<'_, PyType> = module.getattr("Value")?.extract()?;
        Ok(Box::new(PythonGraph::new(&module.getattr("Graph")?.call0()?, &value, meta_of)))
    }
}

struct GradTest {
    module: Py<PyModule>,
    grad: bool,
}

impl StateTest for GradTest {
    fn check(&self, py: Python<'_>) -> bool {
        let grad = self.module.bind(py).getattr(intern!(py, "_grad")).and_then(|grad| grad.is_truthy());
        grad.is_ok_and(|grad| grad == self.grad)
    }

    fn restore(&self, py: Python<'_>) -> PyResult<()> {
        self.module.bind(py).setattr("_grad", self.grad)
    }

    fn describe(&self) -> String {
        format!("toy.is_grad_enabled() is {}", if self.grad { "True" } else { "False" })
    }
}
