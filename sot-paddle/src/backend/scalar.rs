//! Python numbers beside graph values. Static mode rounds some of them to `float32`, or computes by another formula than eager
//! mode; here operators with a number are written so that the results are eager mode's to the last bit.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString, PyTuple};
use sot_core::backend::CallKind;

use super::meta;
use super::paddle::Paddle;

/// Functions through which a number reaches a `float64` tensor rounded to `float32`.
const ROUNDING: &[&str] = &["scale", "clip", "full_like", "pad"];

/// Operators whose result on two bools is of another type in eager mode.
const ARITHMETIC: &[&str] = &["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"];

/// The result, if the call is an operator between a value and a number that static mode computes differently. To be called
/// in static mode.
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
    let (value, number, reflected) = if is_number(&right) { (left, right, false) } else { (right, left, true) };
    if !is_number(&number) {
        return Ok(None);
    }
    let Some(meta) = meta::of_value(paddle, &value)? else { return Ok(None) };
    let reflected = reflected || operator.starts_with('r');
    let operator = operator.trim_start_matches('r');
    if number.is_instance_of::<PyBool>() && &*meta.dtype == "bool" && ARITHMETIC.contains(&operator) {
        return Err(PyNotImplementedError::new_err("arithmetic of a bool tensor and a bool is done in eager mode only"));
    }
    let operands = Operands { value, number, dtype: meta.dtype.to_string(), reflected };
    match operator {
        "truediv" if !reflected => operands.divide(paddle.release.divides_by_reciprocal),
        "pow" if !reflected && operands.dtype.starts_with("float") => operands.power().map(Some),
        "add" | "sub" | "mul" if operands.dtype == "float64" => operands.with_constant(operator).map(Some),
        _ => Ok(None),
    }
}

/// Refuses calls that would round a number on its way to a `float64` tensor.
pub(crate) fn refuse_rounding(
    paddle: &Paddle,
    callee: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let name = match callee.cast::<PyString>() {
        Ok(name) => name.to_string(),
        Err(_) => match callee.getattr_opt("__name__")? {
            Some(name) => name.to_string(),
            None => return Ok(()),
        },
    };
    if !ROUNDING.contains(&name.as_str()) {
        return Ok(());
    }
    let all = || args.iter().chain(kwargs.into_iter().flat_map(|kwargs| kwargs.values().iter().collect::<Vec<_>>()));
    let mut wide = false;
    for argument in all() {
        wide |= meta::of_value(paddle, &argument)?.is_some_and(|meta| &*meta.dtype == "float64");
    }
    if wide && all().any(|argument| argument.cast::<PyFloat>().is_ok_and(|number| rounds(number.value()))) {
        let text = format!("{name} of a float64 tensor would round its number to float32 in a graph");
        return Err(PyNotImplementedError::new_err(text));
    }
    Ok(())
}

struct Operands<'py> {
    value: Bound<'py, PyAny>,
    number: Bound<'py, PyAny>,
    dtype: String,
    reflected: bool,
}

impl<'py> Operands<'py> {
    fn divide(&self, by_reciprocal: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = self.value.py();
        let paddle = py.import("paddle")?;
        let is_wide = self.dtype == "float64";
        let is_integer = self.dtype.contains("int") || self.dtype == "bool";
        if by_reciprocal {
            let number: f64 = self.number.extract()?;
            if !is_wide && number != 0.0 {
                return Ok(None);
            }
            let (value, dtype) = self.as_floating(is_integer)?;
            return value.mul(constant(&(1.0 / number).into_pyobject(py)?.into_any(), dtype)?).map(Some);
        }
        if !(is_integer || is_wide || self.dtype == "float32") {
            return Ok(None);
        }
        let (value, dtype) = self.as_floating(is_integer)?;
        paddle.call_method1("divide", (value, constant(&self.number, dtype)?)).map(Some)
    }

    /// Integers are divided as `float32`.
    fn as_floating(&self, is_integer: bool) -> PyResult<(Bound<'py, PyAny>, &str)> {
        if is_integer {
            Ok((self.value.call_method1("astype", ("float32",))?, "float32"))
        } else {
            Ok((self.value.clone(), &self.dtype))
        }
    }

    fn power(&self) -> PyResult<Bound<'py, PyAny>> {
        self.value.py().import("paddle")?.call_method1("pow", (&self.value, &self.number))
    }

    fn with_constant(&self, operator: &str) -> PyResult<Bound<'py, PyAny>> {
        let number = constant(&self.number, &self.dtype)?;
        let (left, right) = if self.reflected { (&number, &self.value) } else { (&self.value, &number) };
        match operator {
            "add" => left.add(right),
            "sub" => left.sub(right),
            _ => left.mul(right),
        }
    }
}

/// A graph constant of no dimensions.
fn constant<'py>(number: &Bound<'py, PyAny>, dtype: &str) -> PyResult<Bound<'py, PyAny>> {
    number.py().import("paddle")?.call_method1("full", (Vec::<i64>::new(), number, dtype))
}

/// `add` for `operator.add` and the method `__add__`, `radd` for `__radd__`.
fn operator_name(kind: CallKind, callee: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    match kind {
        CallKind::Layer => Ok(None),
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

#[expect(clippy::cast_possible_truncation, clippy::float_cmp, reason = "whether the cast loses anything is the question")]
fn rounds(number: f64) -> bool {
    number.is_finite() && f64::from(number as f32) != number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_beyond_float32_round() {
        assert!(rounds(0.1) && rounds(1e300));
        assert!(!rounds(1.5) && !rounds(f64::INFINITY) && !rounds(f64::NAN));
    }
}
