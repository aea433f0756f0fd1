//! Python numbers beside graph values. Static mode rounds some of them to `float32`, or computes by another formula
//! than eager mode. Here operators with a number are built so that the results equal those of eager mode to the last
//! bit.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyString, PyTuple};
use sot_core::backend::{CallKind, TensorMeta};
use sot_core::cpython;
use sot_variables::numpy;

use crate::backend::numbers::rounded::{is_short, refuse_overflow};
use crate::backend::numbers::twin::parts;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// Operators whose result on two bools has another type in eager mode.
const ARITHMETIC: &[&str] = &["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"];

/// Largest integer whose neighbours are all exact in float32: `full_like` keeps its number in one.
const MAX_EXACT: f64 = 16_777_216.0;

/// Returns `number / value`, or another operator with the number on the left, if the value has open sizes, or the call
/// is one of a twin; `None` for any other call. Static mode makes a tensor of the value's shape from the number, by an
/// operation that depends on whether a size is open.
pub(crate) fn number_over_open<'py>(
    paddle: &Paddle,
    (kind, callee): (CallKind, &Bound<'py, PyAny>),
    args: &Bound<'py, PyTuple>,
    is_twin: bool,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let operator = operator_name(kind, callee)?;
    let Some(operator @ ("rtruediv" | "rfloordiv" | "rmod" | "rpow")) = operator.as_deref() else { return Ok(None) };
    if args.len() != 2 {
        return Ok(None);
    }
    let (value, number) = (args.get_item(0)?, args.get_item(1)?);
    let Some(meta) = meta::of_value(paddle, &value)? else { return Ok(None) };
    if !(is_twin || meta.shape.contains(&None)) {
        return Ok(None);
    }
    let is_whole = number.is_exact_instance_of::<PyInt>();
    let is_taken = match &*meta.dtype {
        "float32" | "float64" => is_whole || number.is_exact_instance_of::<PyFloat>(),
        "int32" | "int64" => is_whole && operator != "rtruediv" && number.extract::<f64>()?.abs() < MAX_EXACT,
        _ => false,
    };
    if !is_taken {
        return Ok(None);
    }
    let full = cpython::import(callee.py(), "paddle")?.call_method1("full_like", (&value, number))?;
    let result = match operator {
        "rtruediv" => full.div(value),
        "rfloordiv" => full.floor_div(value),
        "rmod" => full.rem(value),
        _ => full.pow(value, callee.py().None()),
    };
    result.map(Some)
}

/// Returns the result, if the call is an operator between a value and a number that static mode computes differently
/// than eager mode. To be called in static mode.
pub(crate) fn operator_with_number<'py>(
    paddle: &Paddle,
    kind: CallKind,
    callee: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(operator) = operator_name(kind, callee)? else { return Ok(None) };
    if args.len() != 2 {
        return Ok(None);
    }
    let (left, right) = (args.get_item(0)?, args.get_item(1)?);
    let (value, number, reflected) = if paddle.is_value(&left) { (left, right, false) } else { (right, left, true) };
    let Some(meta) = meta::of_value(paddle, &value)? else { return Ok(None) };
    let reflected = reflected || operator.starts_with('r');
    let operator = operator.trim_start_matches('r');
    if paddle.is_value(&number) {
        return Ok(None);
    }
    if !is_number(&number) {
        if is_single(&number) {
            if let Some(result) = operator_with_single(&value, &number, &meta.dtype, (operator, reflected))? {
                return Ok(Some(result));
            }
        }
        if let Some(result) = operator_with_complex(&value, &number, &meta, (operator, reflected))? {
            return Ok(Some(result));
        }
        refuse_other(&meta, operator, &number)?;
        return Ok(None);
    }
    if operator != "truediv" && number.is_instance_of::<PyInt>() {
        number.extract().map_or(Ok(()), |number| refuse_overflow(number, &meta.dtype))?;
    }
    let is_bool = number.is_instance_of::<PyBool>() && ARITHMETIC.contains(&operator);
    if is_bool && matches!(&*meta.dtype, "bool" | "float16" | "bfloat16" | "int8" | "uint8" | "int16") {
        let text = format!("arithmetic of a {} tensor and a bool is done in eager mode only", meta.dtype);
        return Err(PyNotImplementedError::new_err(text));
    }
    let operands = Operands { value, number, dtype: meta.dtype.to_string(), reflected };
    match operator {
        "matmul" => Err(PyNotImplementedError::new_err("the matrix product with a number is for eager mode to refuse")),
        "floordiv" if meta.shape.is_empty() => operands.of_one_dimension(callee).map(Some),
        "pow" if meta.shape.is_empty() && !reflected && operands.number.is_instance_of::<PyBool>() => {
            operands.of_one_dimension(callee).map(Some)
        }
        "truediv" if !reflected => operands.divide(paddle.release.divides_by_reciprocal),
        "pow" if !reflected && !is_bool => operands.power().map(Some),
        "mul" if is_bool => operands.value.mul(constant(&operands.number, &operands.dtype)?).map(Some),
        // Static mode adds the negated number, and -0.0 would lose its sign. So zero is subtracted as a constant.
        "sub" if !reflected && operands.is_zero_float()? => operands.with_constant(operator).map(Some),
        "add" | "sub" | "mul" if operands.are_rounded() => operands.with_constant(operator).map(Some),
        _ => Ok(None),
    }
}

