//! Functions of Paddle that iterate over a tensor, such as `column_stack(x)`. A value of a program has no length, so
//! Python subscripts it with 0, 1, 2 and so on until an `IndexError`. An open dimension raises none, and the function
//! would never return.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};

use super::refused;
use crate::backend::paddle::Paddle;

/// The first integer that is refused as a subscript of an open dimension. No function of Paddle has a constant subscript
/// as large as this, so one that asks for it iterates.
const LIMIT: i64 = 64;

/// Runs `work`, in which functions of Paddle are called with values of open sizes. A function that iterates over a
/// value raises.
pub(crate) fn refusing_endless<R>(paddle: &Paddle, py: Python<'_>, work: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    let values = paddle.value_type.bind(py);
    let name = intern!(py, "__getitem__");
    let before = values.getattr(intern!(py, "__dict__"))?.get_item(name)?;
    let subscript = values.getattr(name)?.unbind();
    values.setattr(name, BoundedSubscript { subscript })?;
    let result = work();
    values.setattr(name, before)?;
    result
}

/// The method `__getitem__` of values, with [`LIMIT`].
#[pyclass(frozen, module = "sot")]
struct BoundedSubscript {
    subscript: Py<PyAny>,
}

#[pymethods]
impl BoundedSubscript {
    fn __get__(&self, value: Option<Py<PyAny>>, _class: Option<&Bound<'_, PyAny>>, py: Python<'_>) -> BoundSubscript {
        BoundSubscript { subscript: self.subscript.clone_ref(py), value }
    }
}

/// The same method of one value; of no value if it was looked up on the class.
#[pyclass(frozen, module = "sot")]
struct BoundSubscript {
    subscript: Py<PyAny>,
    value: Option<Py<PyAny>>,
}

#[pymethods]
impl BoundSubscript {
    #[pyo3(signature = (*args))]
    fn __call__<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let (value, index) = match (&self.value, args.len()) {
            (Some(value), 1) => (value.bind(py).clone(), args.get_item(0)?),
            (None, 2) => (args.get_item(0)?, args.get_item(1)?),
            _ => return Err(PyTypeError::new_err("a subscript takes one index")),
        };
        let is_beyond = index.cast_exact::<PyInt>().is_ok_and(|index| index.ge(LIMIT).unwrap_or(true));
        if is_beyond {
            let sizes: Vec<i64> = value.getattr(intern!(py, "shape"))?.extract()?;
            if sizes.first().is_some_and(|size| *size < 0) {
                return Err(refused("it takes one item of a dimension after the other"));
            }
        }
        self.subscript.bind(py).call1((value, index))
    }
}
