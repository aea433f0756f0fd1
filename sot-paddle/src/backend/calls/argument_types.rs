//! Arguments of types that Paddle checks in eager mode only. Static functions take any sequence or mapping for an axis
//! or a shape, read other objects as one, or crash. Tensors in the place of numbers are in `tensors_for_numbers`.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyEllipsis, PyFloat, PyInt, PyList, PySlice, PyString, PyTuple, PyType};

use crate::backend::numbers::scalar;
use crate::backend::numbers::twin::parts;
use crate::backend::paddle::{meta, Paddle};

use sot_core::cpython;

/// Functions of Python code that take any sequence in eager mode, too.
const TAKING_ANY: [&str; 3] = ["__getitem__", "as_tensor", "to_tensor"];

/// The function that takes any number of tensors as positional arguments.
const TAKING_TENSORS: &str = "meshgrid";

/// The method that reads its operand's shape in eager mode, so that a number is an error there. In a program it takes
/// numbers, too.
const COMPARING_SHAPES: &str = "equal_";

/// Classes of numpy whose objects eager mode knows.
const KNOWN_OF_NUMPY: [&str; 4] = ["bool_", "dtype", "ndarray", "number"];

/// Refuses a call with an argument of such a type.
pub(crate) fn refuse(
    paddle: &Paddle,
    callee: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    if !callee.is_instance_of::<PyString>() && !is_frameworks(callee)? {
        return Ok(());
    }
    let is_index = callee.extract::<&str>().is_ok_and(|name| matches!(name, "__getitem__" | "__setitem__"));
    if is_index {
        refuse_position(paddle, &args.get_item(1)?)?;
    }
    let name = scalar::name(callee)?;
    let is_named = |expected: &[&str]| name.as_deref().is_some_and(|name| expected.contains(&name));
    if is_named(&[COMPARING_SHAPES]) {
        if let Some(number) = args.iter().find(|argument| !paddle.is_value(argument)) {
            let name = cpython::full_type_name(&number.get_type());
            return Err(PyNotImplementedError::new_err(format!("a '{name}' is for eager mode to refuse")));
        }
    }
    if is_named(&[TAKING_TENSORS]) {
        refuse_none_among_tensors(paddle, args)?;
    }
    for argument in args.iter().chain(kwargs.into_iter().flat_map(PyDictMethods::values)) {
        if !is_index {
            refuse_none_among_tensors(paddle, &argument)?;
        }
        if is_known(paddle, &argument)? {
            continue;
        }
        if is_named(&TAKING_ANY) {
            return Ok(());
        }
        let name = cpython::full_type_name(&argument.get_type());
        return Err(PyNotImplementedError::new_err(format!("whether it takes a '{name}' is known in eager mode only")));
    }
    Ok(())
}

/// Refuses an index with a tensor that eager mode takes for no position: one without dimensions, or a bound of a slice,
/// must be of type int32 or int64.
fn refuse_position(paddle: &Paddle, index: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Ok(items) = index.cast::<PyTuple>() {
        return items.iter().try_for_each(|item| refuse_position(paddle, &item));
    }
    if let Ok(slice) = index.cast::<PySlice>() {
        let refuse = |part| refuse_other_type(paddle, &slice.getattr(part)?, &["int32", "int64"]);
        return ["start", "stop", "step"].into_iter().try_for_each(refuse);
    }
    match meta::of_value(paddle, index)? {
        Some(meta) if meta.shape.is_empty() => refuse_other_type(paddle, index, &["bool", "int32", "int64"]),
        _ => Ok(()),
    }
}

fn refuse_other_type(paddle: &Paddle, position: &Bound<'_, PyAny>, allowed: &[&str]) -> PyResult<()> {
    match meta::of_value(paddle, position)? {
        Some(meta) if !allowed.contains(&&*meta.dtype) => {
            Err(PyNotImplementedError::new_err("a position of this element type is for eager mode to refuse"))
        }
        _ => Ok(()),
    }
}

/// Refuses a list of tensors with `None` among them, which static functions leave out.
fn refuse_none_among_tensors(paddle: &Paddle, argument: &Bound<'_, PyAny>) -> PyResult<()> {
    if !argument.is_instance_of::<PyList>() && !argument.is_instance_of::<PyTuple>() {
        return Ok(());
    }
    let parts = parts(argument)?;
    if parts.iter().any(PyAnyMethods::is_none) && parts.iter().any(|part| paddle.is_value(part)) {
        return Err(PyNotImplementedError::new_err("None among tensors is for eager mode to refuse"));
    }
    Ok(())
}

/// True if static mode treats the argument as eager mode does, as far as its type is concerned.
fn is_known(paddle: &Paddle, argument: &Bound<'_, PyAny>) -> PyResult<bool> {
    let plain = argument.is_none()
        || argument.is_exact_instance_of::<PyInt>()
        || argument.is_exact_instance_of::<PyFloat>()
        || argument.is_exact_instance_of::<PyString>()
        || argument.is_instance_of::<PyList>()
        || argument.is_instance_of::<PyTuple>()
        || argument.is_instance_of::<PyDict>()
        || argument.is_instance_of::<PyEllipsis>()
        || argument.is_instance_of::<PyType>()
        || paddle.is_value(argument);
    if plain {
        return Ok(true);
    }
    let ty = argument.get_type();
    let numpy = cpython::import(argument.py(), "numpy")?;
    for name in KNOWN_OF_NUMPY {
        if argument.is_instance(&numpy.getattr(name)?)? {
            return Ok(true);
        }
    }
    if argument.is_instance(&numpy.getattr("generic")?)? {
        return Ok(false);
    }
    if argument.is_instance_of::<PyString>() {
        return Ok(true);
    }
    let has = |name: &str| cpython::type_lookup(&ty, &PyString::intern(argument.py(), name)).is_some();
    Ok(!has("__getitem__") && !has("__len__") || is_frameworks(&ty)?)
}

/// True if the function or type is one of Paddle's.
pub(crate) fn is_frameworks(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let module: Option<String> = object.getattr_opt("__module__")?.and_then(|module| module.extract().ok());
    Ok(module.is_some_and(|module| module == "paddle" || module.starts_with("paddle.")))
}