/// Returns the product, quotient or power of a tensor and numpy's `float32`, which eager mode converts to a tensor.
fn operator_with_single<'py>(
    value: &Bound<'py, PyAny>,
    number: &Bound<'py, PyAny>,
    dtype: &str,
    (operator, reflected): (&str, bool),
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !CONVERTING.contains(&operator) {
        return Ok(None);
    }
    let number = number.call_method0("item")?;
    refuse_minus_zero(&PyTuple::new(number.py(), [&number])?, None)?;
    let number = constant(&number, dtype)?;
    let (left, right) = if reflected { (&number, value) } else { (value, &number) };
    match operator {
        "mul" => left.mul(right),
        "truediv" => left.div(right),
        _ => left.pow(right, value.py().None()),
    }
    .map(Some)
}

/// Returns the result of a floating or complex tensor and a complex number, as eager mode computes it: a floating tensor
/// is converted to the complex type of the same width, the number of a product or quotient is rounded to `complex64`,
/// and a quotient has the number as a tensor of one dimension.
fn operator_with_complex<'py>(
    value: &Bound<'py, PyAny>,
    number: &Bound<'py, PyAny>,
    meta: &TensorMeta,
    (operator, reflected): (&str, bool),
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (part_type, complex_type) = match &*meta.dtype {
        "float32" | "complex64" => ("float32", "complex64"),
        "float64" | "complex128" => ("float64", "complex128"),
        _ => return Ok(None),
    };
    let Ok(number) = number.cast::<PyComplex>() else { return Ok(None) };
    let parts = [number.real(), number.imag()];
    if !has_complex_operator(meta, operator) || !parts.iter().all(|part| part.is_finite()) {
        return Ok(None);
    }
    let (py, paddle) = (value.py(), cpython::import(value.py(), "paddle")?);
    let shape: &[i64] = if operator == "truediv" { &[1] } else { &[] };
    #[expect(clippy::cast_possible_truncation, reason = "eager mode rounds, too")]
    let part = |part: f64| {
        let exact = matches!(operator, "add" | "sub");
        paddle.call_method1("full", (shape, if exact { part } else { f64::from(part as f32) }, part_type))
    };
    let number = paddle.call_method1("complex", (part(parts[0])?, part(parts[1])?))?;
    let is_complex = *meta.dtype == *complex_type;
    let value = if is_complex { value.clone() } else { value.call_method1(intern!(py, "cast"), (complex_type,))? };
    let (left, right) = if reflected { (number, value) } else { (value, number) };
    match operator {
        "add" => left.add(right),
        "sub" => left.sub(right),
        "mul" => left.mul(right),
        _ => left.div(right),
    }
    .map(Some)
}

/// True if the operator of a tensor and a complex number can be in a program. A quotient of a tensor without dimensions
/// has one in eager mode.
fn has_complex_operator(tensor: &TensorMeta, operator: &str) -> bool {
    matches!(operator, "add" | "sub" | "mul") || operator == "truediv" && !tensor.shape.is_empty()
}

