//! Tensors made of Python data, or of arrays made in the trace. The data are known and guarded. The tensor is made
//! once, in eager mode, and its values become a constant of the program; each run makes a new tensor from the
//! constant.

use pyo3::basic::CompareOp;
use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyTuple, PyType};
use sot_core::backend::{CallKind, SizesMatter};
use sot_core::cpython;
use sot_variables::numpy;
use sot_variables::numpy::small_array;

use crate::backend::memory::views::is_plain;
use crate::backend::numbers::sizes::NumberValues;
use crate::backend::numbers::twin::parts;
use crate::backend::paddle::meta;
use crate::backend::paddle::static_mode::BuildTarget;
use crate::backend::paddle::Paddle;

/// Functions that make a tensor of Python data, in `paddle.tensor.creation`.
const MAKERS: &[&str] = &["as_tensor", "asarray", "tensor", "to_tensor"];

/// Element types that constants of a program can have.
pub(crate) const TYPES: &[&str] = &["bool", "float32", "float64", "int32", "int64"];

/// Operator methods that convert an array operand to a tensor.
pub(crate) const OPERATORS: &[&str] = &[
    "__add__",
    "__radd__",
    "__sub__",
    "__rsub__",
    "__mul__",
    "__rmul__",
    "__truediv__",
    "__rtruediv__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__eq__",
    "__ne__",
];

/// Maximum number of elements that are copied into the program.
const MAX_COPIED: i64 = 4096;

/// Returns the tensor that a call makes of integers, if some of these are graph values; `None` for any other call. To
/// be called in static mode.
pub(crate) fn of_numbers<'py>(
    paddle: &Paddle,
    numbers: &NumberValues,
    (kind, callee): (CallKind, &Bound<'py, PyAny>),
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if kind != CallKind::Api || !numbers.are_in(paddle, args, kwargs)? || !is_maker(callee)? {
        return Ok(None);
    }
    let refused = || SizesMatter::new_err("a tensor made of numbers and of something else");
    let (data, rest) = (args.get_item(0).map_err(|_| refused())?, args.get_slice(1, args.len()));
    // The only other argument may be the element type. A graph value has neither a place nor a gradient of its own.
    let given = rest.iter().chain(kwargs.into_iter().flat_map(PyDictMethods::values)).collect::<Vec<_>>();
    let named = kwargs.is_none_or(|kwargs| kwargs.keys().iter().all(|name| name.eq("dtype").unwrap_or(false)));
    let typed = |ty: &Bound<'_, PyAny>| {
        let text = ty.str().map(|text| text.to_string()).unwrap_or_default();
        TYPES.contains(&text.trim_start_matches("paddle."))
    };
    if !named || given.len() > 1 || !given.iter().all(typed) || !is_made_of_integers(paddle, numbers, &data)? {
        return Err(refused());
    }
    let made = callee.call(args, kwargs)?;
    // For a single number, Paddle returns the number's own value, so it is copied.
    let made = if numbers.has(paddle, &made) {
        cpython::import(callee.py(), "paddle")?.call_method1("assign", (made,))?
    } else {
        made
    };
    Ok(Some(made))
}

pub(crate) fn is_row(data: &Bound<'_, PyAny>) -> bool {
    data.is_exact_instance_of::<PyList>() || data.is_exact_instance_of::<PyTuple>()
}

fn is_made_of_integers(paddle: &Paddle, numbers: &NumberValues, data: &Bound<'_, PyAny>) -> PyResult<bool> {
    if numbers.has(paddle, data) || data.is_exact_instance_of::<PyInt>() {
        return Ok(true);
    }
    let mut parts = if is_row(data) { parts(data)?.into_iter() } else { return Ok(false) };
    parts.try_fold(true, |all, part| Ok(all && is_made_of_integers(paddle, numbers, &part)?))
}

/// The tensor that a call makes of known data.
pub(crate) struct KnownData<'py> {
    /// Its numbers, as an array.
    pub(crate) array: Bound<'py, PyAny>,
    /// True if gradients begin at it.
    pub(crate) is_leaf: bool,
}

