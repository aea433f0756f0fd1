//! Arguments that static functions ignore, or act on without the tracer's knowledge.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};

use crate::backend::calls::layer::code_of;
use crate::backend::numbers::scalar;
use crate::backend::paddle::Paddle;

const WRITES: &str = "writes into an existing tensor, which a graph cannot do";

/// The parameters, with what eager functions do with them.
const IGNORED: [(&str, &str); 4] = [
    ("out", WRITES),
    ("output", WRITES),
    ("pin_memory", "asks for pinned memory, which the tensors of a graph do not have"),
    ("requires_grad", "makes a tensor that collects a gradient"),
];

/// The same for parameters of one function. `embedding` scales rows of its weight down to `max_norm`, in place.
const IGNORED_BY: [(&str, &str, &str); 3] =
    [("embedding", "max_norm", WRITES), ("accuracy", "correct", WRITES), ("accuracy", "total", WRITES)];

/// Refuses calls that give such an argument, by name or by position.
pub(crate) fn refuse(
    paddle: &Paddle,
    callee: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let function = scalar::name(callee)?;
    let of_function = IGNORED_BY.into_iter().filter(|(of, ..)| function.as_deref() == Some(of));
    for (name, what) in IGNORED.into_iter().chain(of_function.map(|(_, name, what)| (name, what))) {
        let by_name = kwargs.map(|kwargs| kwargs.get_item(name)).transpose()?.flatten();
        let given = match by_name {
            Some(given) => Some(given),
            None => position(paddle, callee, name, args.len())?.and_then(|at| args.get_item(at).ok()),
        };
        if given.is_some_and(|given| !given.is_none() && !given.is(PyBool::new(callee.py(), false))) {
            return Err(PyNotImplementedError::new_err(format!("argument `{name}` {what}")));
        }
    }
    Ok(())
}

/// Returns the index of the argument that is passed by position under a parameter name, if there is one.
pub(crate) fn position(
    paddle: &Paddle,
    callee: &Bound<'_, PyAny>,
    name: &str,
    given: usize,
) -> PyResult<Option<usize>> {
    let py = callee.py();
    let function = match callee.cast::<PyString>() {
        Ok(method) => Paddle::defined(py, &paddle.tensor_type, method.to_str()?),
        Err(_) => Some(callee.clone()),
    };
    let Some(code) = function.map(|function| code_of(&function)).transpose()?.flatten() else { return Ok(None) };
    let count: usize = code.getattr("co_argcount")?.extract()?;
    let names = code.getattr("co_varnames")?.cast_into::<PyTuple>()?;
    for (at, parameter) in names.iter().take(count.min(given)).enumerate() {
        if parameter.cast::<PyString>()?.to_str()? == name {
            return Ok(Some(at));
        }
    }
    Ok(None)
}