/// Refuses numbers that eager mode treats differently than static mode.
fn refuse_other(tensor: &TensorMeta, operator: &str, number: &Bound<'_, PyAny>) -> PyResult<()> {
    let is_complex = number.is_instance_of::<PyComplex>();
    let alike = tensor.dtype.starts_with("complex") && has_complex_operator(tensor, operator);
    if (is_complex && !alike) || numpy::is_value_type(&number.get_type()) {
        let text =
            format!("{operator} of a {} tensor and a {} is done in eager mode only", tensor.dtype, number.get_type());
        return Err(PyNotImplementedError::new_err(text));
    }
    Ok(())
}

/// Types of numpy numbers that operators of a floating tensor treat like Python numbers.
const PLAIN: &[&str] = &["float32", "int64", "int32"];

/// Types of numpy numbers that operators of any tensor treat like Python integers, and that index a tensor like them.
const INTEGERS: &[&str] = &["int64", "int32"];

/// Returns the Python number that an operator method uses for a numpy number; `None` if it uses none. Tensors of
/// other types treat some numbers as arrays.
pub(crate) fn number_for(tensor: &TensorMeta, operator: &str, number: &Bound<'_, PyAny>) -> Option<Py<PyAny>> {
    let ty = number.get_type();
    if !ty.module().is_ok_and(|module| module == "numpy") {
        return None;
    }
    let name = cpython::type_name(&ty);
    if matches!(operator, "__getitem__" | "__setitem__") {
        return INTEGERS.contains(&&*name).then(|| number.call_method0("item").ok()).flatten().map(Bound::unbind);
    }
    // Operators that convert the number to a tensor of one dimension, or refuse it. A power computes differently with a
    // tensor of one dimension than with one without dimensions, and its result has one, too.
    let is_unlike = |operator: &str| {
        matches!(operator, "and" | "or" | "xor" | "matmul" | "lshift" | "rshift")
            || &*name == "float32" && operator == "pow" && (tensor.shape.is_empty() || &*tensor.dtype == "float64")
    };
    let is_plain = || {
        let is_float = matches!(&*tensor.dtype, "float32" | "float64");
        let is_integer = matches!(&*tensor.dtype, "int32" | "int64");
        !is_unlike(arithmetic(operator))
            && (is_float && PLAIN.contains(&&*name) || is_integer && INTEGERS.contains(&&*name))
    };
    if is_single(number) && CONVERTING.contains(&arithmetic(operator)) && is_plain() {
        return Some(number.clone().unbind());
    }
    (&*name == "float64" || is_plain()).then(|| number.call_method0("item").ok()).flatten().map(Bound::unbind)
}

/// Operators for which eager mode converts numpy's `float32` to a tensor. A product keeps the sign of zero then, and
/// quotients and powers are computed by other kernels than with a Python number.
const CONVERTING: &[&str] = &["mul", "truediv", "pow"];

/// Returns the name of the operator of a method like `__rmul__`: `mul`.
fn arithmetic(method: &str) -> &str {
    match method.trim_matches('_') {
        "rshift" => "rshift",
        name => name.strip_prefix('r').unwrap_or(name),
    }
}

/// True if a number is numpy's `float32`.
fn is_single(number: &Bound<'_, PyAny>) -> bool {
    numpy::is_value_type(&number.get_type()) && cpython::type_name(&number.get_type()) == "float32"
}

/// Refuses -0.0: programs share one attribute between equal values, so the sign would be lost.
pub(crate) fn refuse_minus_zero(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    for argument in args.iter().chain(kwargs.into_iter().flat_map(PyDictMethods::values)) {
        if has_minus_zero(&argument)? {
            return Err(PyNotImplementedError::new_err("a program has no -0.0 beside 0.0"));
        }
    }
    Ok(())
}

fn is_minus_zero(number: f64) -> bool {
    number == 0.0 && number.is_sign_negative()
}

fn has_minus_zero(argument: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let Ok(number) = argument.cast::<PyFloat>() {
        return Ok(is_minus_zero(number.value()));
    }
    if let Ok(number) = argument.cast::<PyComplex>() {
        return Ok(is_minus_zero(number.real()) || is_minus_zero(number.imag()));
    }
    parts(argument)?.iter().try_fold(false, |any, part| Ok(any || has_minus_zero(part)?))
}

