//! Tensors without elements as arguments. Many kernels of Paddle crash on them, or give another result or gradient than
//! eager mode, which often treats them before a kernel is called. Only functions for which both modes were seen to
//! agree are put into a program.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::backend::numbers::scalar;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// Functions, methods and layers that do the same in both modes. Found by calling all functions with tensors without
/// elements.
const ALIKE: &[&str] = &[
    "Dropout",
    "GELU",
    "LeakyReLU",
    "Linear",
    "ReLU",
    "Sigmoid",
    "SiLU",
    "Tanh",
    "__abs__",
    "__add__",
    "__and__",
    "__div__",
    "__eq__",
    "__ge__",
    "__getitem__",
    "__gt__",
    "__invert__",
    "__le__",
    "__lt__",
    "__matmul__",
    "__mul__",
    "__ne__",
    "__neg__",
    "__or__",
    "__pow__",
    "__radd__",
    "__rdiv__",
    "__rmul__",
    "__rsub__",
    "__rtruediv__",
    "__sub__",
    "__truediv__",
    "abs",
    "add",
    "astype",
    "cast",
    "clone",
    "concat",
    "cos",
    "detach",
    "divide",
    "dropout",
    "exp",
    "expand",
    "flatten",
    "full_like",
    "gelu",
    "leaky_relu",
    "linear",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "matmul",
    "maximum",
    "minimum",
    "multiply",
    "numel",
    "ones_like",
    "pow",
    "relu",
    "relu_",
    "reshape",
    "rsqrt",
    "scale",
    "shape",
    "sigmoid",
    "silu",
    "sin",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "subtract",
    "sum",
    "tanh",
    "tile",
    "transpose",
    "unsqueeze",
    "where",
    "zeros_like",
];

/// Refuses a call that is given a tensor without elements.
pub(crate) fn refuse(
    paddle: &Paddle,
    callee: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let mut given = meta::values_in(paddle, args)?;
    if let Some(kwargs) = kwargs {
        given.extend(meta::values_in(paddle, kwargs)?);
    }
    for value in given {
        let shape: Vec<i64> = value.getattr(intern!(value.py(), "shape"))?.extract()?;
        if !shape.contains(&0) {
            continue;
        }
        let name = match scalar::name(callee)? {
            Some(name) => name,
            None => callee.get_type().name()?.to_string(),
        };
        // As an index, a tensor without elements gives another shape than in eager mode.
        let is_index = name == "__getitem__" && !value.is(&args.get_item(0)?);
        if is_index || !ALIKE.contains(&&*name) {
            return Err(PyNotImplementedError::new_err("it is given a tensor without elements"));
        }
    }
    Ok(())
}
