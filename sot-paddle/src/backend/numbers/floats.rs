//! Open floats as arguments of statements: floats that differ from call to call. The calls known here are built so
//! that their result is the same as with the Python number, to the last bit. For all other calls, the translation
//! specialises on the number.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use sot_core::backend::{CallKind, SizesMatter};
use sot_core::cpython;

use crate::backend::memory::in_place;
use crate::backend::numbers::scalar;
use crate::backend::numbers::sizes::{NumberValues, COMPARISONS};
use crate::backend::numbers::where_op;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// Arithmetic methods of a tensor and a `float`.
const ARITHMETIC: &[&str] = &[
    "__add__",
    "__radd__",
    "__sub__",
    "__rsub__",
    "__mul__",
    "__rmul__",
    "__truediv__",
    "__rtruediv__",
    "__mod__",
    "__floordiv__",
];

/// Methods and functions that take open floats, with their parameters in order.
const FUNCTIONS: &[(&str, &[&str])] = &[
    ("clip", &["x", "min", "max"]),
    ("full", &["shape", "fill_value", "dtype"]),
    ("full_like", &["x", "fill_value", "dtype"]),
    ("lerp", &["x", "y", "weight"]),
    ("scale", &["x", "scale", "bias", "bias_after_scale"]),
];

/// Methods and functions that take an open float as a tensor without dimensions, with the position and the name of
/// that parameter.
const FILLING: &[(&str, usize, &str)] = &[("masked_fill", 2, "value"), ("masked_fill_", 2, "value")];

/// Methods that change a tensor in place and take open floats.
const IN_PLACE: &[&str] = &["__setitem__", "clip_", "masked_fill_", "scale_"];

/// True if a statement can take open floats.
pub(crate) fn accepts_floats(kind: CallKind, callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Some(name) = scalar::name(callee)? else { return Ok(false) };
    let is_function = || {
        let fills = FILLING.iter().any(|(function, ..)| *function == name);
        fills || name == "where" || FUNCTIONS.iter().any(|(function, _)| *function == name)
    };
    Ok(match kind {
        CallKind::Method => ARITHMETIC.contains(&&*name) || COMPARISONS.contains(&&*name) || is_function(),
        CallKind::Api => (is_function() || name == "to_tensor") && is_of_tensors(callee)?,
        CallKind::InPlace => {
            IN_PLACE.contains(&&*name) && (callee.is_instance_of::<PyString>() || is_of_tensors(callee)?)
        }
        CallKind::Object(_) => false,
    })
}

fn is_of_tensors(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    let module = function.getattr_opt(intern!(function.py(), "__module__"))?;
    Ok(module.is_some_and(|module| module.extract::<&str>().is_ok_and(|module| module.starts_with("paddle.tensor."))))
}

/// Returns the result of a call that is given an open float; `None` for any other call. To be called in static mode.
pub(crate) fn call<'py>(
    paddle: &Paddle,
    numbers: &NumberValues,
    (kind, callee): (CallKind, &Bound<'py, PyAny>),
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !numbers.floats_are_in(paddle, args, kwargs)? {
        return Ok(None);
    }
    let name = scalar::name(callee)?.unwrap_or_default();
    if !accepts_floats(kind, callee)? {
        return Err(refuse_unlike_number(&name));
    }
    if name == "to_tensor" {
        return made_tensor(paddle, numbers, args, kwargs).map(Some);
    }
    if name == "where" {
        return choose(paddle, numbers, callee, args, kwargs).map(Some);
    }
    if let Some((_, at, parameter)) = FILLING.iter().find(|(function, ..)| *function == name) {
        let given = filling(paddle, (*at, parameter), args, kwargs)?;
        return call_with_tensor(paddle, (kind, callee), &given.0, given.1.as_ref()).map(Some);
    }
    if kind == CallKind::InPlace {
        return change(paddle, numbers, callee, args, kwargs).map(Some);
    }
    if let Some((_, parameters)) = FUNCTIONS.iter().find(|(function, _)| *function == name) {
        return Call { paddle, numbers, name: &name, given: bind(&name, parameters, args, kwargs)? }.build().map(Some);
    }
    let (tensor, number) = (args.get_item(0)?, args.get_item(1)?);
    let method = PyString::intern(callee.py(), &name);
    if numbers.is_float(paddle, &tensor)? {
        return Err(refuse_unlike_number(&name)); // Two numbers are for Python to compute.
    }
    if COMPARISONS.contains(&&*name) {
        compare(paddle, &method, &tensor, &number).map(Some)
    } else {
        compute(paddle, &method, &tensor, &number).map(Some)
    }
}

