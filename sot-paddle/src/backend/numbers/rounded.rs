//! Numbers that reach an operation rounded to `float32`. Static mode makes a `float32` constant of a number where
//! eager mode passes a `double`. The results differ unless the tensors have one of the short floating types. The
//! operations are checked after a statement has been built, so that no list of functions is needed. If the number can
//! be restored (`exact.rs`), it is; otherwise the statement is refused.

use std::rc::Rc;

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyDict, PyFloat, PyInt, PyList, PySlice, PyTuple};
use sot_core::backend::CallKind;
use sot_core::cpython;
use sot_variables::numpy;

use crate::backend::memory::in_place::INCREMENT;
use crate::backend::numbers::exact::{self, ExactNumber, OperandReplacer};
use crate::backend::numbers::scalar;
use crate::backend::numbers::twin::parts;
use crate::backend::paddle::meta::{self, dtype_name};
use crate::backend::paddle::operation;
use crate::backend::paddle::Paddle;

/// Element types whose numbers are computed as `float32`.
const SHORT: &[&str] = &["bfloat16", "bool", "complex64", "float16", "float32"];

/// Types of numpy numbers that eager mode refuses in most calls.
const ELSEWHERE: &[&str] = &[
    "bool",
    "bool_",
    "complex128",
    "complex64",
    "float16",
    "float32",
    "int16",
    "int8",
    "longdouble",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
];

/// Functions that refuse numbers that are not finite, for some element types.
const CHECKING: &[&str] = &["clamp", "clip", "fill", "full_like"];

/// Operators whose results are NaN with one sign in eager mode and with the other in a program, if the number is NaN.
const SIGNING: &[&str] = &["__add__", "__radd__", "__sub__", "__rsub__"];

/// Functions that take only tensors in eager mode when they write in place.
const OF_TENSORS: &[&str] = &["floor_divide_", "floor_mod_", "mod_", "remainder_"];

/// Functions that compute in place with another tensor.
const ARITHMETIC: &[&str] = &["add_", "div_", "divide_", "mul_", "multiply_", "sub_", "subtract_"];

/// The largest integer up to which a `double` represents all integers.
const LARGEST: u64 = 1 << 53;

/// The numbers of a call, and which of their properties matter because a `float32` cannot represent them.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is another question about the numbers of a call")]
pub(crate) struct CallNumbers {
    numbers: Vec<ExactNumber>,
    is_operator: bool,
    rounds: bool,
    /// True if a number exceeds the range of `float32`.
    is_large: bool,
    /// True if a number is infinite or NaN.
    is_no_number: bool,
    is_complex: bool,
}