/// Returns the tensor that a call makes of known data; `None` for any other call. To be called in eager mode.
pub(crate) fn values<'py>(
    paddle: &Paddle,
    numbers: &NumberValues,
    (kind, callee): (CallKind, &Bound<'py, PyAny>),
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<KnownData<'py>>> {
    let mut given = args.iter().chain(kwargs.into_iter().flat_map(PyDictMethods::values));
    if kind != CallKind::Api || !(is_maker(callee)? || copies_array(callee, args)?) {
        if !given.any(|item| has_array(&item).unwrap_or(true)) || is_index((kind, callee), args)? {
            return Ok(None);
        }
        return Err(refused("takes an array"));
    }
    if numbers.are_in(paddle, args, kwargs)? {
        return Ok(None);
    }
    if !given.all(|item| is_known(paddle, &item).unwrap_or(false)) {
        return Err(refused("copies data that may change between calls; make the tensor outside the hot function"));
    }
    let tensor = callee.call(args, kwargs)?;
    let meta = meta::of_tensor(paddle, &tensor)?;
    let elements: i64 = meta.shape.iter().map(|size| size.unwrap_or(i64::MAX)).product();
    if !TYPES.contains(&&*meta.dtype) || elements > MAX_COPIED {
        return Err(refused("makes what is no constant of a program; make the tensor outside the hot function"));
    }
    let array = tensor.call_method0(intern!(tensor.py(), "numpy"))?;
    Ok(Some(KnownData { array, is_leaf: meta.gradient.flows }))
}

/// Makes a constant of the program with the numbers of an array. To be called in static mode. Paddle keeps integers as
/// `double`, so numbers beyond 2**53 become the sum of two constants.
pub(crate) fn constant<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    const CUT: u32 = 10;
    let assign = cpython::import(array.py(), "paddle")?.getattr(intern!(array.py(), "assign"))?;
    if !array.getattr(intern!(array.py(), "dtype"))?.str()?.to_str()?.eq("int64") {
        return assign.call1((array,));
    }
    let high = array.rshift(CUT)?.lshift(CUT)?;
    let low = array.sub(&high)?;
    let numpy = cpython::import(array.py(), "numpy")?;
    let halved = numpy.call_method1("abs", (array.rshift(CUT)?,))?;
    if !numpy.call_method1("any", (halved.rich_compare(1_i64 << (53 - CUT), CompareOp::Ge)?,))?.is_truthy()? {
        return assign.call1((array,));
    }
    let as_array = |part: Bound<'py, PyAny>| numpy.call_method1("asarray", (part,));
    assign.call1((as_array(high)?,))?.add(assign.call1((as_array(low)?,))?)
}

/// Returns an array with the numbers of an array made in the trace. Its memory is an object of a type of its own,
/// which nobody can write to; by this type [`is_array`] recognises such arrays.
pub(crate) fn known<'py>(array: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = array.py();
    let (shape, dtype) = (array.getattr(intern!(py, "shape"))?, array.getattr(intern!(py, "dtype"))?);
    let kind: String = dtype.getattr(intern!(py, "kind"))?.extract()?;
    if !matches!(kind.as_str(), "b" | "i" | "u" | "f") {
        return Ok(None);
    }
    let numbers = numbers_type(py)?.call1((array.call_method0(intern!(py, "tobytes"))?,))?;
    array.get_type().call1((shape, dtype, numbers)).map(Some)
}

/// The type of the objects that are the memory of such arrays.
fn numbers_type(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static NUMBERS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || {
        let bases = (py.get_type::<PyBytes>(),);
        PyResult::Ok(py.get_type::<PyType>().call1(("Numbers", bases, PyDict::new(py)))?.unbind())
    };
    NUMBERS.get_or_try_init(py, make).map(|numbers| numbers.bind(py))
}

fn is_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    if &*cpython::type_name(&object.get_type()) != "ndarray" {
        return Ok(false);
    }
    let base = object.getattr_opt(intern!(py, "base"))?;
    Ok(base.is_some_and(|base| numbers_type(py).is_ok_and(|numbers| base.get_type().is(numbers))))
}

/// True if the object is such an array, or one numpy number.
pub(crate) fn is_unchanging(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(is_array(object)? || numpy::is_value_type(&object.get_type()))
}

