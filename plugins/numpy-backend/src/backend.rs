//! The meaning of NumPy's objects for the tracer.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use sot_core::backend::{
    Backend, CallPolicy, Constants, GivenArguments, GradientFlow, GraphBuilder, ObjectTest, PythonGraph, TensorAttribute,
    TensorMeta,
};

use crate::meaning::{is_array, is_method, Functions};

/// Kinds of element types whose operations run no code of the program.
const KINDS: &str = "biufc";

pub(crate) struct NumPy {
    array: Py<PyType>,
    number: Py<PyAny>,
    functions: Functions,
    folder: String,
}

impl NumPy {
    pub(crate) fn new(py: Python<'_>) -> PyResult<Self> {
        let numpy = py.import("numpy")?;
        let folder: String = numpy.getattr("__path__")?.get_item(0)?.extract()?;
        Ok(NumPy {
            array: numpy.getattr("ndarray")?.extract()?,
            number: numpy.getattr("number")?.unbind(),
            functions: Functions::of(&numpy)?,
            folder: folder + "/",
        })
    }
}

fn is_of_numbers(array: &Bound<'_, PyAny>) -> PyResult<bool> {
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    Ok(KINDS.contains(&kind))
}

/// Returns shape and element type, the latter with its byte order.
pub(crate) fn meta_of(array: &Bound<'_, PyAny>) -> PyResult<TensorMeta> {
    let shape: Vec<i64> = array.getattr("shape")?.extract()?;
    let dtype: String = array.getattr("dtype")?.getattr("str")?.extract()?;
    Ok(TensorMeta {
        shape: shape.into_iter().map(Some).collect(),
        dtype: Rc::from(dtype),
        gradient: GradientFlow::NONE,
    })
}

impl Backend for NumPy {
    fn name(&self) -> &'static str {
        "numpy"
    }

    /// Subclasses are excluded, as they may override any operation.
    fn is_tensor(&self, object: &Bound<'_, PyAny>) -> bool {
        object.get_type().is(&self.array) && is_of_numbers(object).unwrap_or(false)
    }

    fn meta(&self, tensor: &Bound<'_, PyAny>) -> PyResult<TensorMeta> {
        meta_of(tensor)
    }

    fn tensor_test(&self, tensor: &Bound<'_, PyAny>, _: &TensorMeta, _: i64) -> PyResult<Box<dyn ObjectTest>> {
        Ok(Box::new(ArrayTest {
            array: self.array.clone_ref(tensor.py()),
            shape: tensor.getattr("shape")?.extract()?,
            dtype: tensor.getattr("dtype")?.unbind(),
            text: meta_of(tensor)?.to_string(),
        }))
    }

    fn tensor_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.array.bind(py).clone().into_any())
    }

    /// Not only Python functions: `numpy.add` is an object, and from NumPy 1.25 on `numpy.sum` is, too.
    fn call_policy(&self, callable: &Bound<'_, PyAny>, _: &mut dyn GivenArguments) -> CallPolicy {
        self.functions.policy(callable).unwrap_or(CallPolicy::Follow)
    }

    fn tensor_attribute(
        &self,
        py: Python<'_>,
        name: &str,
        meta: &TensorMeta,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<TensorAttribute> {
        let shape = || meta.shape.iter().map(|size| size.unwrap_or(-1));
        let number = |number: i64| -> PyResult<TensorAttribute> {
            Ok(TensorAttribute::Known(number.into_pyobject(py)?.into_any().unbind()))
        };
        let example = value.getattr_opt("example")?.unwrap_or_else(|| value.clone());
        Ok(match name {
            "shape" => TensorAttribute::Known(PyTuple::new(py, shape())?.into_any().unbind()),
            "ndim" => return number(meta.shape.len() as i64),
            "size" => return number(shape().product()),
            "dtype" | "itemsize" | "nbytes" => TensorAttribute::Known(example.getattr(name)?.unbind()),
            _ if is_array(name) && example.hasattr(name)? => TensorAttribute::Operation,
            _ if is_method(name) => TensorAttribute::Method,
            _ if self.array.bind(py).hasattr(name)? => {
                TensorAttribute::Break(format!("ndarray.{name} needs the numbers, or changes them"))
            }
            _ => TensorAttribute::Missing,
        })
    }

    fn skipped_paths(&self, _: Python<'_>) -> PyResult<Vec<String>> {
        Ok(vec![self.folder.clone(), "<sot_numpy>/".to_owned()])
    }

    fn begin(&self, py: Python<'_>) -> PyResult<Box<dyn GraphBuilder>> {
        let module = py.import("sot_numpy._program")?;
        let value: Bound<'_, PyType> = module.getattr("Value")?.extract()?;
        Ok(Box::new(PythonGraph::new(&module.getattr("Graph")?.call0()?, &value, meta_of)))
    }

    fn constants(&self) -> &dyn Constants {
        self
    }
}

impl Constants for NumPy {
    /// A NumPy scalar stays an operand as it is, because its type determines the element type of the result.
    fn number_for(&self, _: &TensorMeta, _: &str, number: &Bound<'_, PyAny>) -> Option<Py<PyAny>> {
        let is_number = number.is_instance(self.number.bind(number.py())).unwrap_or(false);
        is_number.then(|| number.clone().unbind())
    }
}

/// Guard: an array has this shape and element type.
struct ArrayTest {
    array: Py<PyType>,
    shape: Vec<i64>,
    dtype: Py<PyAny>,
    text: String,
}

impl ArrayTest {
    fn is_like(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let dtype = object.getattr("dtype")?;
        let is_of_dtype = dtype.is(&self.dtype) || dtype.eq(&self.dtype)?;
        Ok(is_of_dtype && object.getattr("shape")?.extract::<Vec<i64>>()? == self.shape)
    }
}

impl ObjectTest for ArrayTest {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        object.get_type().is(&self.array) && self.is_like(object).unwrap_or(false)
    }

    fn describe(&self, subject: &str) -> String {
        format!("{subject} is an array {}", self.text)
    }
}