impl CallNumbers {
    /// Reads the numbers in the arguments of a statement. Refuses numbers that no program can represent.
    pub(crate) fn of(
        paddle: &Paddle,
        (kind, callee): (CallKind, &Bound<'_, PyAny>),
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut given = CallNumbers::default();
        // A tensor of known numbers is made in eager mode.
        if scalar::name(callee)?.as_deref() == Some("to_tensor") && meta::values_in(paddle, args)?.is_empty() {
            return Ok(given);
        }
        given.is_operator = scalar::operator_name(kind, callee)?.is_some();
        for argument in args.iter().chain(kwargs.into_iter().flat_map(PyDictMethods::values)) {
            given.note(&argument)?;
        }
        if (given.is_large || given.is_complex) && !given.is_operator {
            return Err(refused("a complex number, or one beyond float32, is for eager mode to take or refuse"));
        }
        if given.is_no_number && checks_numbers(callee)? && !fills_floating(paddle, callee, args, kwargs)? {
            return Err(refused("a bound that is infinite, or not a number, is for eager mode to take or refuse"));
        }
        given.refuse_by_name(paddle, kind, &scalar::name(callee)?.unwrap_or_default(), args, kwargs)?;
        Ok(given)
    }

    /// Refuses numbers that only eager mode refuses, or treats differently, in a few functions.
    fn refuse_by_name(
        &self,
        paddle: &Paddle,
        kind: CallKind,
        name: &str,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let is_number = |given: &Bound<'_, PyAny>| given.is_instance_of::<PyFloat>() || given.is_instance_of::<PyInt>();
        let given = |at: usize, keyword: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
            let by_name = kwargs.map(|kwargs| kwargs.get_item(keyword)).transpose()?.flatten();
            Ok(args.get_item(at).ok().or(by_name))
        };
        let in_place = kind == CallKind::InPlace;
        let dtype = |at: usize| -> PyResult<Option<Rc<str>>> {
            let Ok(given) = args.get_item(at) else { return Ok(None) };
            Ok(meta::of_value(paddle, &given)?.map(|meta| meta.dtype))
        };
        let refuses = match name {
            // With a float, integer tensors and all short types are computed as in eager mode.
            INCREMENT => {
                let is_integer = given(1, "value")?.is_some_and(|given| given.is_instance_of::<PyInt>());
                let refused_in_eager_mode = |dtype: Rc<str>| {
                    dtype.starts_with("complex") || matches!(&*dtype, "int8" | "int16" | "uint8" | "bool" | "bfloat16")
                };
                self.rounds && is_integer || dtype(0)?.is_some_and(refused_in_eager_mode)
            }
            // Eager mode writes the number as a `float32` or as a `double`.
            "__setitem__" => self.rounds && given(2, "value")?.is_some_and(|given| given.is_instance_of::<PyInt>()),
            // Eager mode converts no tensor to another type in place.
            name if in_place && ARITHMETIC.contains(&name) && dtype(1)?.is_some() => dtype(0)? != dtype(1)?,
            "allclose" | "isclose" | "_allclose" | "_isclose" => {
                let floats = [given(2, "rtol")?, given(3, "atol")?];
                floats.iter().flatten().any(|given| !given.is_instance_of::<PyFloat>())
            }
            // In eager mode a missing bound lies beyond all integers.
            "clamp_" | "clip_" => {
                let has_all = given(1, "min")?.is_some_and(|bound| !bound.is_none())
                    && given(2, "max")?.is_some_and(|bound| !bound.is_none());
                !has_all && dtype(0)?.is_some_and(|dtype| dtype.contains("int"))
            }
            "elu_" => given(1, "alpha")?.is_some_and(|alpha| !alpha.extract::<f64>().is_ok_and(|alpha| alpha >= 0.0)),
            "fill_" => given(1, "value")?
                .is_some_and(|given| numpy::is_value_type(&given.get_type()) && !given.is_instance_of::<PyFloat>()),
            "floor_divide" => given(1, "y")?.is_some_and(|given| is_number(&given)),
            _ => in_place && OF_TENSORS.contains(&name) && given(1, "y")?.is_some_and(|given| is_number(&given)),
        };
        if refuses {
            return Err(refused(&format!("{name} of this number is for eager mode to take or refuse")));
        }
        Ok(())
    }