/// Returns the arguments of `full(shape, "-inf")` with the text replaced by the number that eager mode reads in it.
pub(crate) fn filled_with_text<'py>(
    kind: CallKind,
    callee: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let Some(text) = args.get_item(1).ok().filter(PyAnyMethods::is_instance_of::<PyString>) else { return Ok(None) };
    if kind != CallKind::Api || name(callee)?.as_deref() != Some("full") {
        return Ok(None);
    }
    let by_name = kwargs.map(|kwargs| kwargs.get_item("dtype")).transpose()?.flatten();
    let dtype = args.get_item(2).ok().or(by_name).filter(|dtype| !dtype.is_none());
    if dtype.map(|dtype| dtype.str()).transpose()?.is_some_and(|dtype| !dtype.to_string_lossy().contains("float")) {
        return Ok(None);
    }
    let number = cpython::import(callee.py(), "builtins")?.getattr("float")?.call1((text,))?;
    let given = args.iter().enumerate().map(|(at, arg)| if at == 1 { number.clone() } else { arg });
    PyTuple::new(callee.py(), given.collect::<Vec<_>>()).map(Some)
}

/// Makes 0.0 the first zero among the attributes that all programs share, so that zero has no sign there.
pub(crate) fn keep_zero_unsigned(paddle: &Paddle, py: Python<'_>) -> PyResult<()> {
    static KEPT: PyOnceLock<()> = PyOnceLock::new();
    let keep = || -> PyResult<()> {
        let target = paddle.static_mode.new_target(py, &paddle.program)?;
        paddle.static_mode.within(py, &target, || {
            for dtype in ["float32", "float64"] {
                let zero = constant(&PyFloat::new(py, 0.0).into_any(), dtype)?;
                cpython::import(py, "paddle")?.call_method1("scale", (zero, 0.0, 0.0))?;
            }
            Ok(())
        })
    };
    KEPT.get_or_try_init(py, keep).map(drop)
}

/// Refuses a floor division of tensors of different element types of which one has no dimension. Eager mode then
/// converts both to the larger type, unlike in other operations, and unlike static mode.
pub(crate) fn refuse_mixed_floor_division(
    paddle: &Paddle,
    callee: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
) -> PyResult<()> {
    const FLOOR_DIVISIONS: [&str; 4] = ["__floordiv__", "__rfloordiv__", "floor_divide", "floor_divide_"];
    if args.len() < 2 || !name(callee)?.is_some_and(|name| FLOOR_DIVISIONS.contains(&&*name)) {
        return Ok(());
    }
    let metas = (meta::of_value(paddle, &args.get_item(0)?), meta::of_value(paddle, &args.get_item(1)?));
    let (Ok(Some(one)), Ok(Some(other))) = metas else { return Ok(()) };
    if one.dtype != other.dtype && one.shape.is_empty() != other.shape.is_empty() {
        let text = format!("the type of a quotient of {} and {} is that of eager mode only", one.dtype, other.dtype);
        return Err(PyNotImplementedError::new_err(text));
    }
    Ok(())
}

/// Returns the name of a method or function. Objects with `__getattr__` are not asked: `nn.Layer` looks up missing
/// attributes in Python code.
pub(crate) fn name(callee: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    match callee.cast::<PyString>() {
        Ok(name) => Ok(Some(name.to_string())),
        Err(_) if cpython::type_lookup(&callee.get_type(), intern!(callee.py(), "__getattr__")).is_some() => Ok(None),
        Err(_) => Ok(callee.getattr_opt("__name__")?.map(|name| name.to_string())),
    }
}

struct Operands<'py> {
    value: Bound<'py, PyAny>,
    number: Bound<'py, PyAny>,
    dtype: String,
    reflected: bool,
}

impl<'py> Operands<'py> {
    fn divide(&self, by_reciprocal: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        if by_reciprocal {
            let number: f64 = self.number.extract()?;
            if !matches!(&*self.dtype, "float64" | "complex128") && number != 0.0 {
                return Ok(None); // Static mode computes the same.
            }
            let reciprocal = (1.0 / number).into_pyobject(self.value.py())?.into_any();
            let value = self.as_floating()?.0;
            // `scale` also adds zero, as eager mode does.
            let scaled = (value, constant(&reciprocal, "float64")?);
            return cpython::import(self.value.py(), "paddle")?.call_method1("scale", scaled).map(Some);
        }
        if matches!(&*self.dtype, "float16" | "bfloat16") {
            return self.divide_half().map(Some);
        }
        let (value, dtype) = self.as_floating()?;
        value.div(constant(&self.number, dtype)?).map(Some)
    }