/// True if an argument contains an array. The contents of an array from outside may change between calls.
fn has_array(argument: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(is_any_array(argument)? || parts(argument)?.iter().any(|part| has_array(part).unwrap_or(true)))
}

fn has_unknown_array(argument: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_unknown = is_any_array(argument)? && !is_array(argument)?;
    Ok(is_unknown || parts(argument)?.iter().any(|part| has_unknown_array(part).unwrap_or(true)))
}

/// True if the arrays in a call are known arrays in the index of a tensor.
fn is_index((kind, method): (CallKind, &Bound<'_, PyAny>), args: &Bound<'_, PyTuple>) -> PyResult<bool> {
    if kind == CallKind::Api || !matches!(method.extract::<&str>(), Ok("__getitem__" | "__setitem__")) {
        return Ok(false);
    }
    let index = args.get_item(1)?;
    let written = args.get_item(2).ok();
    Ok(!has_unknown_array(&index)? && !written.is_some_and(|value| has_array(&value).unwrap_or(true)))
}

/// True if the call is `paddle.assign` of an array.
fn copies_array(callee: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> PyResult<bool> {
    Ok(is_named(callee, "assign")? && args.get_item(0).is_ok_and(|data| is_any_array(&data).unwrap_or(true)))
}

fn is_any_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(cpython::is_subtype(&object.get_type(), small_array::array_type(object.py())?))
}

/// Returns the arguments of an operator method between a tensor and an array of the trace, where the array is replaced
/// by the tensor of the same element type that eager mode makes of it. `None` for any other call. To be called in
/// eager mode.
pub(crate) fn operands<'py>(
    paddle: &Paddle,
    target: &BuildTarget,
    (kind, callee): (CallKind, &Bound<'py, PyAny>),
    args: &Bound<'py, PyTuple>,
) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let (Ok(tensor), Ok(array)) = (args.get_item(0), args.get_item(1)) else { return Ok(None) };
    let is_operator = kind == CallKind::Method && OPERATORS.contains(&&*callee.extract::<String>()?);
    if !is_operator || args.len() != 2 || !is_array(&array)? || !paddle.is_value(&tensor) {
        return Ok(None);
    }
    let py = callee.py();
    let data = cpython::import(py, "paddle")?.call_method1("to_tensor", (&array,))?;
    let (own, other) = (meta::of_value(paddle, &tensor)?, meta::of_tensor(paddle, &data)?);
    let elements: i64 = other.shape.iter().map(|size| size.unwrap_or(i64::MAX)).product();
    // Eager mode treats an array without dimensions as a number. With two element types, eager mode decides which
    // pairs it refuses.
    if other.shape.is_empty() || own.is_none_or(|own| own.dtype != other.dtype) {
        return Err(refused("is an operator with an array of another element type, or without dimensions"));
    }
    if !TYPES.contains(&&*other.dtype) || elements > MAX_COPIED {
        return Err(refused("takes an array that is no constant of a program"));
    }
    let assign = || cpython::import(py, "paddle")?.call_method1("assign", (array,));
    let constant = paddle.static_mode.within(py, target, assign)?;
    PyTuple::new(py, [tensor, constant]).map(Some)
}

/// True if an argument consists of data that the trace knows.
fn is_known(paddle: &Paddle, argument: &Bound<'_, PyAny>) -> PyResult<bool> {
    if is_plain(paddle, argument) || is_unchanging(argument)? {
        return Ok(true);
    }
    let parts = parts(argument)?;
    Ok(!parts.is_empty() && parts.iter().all(|part| is_known(paddle, part).unwrap_or(false)))
}

fn is_maker(callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    MAKERS.iter().try_fold(false, |any, name| Ok(any || is_named(callee, name)?))
}

/// True if `callee` is the function `name` of `paddle.tensor.creation`.
pub(crate) fn is_named(callee: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    let is = |attribute: &str, expected: &str| -> PyResult<bool> {
        let text = callee.getattr_opt(attribute)?.and_then(|text| text.extract::<String>().ok());
        Ok(text.is_some_and(|text| text == expected))
    };
    Ok(is("__name__", name)? && is("__module__", "paddle.tensor.creation")?)
}

pub(crate) fn refused(what: &str) -> PyErr {
    PyNotImplementedError::new_err(format!("it {what}"))
}