fn refuse_unlike_number(name: &str) -> PyErr {
    SizesMatter::new_err(format!("{name} with a float that differs is not as it is with a number"))
}

fn dtype_of(paddle: &Paddle, tensor: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(meta::of_value(paddle, tensor)?.map(|meta| meta.dtype.to_string()).unwrap_or_default())
}

fn as_type<'py>(value: &Bound<'py, PyAny>, dtype: &str) -> PyResult<Bound<'py, PyAny>> {
    value.call_method1(intern!(value.py(), "astype"), (dtype,))
}

/// Compares as eager mode does: with a number of the tensor's type; integer tensors are compared as `float32`.
fn compare<'py>(
    paddle: &Paddle,
    method: &Bound<'py, PyString>,
    tensor: &Bound<'py, PyAny>,
    number: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    match &*dtype_of(paddle, tensor)? {
        dtype @ ("float32" | "float64") => tensor.call_method1(method, (as_type(number, dtype)?,)),
        "int32" | "int64" => as_type(tensor, "float32")?.call_method1(method, (as_type(number, "float32")?,)),
        _ => Err(refuse_unlike_number(method.to_str()?)),
    }
}

/// Applies an operator to a tensor and an open `float`, or an open integer of that type.
pub(super) fn compute<'py>(
    paddle: &Paddle,
    method: &Bound<'py, PyString>,
    tensor: &Bound<'py, PyAny>,
    number: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let meta = meta::of_value(paddle, tensor)?.filter(|meta| matches!(&*meta.dtype, "float32" | "float64"));
    let Some(meta) = meta else { return Err(refuse_unlike_number(method.to_str()?)) };
    let py = tensor.py();
    // `scale` also adds zero, in eager mode, too.
    let scaled = |number| cpython::import(py, "paddle")?.call_method1(intern!(py, "scale"), (tensor, number));
    match method.to_str()? {
        "__mul__" | "__rmul__" => scaled(number.clone()),
        "__truediv__" if paddle.release.divides_by_reciprocal => {
            scaled(scalar::constant(&1.0_f64.into_pyobject(py)?.into_any(), "float64")?.div(number)?)
        }
        // Eager mode makes a tensor of the tensor's shape from the number and divides that. With another shape,
        // another kernel with other results might run.
        "__rtruediv__" => {
            let full = cpython::import(py, "paddle")?.getattr("full_like")?;
            full.call1((tensor, as_type(number, &meta.dtype)?))?.div(tensor)
        }
        // In eager mode the number becomes a tensor of one dimension.
        "__floordiv__" if meta.shape.is_empty() => Err(refuse_unlike_number("__floordiv__")),
        _ => tensor.call_method1(method, (as_type(number, &meta.dtype)?,)),
    }
}

/// Positional arguments and keywords.
type Arguments<'py> = (Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>);

/// Returns arguments in which the number at a position or keyword has the type of the first argument, as eager mode
/// converts it.
fn filling<'py>(
    paddle: &Paddle,
    (at, keyword): (usize, &str),
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Arguments<'py>> {
    let dtype = dtype_of(paddle, &args.get_item(0)?)?;
    if !matches!(&*dtype, "float32" | "float64") {
        return Err(refuse_unlike_number(keyword));
    }
    let kwargs = kwargs.map(PyDictMethods::copy).transpose()?;
    if let Some(kwargs) = kwargs.as_ref().filter(|kwargs| kwargs.contains(keyword).unwrap_or(false)) {
        let value = kwargs.as_any().get_item(keyword)?;
        kwargs.set_item(keyword, as_type(&value, &dtype)?)?;
    }
    let mut positional: Vec<_> = args.iter().collect();
    if let Some(value) = positional.get_mut(at) {
        *value = as_type(value, &dtype)?;
    }
    Ok((PyTuple::new(args.py(), positional)?, kwargs))
}