    /// Divides in half precision as eager mode does: the number is rounded to half precision, the division is done in
    /// single.
    fn divide_half(&self) -> PyResult<Bound<'py, PyAny>> {
        let single = |half: &Bound<'py, PyAny>| half.call_method1("astype", ("float32",));
        let number = constant(&self.number, &self.dtype)?;
        single(&self.value)?.div(single(&number)?)?.call_method1("astype", (&self.dtype,))
    }

    fn power(&self) -> PyResult<Bound<'py, PyAny>> {
        let value = if self.yields_floating() { self.as_floating()?.0 } else { self.value.clone() };
        cpython::import(value.py(), "paddle")?.call_method1("pow", (value, &self.number))
    }

    /// True if the operator with this tensor type and this number is computed in floating point.
    fn yields_floating(&self) -> bool {
        self.dtype.contains("float") || (!self.is_complex() && self.number.is_instance_of::<PyFloat>())
    }

    fn is_complex(&self) -> bool {
        self.dtype.starts_with("complex")
    }

    /// True if static mode rounds the number to `float32`, and eager mode does not.
    fn are_rounded(&self) -> bool {
        let rounds = || self.number.extract::<i64>().is_ok_and(|number| !is_short(number));
        self.dtype == "float64" || self.is_integer() && rounds()
    }

    fn is_zero_float(&self) -> PyResult<bool> {
        Ok(!self.is_integer() && self.dtype != "bool" && self.number.extract::<f64>()? == 0.0)
    }

    fn is_integer(&self) -> bool {
        matches!(&*self.dtype, "uint8" | "int8" | "int16" | "int32" | "int64")
    }

    /// Returns the value in the floating type in which it is computed; integers beside a float are computed as
    /// `float32`.
    fn as_floating(&self) -> PyResult<(Bound<'py, PyAny>, &str)> {
        if self.dtype.contains("float") || self.is_complex() {
            Ok((self.value.clone(), &self.dtype))
        } else {
            Ok((self.value.call_method1("astype", ("float32",))?, "float32"))
        }
    }

    /// Computes with a value of one dimension: eager mode makes a one-dimensional tensor of the number, so the result
    /// has one dimension.
    fn of_one_dimension(&self, callee: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let value = self.value.call_method1("reshape", ([1],))?;
        if let Ok(method) = callee.cast::<PyString>() {
            return value.call_method1(method, (&self.number,));
        }
        if self.reflected {
            callee.call1((&self.number, value))
        } else {
            callee.call1((value, &self.number))
        }
    }

    fn with_constant(&self, operator: &str) -> PyResult<Bound<'py, PyAny>> {
        let number = constant(&self.number, &self.dtype)?;
        let (left, right) = if self.reflected { (&number, &self.value) } else { (&self.value, &number) };
        match operator {
            "add" => left.add(right),
            "sub" => left.sub(right),
            // `scale` also adds zero, as eager mode does.
            _ => {
                let number = constant(&self.number, "float64")?;
                cpython::import(self.value.py(), "paddle")?.call_method1("scale", (&self.value, number))
            }
        }
    }
}

/// Makes a graph constant without dimensions.
pub(crate) fn constant<'py>(number: &Bound<'py, PyAny>, dtype: &str) -> PyResult<Bound<'py, PyAny>> {
    cpython::import(number.py(), "paddle")?.call_method1("full", (Vec::<i64>::new(), number, dtype))
}

/// Returns `add` for `operator.add` and for the method `__add__`, `radd` for `__radd__`; `None` for other calls.
pub(crate) fn operator_name(kind: CallKind, callee: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    match kind {
        CallKind::Object(_) | CallKind::InPlace => Ok(None),
        CallKind::Method => {
            let name = callee.cast::<PyString>()?.to_string();
            Ok(name.strip_prefix("__").and_then(|name| name.strip_suffix("__")).map(str::to_owned))
        }
        CallKind::Api => {
            let is_operator =
                callee.getattr_opt("__module__")?.is_some_and(|module| module.eq("_operator").unwrap_or(false));
            if !is_operator {
                return Ok(None);
            }
            Ok(Some(callee.getattr("__name__")?.extract::<String>()?))
        }
    }
}

fn is_number(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyFloat>() || object.is_instance_of::<PyInt>()
}
