//! The meaning of NumPy's functions and of the attributes of arrays for a trace.

use std::collections::HashSet;

use pyo3::prelude::*;
use pyo3::types::PyType;
use sot_core::backend::CallPolicy;

/// Functions of module `numpy` whose only effect is to make arrays from their arguments. The shape of the result
/// depends on shapes and known arguments only.
const FUNCTIONS: &[&str] = &[
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "array",
    "around",
    "atleast_1d",
    "atleast_2d",
    "average",
    "broadcast_to",
    "clip",
    "concatenate",
    "cross",
    "cumprod",
    "cumsum",
    "diag",
    "diagonal",
    "diff",
    "dot",
    "einsum",
    "expand_dims",
    "eye",
    "flip",
    "full",
    "full_like",
    "hstack",
    "identity",
    "inner",
    "kron",
    "linspace",
    "matmul",
    "max",
    "mean",
    "median",
    "min",
    "moveaxis",
    "nan_to_num",
    "ones",
    "ones_like",
    "outer",
    "pad",
    "prod",
    "ravel",
    "repeat",
    "reshape",
    "roll",
    "rollaxis",
    "rot90",
    "round",
    "sort",
    "split",
    "squeeze",
    "stack",
    "std",
    "sum",
    "swapaxes",
    "take",
    "take_along_axis",
    "tensordot",
    "tile",
    "trace",
    "transpose",
    "tril",
    "triu",
    "var",
    "vdot",
    "vstack",
    "where",
    "zeros",
    "zeros_like",
];

/// Methods of arrays whose result is an array.
const METHODS: &[&str] = &[
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "astype",
    "clip",
    "conj",
    "conjugate",
    "copy",
    "cumprod",
    "cumsum",
    "diagonal",
    "dot",
    "flatten",
    "max",
    "mean",
    "min",
    "prod",
    "ravel",
    "repeat",
    "reshape",
    "round",
    "squeeze",
    "std",
    "sum",
    "swapaxes",
    "take",
    "trace",
    "transpose",
    "var",
    "view",
    // Operators.
    "__abs__",
    "__add__",
    "__and__",
    "__divmod__",
    "__eq__",
    "__floordiv__",
    "__ge__",
    "__getitem__",
    "__gt__",
    "__invert__",
    "__le__",
    "__lshift__",
    "__lt__",
    "__matmul__",
    "__mod__",
    "__mul__",
    "__ne__",
    "__neg__",
    "__or__",
    "__pos__",
    "__pow__",
    "__radd__",
    "__rand__",
    "__rdivmod__",
    "__rfloordiv__",
    "__rlshift__",
    "__rmatmul__",
    "__rmod__",
    "__rmul__",
    "__ror__",
    "__rpow__",
    "__rrshift__",
    "__rshift__",
    "__rsub__",
    "__rtruediv__",
    "__rxor__",
    "__sub__",
    "__truediv__",
    "__xor__",
];

/// Attributes of arrays that are arrays.
const ARRAYS: &[&str] = &["T", "imag", "mT", "real"];

/// NumPy's functions, by address.
pub(crate) struct Functions {
    addresses: HashSet<usize>,
    array: Py<PyAny>,
    // Keeps the functions alive, so that their addresses are not reused.
    _objects: Vec<Py<PyAny>>,
}

impl Functions {
    pub(crate) fn of(numpy: &Bound<'_, PyModule>) -> PyResult<Functions> {
        let ufunc = numpy.getattr("ufunc")?;
        let mut objects = Vec::new();
        for name in FUNCTIONS {
            objects.extend(numpy.getattr_opt(*name)?.map(Bound::unbind));
        }
        // NumPy's own ufuncs; others may have been made from functions of the program.
        for (_, object) in numpy.dict() {
            if object.is_instance(&ufunc)? {
                objects.push(object.unbind());
            }
        }
        let addresses = objects.iter().map(|object| object.as_ptr() as usize).collect();
        Ok(Functions { addresses, array: numpy.getattr("ndarray")?.unbind(), _objects: objects })
    }

    pub(crate) fn policy(&self, callable: &Bound<'_, PyAny>) -> PyResult<CallPolicy> {
        if self.addresses.contains(&(callable.as_ptr() as usize)) {
            return Ok(CallPolicy::Api);
        }
        if callable.is_instance_of::<PyType>() {
            return Ok(CallPolicy::Follow);
        }
        if let Some(owner) = callable.getattr_opt("__objclass__")? {
            let name: String = callable.getattr("__name__")?.extract()?;
            let is_of_arrays = owner.is(&self.array) && METHODS.contains(&&*name);
            return Ok(if is_of_arrays { CallPolicy::Method(name) } else { CallPolicy::Follow });
        }
        Ok(CallPolicy::Follow)
    }
}

pub(crate) fn is_method(name: &str) -> bool {
    METHODS.contains(&name)
}

pub(crate) fn is_array(name: &str) -> bool {
    ARRAYS.contains(&name)
}
