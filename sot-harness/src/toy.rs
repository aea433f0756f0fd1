//! The toy backend: tensors over flat lists of numbers, and graphs that replay calls. The framework is the Python
//! source beside this file, registered as module `toy`; here is only what its objects mean to the tracer.

use std::ffi::CStr;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use sot_core::backend::{
    Backend, CallKind, CallPolicy, GivenArguments, GradientFlow, GraphBuilder, ObjectTest, StateTest, TensorAttribute,
    TensorMeta,
};

sot_core::backend! { "toy", |py| ToyBackend::new(py).map(|toy| Box::new(toy) as Box<dyn Backend>) }

const SOURCE: &str = include_str!("python/toy.py");
const FILE: &CStr = c"<toy>/toy.py";

/// The module `toy`; made and put into `sys.modules` at the first question.
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

/// The toy framework, as the tracer sees it.
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

fn shape_of(tensor: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    tensor.getattr("_shape")?.extract()
}

fn dtype_of(tensor: &Bound<'_, PyAny>) -> PyResult<String> {
    tensor.getattr("dtype")?.extract()
}

fn meta_of(tensor: &Bound<'_, PyAny>) -> PyResult<TensorMeta> {
    let shape = shape_of(tensor)?.into_iter().map(Some).collect();
    Ok(TensorMeta { shape, dtype: Rc::from(dtype_of(tensor)?), gradient: GradientFlow::NONE })
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
        let ty = tensor.get_type().unbind();
        Ok(Box::new(TensorTest { ty, shape: shape_of(tensor)?, dtype: dtype_of(tensor)? }))
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
        Ok(Box::new(ToyBuilder {
            graph: module.getattr("Graph")?.call0()?.unbind(),
            value: module.getattr("Value")?.extract()?,
        }))
    }
}

struct TensorTest {
    ty: Py<PyType>,
    shape: Vec<i64>,
    dtype: String,
}

impl ObjectTest for TensorTest {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        object.get_type().is(&self.ty)
            && shape_of(object).is_ok_and(|shape| shape == self.shape)
            && dtype_of(object).is_ok_and(|dtype| dtype == self.dtype)
    }

    fn describe(&self, subject: &str) -> String {
        format!("is_tensor({subject}, {:?}, {})", self.shape, self.dtype)
    }
}

struct GradTest {
    module: Py<PyModule>,
    grad: bool,
}

impl StateTest for GradTest {
    fn check(&self, py: Python<'_>) -> bool {
        let grad = self.module.bind(py).getattr("_grad").and_then(|grad| grad.is_truthy());
        grad.is_ok_and(|grad| grad == self.grad)
    }

    fn restore(&self, py: Python<'_>) -> PyResult<()> {
        self.module.bind(py).setattr("_grad", self.grad)
    }

    fn describe(&self) -> String {
        format!("toy.is_grad_enabled() is {}", if self.grad { "True" } else { "False" })
    }
}

struct ToyBuilder {
    graph: Py<PyAny>,
    value: Py<PyType>,
}

impl GraphBuilder for ToyBuilder {
    fn input(&mut self, _: &str, tensor: &Bound<'_, PyAny>, _: &TensorMeta) -> PyResult<Py<PyAny>> {
        self.graph.call_method1(tensor.py(), "input", (tensor,))
    }

    fn parameter(&mut self, tensor: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.graph.call_method1(tensor.py(), "parameter", (tensor,))
    }

    fn call<'py>(
        &mut self,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = callee.py();
        let kind = if kind == CallKind::Method { "method" } else { "function" };
        let kwargs = kwargs.map_or_else(|| PyDict::new(py), Clone::clone);
        self.graph.bind(py).call_method1("call", (kind, callee, args, kwargs))
    }

    fn value_meta(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<TensorMeta>> {
        if object.get_type().is(&self.value) {
            meta_of(&object.getattr("example")?).map(Some)
        } else {
            Ok(None)
        }
    }

    fn finish(
        self: Box<Self>,
        py: Python<'_>,
        _: &str,
        inputs: &[Py<PyAny>],
        outputs: &[Py<PyAny>],
    ) -> PyResult<Py<PyAny>> {
        self.graph.call_method1(py, "finish", (PyList::new(py, inputs)?, PyList::new(py, outputs)?))
    }
}
