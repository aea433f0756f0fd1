//! The facts a trace rests on about tensors: reading them off eager tensors and graph values, and testing them again.

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyType};
use sot_core::backend::{ObjectTest, TensorMeta};

use super::paddle::Paddle;

/// Reads one attribute of objects of one kind.
struct Getter {
    name: Py<PyString>,
}

impl Getter {
    fn new(py: Python<'_>, name: &str) -> Self {
        Getter { name: PyString::intern(py, name).unbind() }
    }

    fn get<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        object.getattr(self.name.bind(object.py()))
    }
}

/// The meta of an eager tensor; sparse and other tensors without a dense layout are refused.
pub(crate) fn of_tensor(paddle: &Paddle, tensor: &Bound<'_, PyAny>) -> PyResult<TensorMeta> {
    if !paddle.is_tensor(tensor) {
        return Err(PyTypeError::new_err(format!("{} is no tensor", tensor.get_type())));
    }
    if !tensor.call_method0("is_dense")?.is_truthy()? {
        return Err(PyTypeError::new_err("only dense tensors can be part of a graph"));
    }
    read(tensor)
}

/// The meta of a graph value, `None` for any other object.
pub(crate) fn of_value(paddle: &Paddle, object: &Bound<'_, PyAny>) -> PyResult<Option<TensorMeta>> {
    if paddle.is_value(object) {
        read(object).map(Some)
    } else {
        Ok(None)
    }
}

fn read(tensor: &Bound<'_, PyAny>) -> PyResult<TensorMeta> {
    let shape: Vec<i64> = tensor.getattr("shape")?.extract()?;
    Ok(TensorMeta {
        shape: shape.into_iter().map(|size| (size >= 0).then_some(size)).collect(),
        dtype: dtype_name(&tensor.getattr("dtype")?)?,
        stop_gradient: tensor.getattr("stop_gradient")?.is_truthy()?,
    })
}

/// `float32` for `paddle.float32`.
fn dtype_name(dtype: &Bound<'_, PyAny>) -> PyResult<Rc<str>> {
    let text = dtype.str()?;
    let text = text.to_str()?;
    Ok(text.strip_prefix("paddle.").unwrap_or(text).into())
}

/// Passes for dense tensors of the same type, shape, element type, grad flag and place.
pub(crate) struct TensorTest {
    exact_type: Py<PyType>,
    shape: Vec<i64>,
    dtype: Py<PyAny>,
    stop_gradient: bool,
    /// `None` where there is one place only.
    place: Option<Py<PyAny>>,
    text: String,
    getters: [Getter; 4],
    is_dense: Py<PyString>,
}

impl TensorTest {
    /// The test `tensor` passes now.
    pub(crate) fn new(paddle: &Paddle, tensor: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = tensor.py();
        let meta = of_tensor(paddle, tensor)?;
        let place = match paddle.only_place {
            Some(_) => None,
            None => Some(tensor.getattr("place")?),
        };
        let exact_type = tensor.get_type();
        let mut text = format!("{meta}, type: {}", exact_type.qualname()?);
        if let Some(place) = &place {
            text = format!("{text}, place: {}", place.str()?);
        }
        Ok(TensorTest {
            exact_type: exact_type.unbind(),
            shape: meta.shape.into_iter().map(Option::unwrap_or_default).collect(),
            dtype: tensor.getattr("dtype")?.unbind(),
            stop_gradient: meta.stop_gradient,
            place: place.map(Bound::unbind),
            text,
            getters: ["stop_gradient", "dtype", "shape", "place"].map(|name| Getter::new(py, name)),
            is_dense: PyString::intern(py, "is_dense").unbind(),
        })
    }

    fn passes(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let [stop_gradient, dtype, shape, place] = &self.getters;
        Ok(super::has_exact_type(object, &self.exact_type)
            && stop_gradient.get(object)?.is_truthy()? == self.stop_gradient
            && same(&dtype.get(object)?, &self.dtype)?
            && self.same_shape(&shape.get(object)?)?
            && object.call_method0(self.is_dense.bind(object.py()))?.is_truthy()?
            && self.same_place(place, object)?)
    }

    fn same_shape(&self, shape: &Bound<'_, PyAny>) -> PyResult<bool> {
        // `paddle.Size` is a subclass of list.
        let Ok(shape) = shape.cast::<PyList>() else { return Ok(false) };
        if shape.len() != self.shape.len() {
            return Ok(false);
        }
        for (size, expected) in shape.iter().zip(&self.shape) {
            if size.extract::<i64>()? != *expected {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn same_place(&self, place: &Getter, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        match &self.place {
            None => Ok(true),
            Some(expected) => place.get(object)?.call_method1("_equals", (expected,))?.is_truthy(),
        }
    }
}

impl ObjectTest for TensorTest {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        self.passes(object).unwrap_or(false)
    }

    fn describe(&self, subject: &str) -> String {
        format!("is_tensor_like({subject}, {})", self.text)
    }
}

fn same(left: &Bound<'_, PyAny>, right: &Py<PyAny>) -> PyResult<bool> {
    Ok(left.is(right) || left.eq(right)?)
}