/// Calls a function that takes a tensor in the place of the number.
fn call_with_tensor<'py>(
    paddle: &Paddle,
    (kind, callee): (CallKind, &Bound<'py, PyAny>),
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    match (kind, callee.cast::<PyString>()) {
        (CallKind::InPlace, _) => in_place::call(paddle, callee, args, kwargs),
        (_, Ok(method)) => args.get_item(0)?.getattr(method)?.call(args.get_slice(1, args.len()), kwargs),
        (_, Err(_)) => callee.call(args, kwargs),
    }
}

/// A call that changes its first argument, other than those of [`FILLING`].
fn change<'py>(
    paddle: &Paddle,
    numbers: &NumberValues,
    callee: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let name = scalar::name(callee)?.unwrap_or_default();
    if let Some((name, parameters)) = FUNCTIONS.iter().find(|(function, _)| Some(*function) == name.strip_suffix('_')) {
        return Call { paddle, numbers, name, given: bind(name, parameters, args, kwargs)? }.build();
    }
    // The number is what is written to the items. Some kernels write it to `float64` as a `float32`.
    let is_plain = kwargs.is_none_or(PyDictMethods::is_empty) && args.len() == 3;
    if !is_plain || dtype_of(paddle, &args.get_item(0)?)? != "float32" {
        return Err(refuse_unlike_number(&name));
    }
    let (given, _) = filling(paddle, (2, "value"), args, None)?;
    in_place::call(paddle, callee, &given, None)
}

/// `where` with a number, which becomes a tensor of the shape of the condition, as for a known number.
fn choose<'py>(
    paddle: &Paddle,
    numbers: &NumberValues,
    callee: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let refused = || refuse_unlike_number("where");
    if args.len() != 3 || kwargs.is_some_and(|kwargs| !kwargs.is_empty()) {
        return Err(refused());
    }
    let (condition, own) = (args.get_item(0)?, paddle.release.where_float);
    let meta = meta::of_value(paddle, &condition)?.filter(|meta| &*meta.dtype == "bool");
    if meta.is_none_or(|meta| where_op::is_made_a_vector(paddle, &meta)) {
        return Err(refused());
    }
    let api = cpython::import(callee.py(), "paddle")?;
    let mut operands = vec![condition.clone()];
    for operand in args.iter().skip(1) {
        operands.push(if numbers.is_float(paddle, &operand)? {
            api.call_method1(intern!(callee.py(), "full_like"), (&condition, as_type(&operand, own)?, own))?
        } else if dtype_of(paddle, &operand)?.starts_with("float") {
            operand
        } else {
            return Err(refused());
        });
    }
    let shapes = operands.iter().map(|operand| meta::of_value(paddle, operand)).collect::<PyResult<Vec<_>>>()?;
    if shapes.iter().flatten().any(|meta| Some(&meta.shape) != shapes[0].as_ref().map(|first| &first.shape)) {
        return Err(refused());
    }
    api.call_method1(intern!(callee.py(), "where"), PyTuple::new(callee.py(), operands)?)
}

/// The tensor that `to_tensor` makes of a float, or of a list of floats and integers: of the default type, unless the
/// call says another one. Python's numbers are rounded to that type once.
fn made_tensor<'py>(
    paddle: &Paddle,
    numbers: &NumberValues,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, refused) = (args.py(), || refuse_unlike_number("to_tensor"));
    let api = cpython::import(py, "paddle")?;
    let named = kwargs.map(|kwargs| kwargs.get_item(intern!(py, "dtype"))).transpose()?.flatten();
    let count = args.len() + kwargs.map_or(0, PyDictMethods::len);
    let dtype = match args.get_item(1).ok().or(named).filter(|dtype| !dtype.is_none()) {
        Some(dtype) => dtype,
        None => api.call_method0(intern!(py, "get_default_dtype"))?,
    };
    let text = dtype.str()?.to_string();
    if count > 2 || !matches!(text.trim_start_matches("paddle."), "float32" | "float64") {
        return Err(refused());
    }
    let data = args.get_item(0)?;
    let whole = if data.is_exact_instance_of::<PyList>() || data.is_exact_instance_of::<PyTuple>() {
        let parts =
            data.try_iter()?.map(|part| double(paddle, numbers, &part?)).collect::<PyResult<Option<Vec<_>>>>()?;
        api.call_method1(intern!(py, "stack"), (parts.ok_or_else(refused)?,))?
    } else {
        data
    };
    // The result is a new tensor, also if the number has its type already.
    api.call_method1(intern!(py, "assign"), (whole.call_method1(intern!(py, "astype"), (dtype,))?,))
}