    fn note(&mut self, argument: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(number) = argument.cast::<PyFloat>() {
            self.numbers.push(ExactNumber::Float(number.value()));
            self.rounds |= rounds(number.value());
            self.is_large |= number.value().is_finite() && number.value().abs() > f64::from(f32::MAX);
            self.is_no_number |= !number.value().is_finite();
        } else if argument.is_instance_of::<PyComplex>() {
            self.is_complex = true;
        } else if argument.is_instance_of::<PyInt>() {
            self.note_integer(argument)?;
        } else if let Ok(slice) = argument.cast::<PySlice>() {
            refuse_large_bounds(slice)?;
        } else if is_row(argument) {
            parts(argument)?.iter().try_for_each(|part| self.note(part))?;
        } else if numpy::is_value_type(&argument.get_type()) {
            match &*cpython::type_name(&argument.get_type()) {
                "int32" | "int64" => self.note_integer(argument)?,
                // For operators, the decision is made when the operator is built.
                other if !self.is_operator && ELSEWHERE.contains(&other) => {
                    return Err(refused(&format!("numpy's {other} is for eager mode to take or refuse")));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn note_integer(&mut self, number: &Bound<'_, PyAny>) -> PyResult<()> {
        let number = number.extract::<i64>().ok().filter(|number| number.unsigned_abs() <= LARGEST);
        let Some(number) = number else { return Err(refused("a program has no integers beyond 2**53")) };
        self.numbers.push(ExactNumber::Integer(number));
        self.rounds |= !is_short(number);
        Ok(())
    }

    /// Checks an operation that is new in the program, and restores its rounded numbers. Refuses the operation if the
    /// numbers are not known, or are not operands. `is_new` is true of values that the same statement has made.
    pub(crate) fn check<'py>(
        &self,
        replacer: &OperandReplacer<'_, 'py>,
        operation: &Bound<'py, PyAny>,
        name: &str,
        is_new: impl Fn(&Bound<'py, PyAny>) -> PyResult<bool>,
    ) -> PyResult<()> {
        match name {
            "pd_op.full" => self.check_constant(replacer, operation),
            "pd_op.arange" | "pd_op.pad" | "pd_op.pad3d" => self.check_range(operation),
            "pd_op.cast" if is_wide(operation)? => {
                let source = operation.call_method1(intern!(operation.py(), "operand_source"), (0,))?;
                // A constant of an earlier statement is a tensor of the program, with the numbers that it has.
                if is_new(&source)? {
                    self.check_cast(replacer, operation, &source)
                } else {
                    Ok(())
                }
            }
            "pd_op.scale" if is_wide(operation)? => {
                let bias = operation.call_method0(intern!(operation.py(), "attrs"))?.get_item("bias")?;
                self.check_number(bias.extract()?, name)
            }
            _ => Ok(()),
        }
    }

    /// Refuses an integer that the element type cannot represent: eager mode and a program cut off different bits.
    fn check_range(&self, operation: &Bound<'_, PyAny>) -> PyResult<()> {
        let result = operation.call_method1(intern!(operation.py(), "result"), (0,))?;
        let dtype = dtype_name(&result.getattr(intern!(operation.py(), "dtype"))?)?;
        self.numbers.iter().try_for_each(|number| match number {
            ExactNumber::Integer(_) => refuse_overflow(number.to_float(), &dtype),
            ExactNumber::Float(_) => Ok(()),
        })
    }

    /// Checks a constant, which may be a number that other operations take.
    fn check_constant(&self, replacer: &OperandReplacer<'_, '_>, operation: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = operation.py();
        let attributes = operation.call_method0(intern!(py, "attrs"))?;
        let shape: Vec<i64> = attributes.get_item("shape")?.extract()?;
        let dtype = dtype_name(&attributes.get_item("dtype")?)?;
        let Ok(value) = attributes.get_item("value")?.extract::<f64>() else { return Ok(()) };
        if !matches!(shape[..], [] | [1]) || &*dtype != "float32" {
            // Operators make the constant from a `double` in eager mode, too.
            return if self.is_operator { Ok(()) } else { refuse_overflow(value, &dtype) };
        }
        // Constants at this place are made by C++ code from a number, not by a Python function of Paddle's.
        let is_number = shape == [1] && attributes.get_item("place")?.repr()?.to_str()? == "Place(cpu)";
        let result = operation.call_method1(intern!(py, "result"), (0,))?;
        for user in result.call_method0(intern!(py, "all_used_ops"))?.try_iter()? {
            let user = user?;
            let name: String = user.call_method0(intern!(py, "name"))?.extract()?;
            if name == "pd_op.cast" || !is_wide(&user)? {
                continue;
            }
            if !is_number {
                self.check_number(value, &name)?;
                continue;
            }
            let number = exact::of(value, &self.numbers, &name).ok_or_else(|| exact::refused(&name))?;
            if number != ExactNumber::Float(value) {
                replacer.replace_number(operation, &user, number)?;
            }
        }
        Ok(())
    }

    /// Checks a constant of Paddle's own functions that is cast. In eager mode the constant has the final type from
    /// the start.
    fn check_cast(
        &self,
        replacer: &OperandReplacer<'_, '_>,
        operation: &Bound<'_, PyAny>,
        source: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = operation.py();
        let constant = source.call_method0(intern!(py, "get_defining_op"))?;
        if let Some(values) = exact::numbers_of(&constant)? {
            let number = |value: &f64| match exact::of(*value, &self.numbers, "pd_op.cast") {
                Some(ExactNumber::Float(number)) => Ok(number),
                Some(ExactNumber::Integer(_)) | None => Err(exact::refused("pd_op.cast")),
            };
            let numbers = values.iter().map(number).collect::<PyResult<Vec<_>>>()?;
            if numbers.iter().zip(&values).any(|(number, value)| number.to_bits() != value.to_bits()) {
                replacer.replace_tensor(&constant, operation, &numbers)?;
            }
            return Ok(());
        }
        if self.rounds && operation::constant_of(source)?.is_some() {
            return Err(exact::refused("pd_op.cast"));
        }
        Ok(())
    }

    /// Refuses the operation if `number`, which has been rounded to `float32`, may have lost digits.
    #[expect(clippy::float_cmp, reason = "one and minus one are what they are in each type")]
    fn check_number(&self, number: f64, name: &str) -> PyResult<()> {
        if self.rounds && number != 0.0 && number.abs() != 1.0 || uses_all_bits(number) {
            return Err(exact::refused(name));
        }
        Ok(())
    }
}

/// Refuses a constant that its integer type cannot represent: eager mode and a program cut off different bits.
pub(crate) fn refuse_overflow(number: f64, dtype: &str) -> PyResult<()> {
    let (least, greatest) = match dtype {
        "uint8" => (0.0, 255.0),
        "int8" => (-128.0, 127.0),
        "int16" => (-32768.0, 32767.0),
        "int32" => (f64::from(i32::MIN), f64::from(i32::MAX)),
        _ => return Ok(()),
    };
    if number.is_finite() && (number.trunc() < least || number.trunc() > greatest) {
        return Err(refused(&format!("a program has no constant {number} of {dtype}")));
    }
    Ok(())
}

/// True if the sign of a NaN in the result is another one in a program, if the number is NaN.
pub(crate) fn signs_nan(callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(scalar::name(callee)?.is_some_and(|name| SIGNING.contains(&&*name)))
}

/// True if a function may refuse a number that is not finite.
pub(crate) fn checks_numbers(callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(scalar::name(callee)?.is_some_and(|name| CHECKING.contains(&name.trim_end_matches('_'))))
}

/// True if the call is `full_like` of a floating tensor, in the tensor's element type: it takes any number.
fn fills_floating(
    paddle: &Paddle,
    callee: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<bool> {
    if scalar::name(callee)?.as_deref() != Some("full_like") || args.len() != 2 {
        return Ok(false);
    }
    let is_floating = meta::of_value(paddle, &args.get_item(0)?)?.is_some_and(|meta| meta.dtype.contains("float"));
    Ok(is_floating && kwargs.is_none_or(PyDictMethods::is_empty))
}

fn refused(text: &str) -> PyErr {
    PyNotImplementedError::new_err(text.to_owned())
}

/// Refuses a slice with a bound or step beyond 64 bits: Paddle would end the process while it builds the statement.
fn refuse_large_bounds(slice: &Bound<'_, PySlice>) -> PyResult<()> {
    for name in ["start", "stop", "step"] {
        let part = slice.getattr(name)?;
        if part.is_instance_of::<PyInt>() && part.extract::<i64>().is_err() {
            return Err(refused("a slice with an integer beyond 64 bits is for eager mode to take or refuse"));
        }
    }
    Ok(())
}

fn is_row(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyTuple>() || object.is_exact_instance_of::<PyList>()
}

/// True if an operation computes in another element type than the short ones.
fn is_wide(operation: &Bound<'_, PyAny>) -> PyResult<bool> {
    let result = operation.call_method1(intern!(operation.py(), "result"), (0,))?;
    let dtype = dtype_name(&result.getattr(intern!(operation.py(), "dtype"))?)?;
    Ok(!SHORT.contains(&&*dtype))
}

/// True if a `float32` represents the integer exactly.
pub(crate) fn is_short(number: i64) -> bool {
    let number = number.unsigned_abs();
    number == 0 || (number >> number.trailing_zeros()) < 1 << 24
}

/// True if a `float32` does not represent the number exactly.
#[expect(
    clippy::cast_possible_truncation,
    clippy::float_cmp,
    reason = "whether the cast loses anything is the question"
)]
pub(crate) fn rounds(number: f64) -> bool {
    number.is_finite() && f64::from(number as f32) != number
}

/// True if a `float32` looks like the result of rounding another number. The largest `float32` stands for a missing
/// bound.
#[expect(clippy::cast_possible_truncation, clippy::float_cmp, reason = "the number is a float32 already")]
pub(crate) fn uses_all_bits(number: f64) -> bool {
    let short = number as f32;
    short.is_finite() && short.abs() != f32::MAX && short.to_bits() & 0x3f != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_beyond_float32_round() {
        assert!(rounds(0.1) && rounds(1e300) && !is_short((1 << 24) + 1) && !is_short(i64::MAX));
        assert!(!rounds(1.5) && !rounds(f64::INFINITY) && !rounds(f64::NAN) && is_short(1 << 40) && is_short(i64::MIN));
    }

    #[test]
    fn a_tenth_uses_all_bits() {
        assert!(!uses_all_bits(f64::from(f32::MAX)) && !uses_all_bits(f64::from(f32::MIN)));
        assert!(uses_all_bits(f64::from(0.1_f32)) && !uses_all_bits(0.75) && !uses_all_bits(100_000.0));
    }
}
