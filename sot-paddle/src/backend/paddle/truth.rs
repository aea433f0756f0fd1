//! The truth of a tensor of one element. `Tensor.__bool__` goes through numpy and half a dozen Python functions, which
//! takes longer than most operations. For a branch, the number is read by Paddle's functions in C.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyModule, PyString, PyType};
use sot_core::cpython;

use crate::backend::paddle::Paddle;

/// The Python methods that compute the truth of a tensor, and the module that defines them.
const METHODS: [&str; 3] = ["__bool__", "__nonzero__", "__array__"];
const DEFINED_IN: &str = "paddle.base.dygraph.tensor_patch_methods";

/// The element types whose numbers compare with zero in Python as they do in numpy.
const REAL: [&str; 9] = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"];

/// Conditions under which the number alone decides the truth.
pub(crate) struct Truth {
    methods: [(Py<PyString>, Py<PyAny>); 3],
    /// Paddle's numbers of the element types in [`REAL`].
    real: Vec<i32>,
}

impl Truth {
    /// Returns `None` if tensors compute their truth differently than in known releases, or cannot be read natively.
    pub(crate) fn find(paddle: &Paddle, module: &Bound<'_, PyModule>) -> Option<Truth> {
        let py = module.py();
        let (native, tensor_type) = (paddle.native.as_ref()?, paddle.tensor_type.bind(py));
        let method = |name: &str| {
            let name = PyString::intern(py, name);
            let found = cpython::type_lookup(tensor_type, &name)?;
            let module: String = found.getattr("__module__").ok()?.extract().ok()?;
            (module == DEFINED_IN).then(|| (name.unbind(), found.unbind()))
        };
        let [truth, nonzero, array] = METHODS.map(method);
        let number = |dtype: &str| native.dtype(&module.call_method1("zeros", ([1], dtype)).ok()?);
        Some(Truth {
            methods: [truth?, nonzero?, array?],
            real: REAL.into_iter().map(number).collect::<Option<Vec<_>>>()?,
        })
    }

    /// Returns the truth; `None` if only `bool(tensor)` can tell.
    fn of(&self, paddle: &Paddle, object: &Bound<'_, PyAny>) -> Option<bool> {
        let py = object.py();
        let native = paddle.native.as_ref()?;
        let known = crate::backend::has_exact_type(object, &paddle.tensor_type)
            && native.is_single(object)
            && self.real.contains(&native.dtype(object)?)
            && self.methods.iter().all(|method| is_unchanged(paddle.tensor_type.bind(py), method));
        if !known {
            return None;
        }
        let scalar = object.call_method0(intern!(py, "_getitem_from_offset")).ok()?;
        let number = scalar.call_method0(intern!(py, "item")).ok()?;
        if let Ok(truth) = number.cast_exact::<PyBool>() {
            Some(truth.is_true())
        } else if let Ok(number) = number.cast_exact::<PyFloat>() {
            Some(number.value() > 0.0)
        } else {
            Some(number.cast_exact::<PyInt>().ok()?.extract::<i64>().ok()? > 0)
        }
    }
}

fn is_unchanged(ty: &Bound<'_, PyType>, (name, method): &(Py<PyString>, Py<PyAny>)) -> bool {
    cpython::type_lookup(ty, name.bind(ty.py())).is_some_and(|found| found.is(method))
}

/// Makes a function that returns the truth of an object, or the object itself if the truth is not known.
pub(crate) fn function(py: Python<'_>, paddle: &Arc<Paddle>) -> PyResult<Option<Py<PyAny>>> {
    if paddle.truth.is_none() {
        return Ok(None);
    }
    let paddle = Arc::clone(paddle);
    let function = cpython::fastcall(py, "__truth__", "The truth of a tensor.", move |py, values| {
        let [object] = values else {
            return Err(pyo3::exceptions::PyTypeError::new_err("the truth of one object is asked for"));
        };
        let answer = paddle.truth.as_ref().and_then(|truth| truth.of(&paddle, object));
        Ok(answer
            .map_or_else(|| object.clone().unbind(), |answer| PyBool::new(py, answer).to_owned().into_any().unbind()))
    })?;
    Ok(Some(function.unbind()))
}