/// A number as a graph value of type `float64`; `None` for anything else, and for integers that it rounds.
fn double<'py>(
    paddle: &Paddle,
    numbers: &NumberValues,
    number: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if numbers.has(paddle, number) {
        return as_type(number, "float64").map(Some);
    }
    let is_exact = number.is_exact_instance_of::<PyFloat>()
        || number.is_exact_instance_of::<PyInt>()
            && number.extract::<i64>().is_ok_and(|number| number.abs() <= 1 << 53);
    is_exact.then(|| scalar::constant(number, "float64")).transpose()
}

/// Returns the argument of each parameter.
fn bind<'py>(
    name: &str,
    parameters: &[&'static str],
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Vec<(&'static str, Bound<'py, PyAny>)>> {
    if args.len() > parameters.len() {
        return Err(refuse_unlike_number(name));
    }
    let mut given: Vec<_> = parameters.iter().copied().zip(args.iter()).collect();
    for (keyword, value) in kwargs.into_iter().flat_map(PyDictMethods::iter) {
        let keyword = keyword.extract::<&str>()?;
        match parameters.iter().find(|parameter| **parameter == keyword) {
            Some(parameter) if given.iter().all(|(other, _)| other != parameter) => given.push((*parameter, value)),
            _ => return Err(refuse_unlike_number(name)),
        }
    }
    Ok(given)
}

/// A call of one of [`FUNCTIONS`].
struct Call<'a, 'py> {
    paddle: &'a Paddle,
    numbers: &'a NumberValues,
    name: &'a str,
    given: Vec<(&'static str, Bound<'py, PyAny>)>,
}

impl<'py> Call<'_, 'py> {
    fn build(mut self) -> PyResult<Bound<'py, PyAny>> {
        let taking: &[&str] = match self.name {
            "clip" => &["min", "max"],
            "lerp" => &["weight"],
            "scale" => &["scale"],
            _ => &["fill_value"],
        };
        let Some((_, first)) = self.given.first() else { return Err(refuse_unlike_number(self.name)) };
        let dtype = dtype_of(self.paddle, first)?;
        for (parameter, value) in &self.given {
            if self.numbers.is_float(self.paddle, value)? && !taking.contains(parameter) {
                return Err(refuse_unlike_number(self.name));
            }
        }
        let floating = matches!(&*dtype, "float32" | "float64");
        match self.name {
            "full" | "full_like" => {}
            "lerp" if floating => self.cast_weight(&dtype)?,
            "clip" if floating => self.widen_bounds(&dtype)?,
            // The bias is rounded to `float32`.
            "scale" if floating && (dtype == "float32" || self.given.len() <= 2) => {}
            _ => return Err(refuse_unlike_number(self.name)),
        }
        let Some((_, first)) = self.given.first() else { return Err(refuse_unlike_number(self.name)) };
        let keywords = PyDict::new(first.py());
        for (parameter, value) in &self.given {
            keywords.set_item(parameter, value)?;
        }
        cpython::import(first.py(), "paddle")?.getattr(self.name)?.call((), Some(&keywords))
    }

    /// Converts the weight to the tensor's type, as eager mode does.
    fn cast_weight(&mut self, dtype: &str) -> PyResult<()> {
        for (_, weight) in self.given.iter_mut().filter(|(parameter, _)| *parameter == "weight") {
            *weight = as_type(weight, dtype)?;
        }
        Ok(())
    }

    /// Makes known bounds constants of `float64`. Beside an open bound, a known bound would be rounded to `float32`.
    fn widen_bounds(&mut self, dtype: &str) -> PyResult<()> {
        if dtype != "float64" {
            return Ok(());
        }
        let is_number = |value: &Bound<'_, PyAny>| {
            let is_integer = value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
            is_integer || value.is_instance_of::<PyFloat>()
        };
        let mut bounds = 0;
        for (_, bound) in self.given.iter_mut().skip(1) {
            if is_number(bound) {
                *bound = scalar::constant(bound, "float64")?;
            }
            bounds += usize::from(self.paddle.is_value(bound));
        }
        // A missing bound would become the smallest or largest number.
        if bounds < 2 {
            return Err(refuse_unlike_number(self.name));
        }
        Ok(())
    }
}
