//! Restores numbers that static mode has rounded to `float32`. Where an operation takes a number as an operand, static
//! mode gives it a constant of `float32`, although the kernel reads a constant of any type. So the constant is
//! replaced by the exact number: one of the numbers that the call was given, or a number in the source of Paddle's
//! functions.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use sot_core::cpython;

use crate::backend::numbers::rounded::uses_all_bits;
use crate::backend::paddle::meta::dtype_name;
use crate::backend::paddle::static_mode::Target;
use crate::backend::paddle::Paddle;

/// A number that a program can have without loss.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Exact {
    Float(f64),
    Integer(i64),
}

/// The bounds of `clip` that stand for a missing upper bound.
const BOUNDS: [i64; 2] = [i32::MAX as i64 - (1 << 7), i64::MAX - (1 << 39)];

/// The square of a smaller number is a finite `float32`.
const SMALL_SQUARE: f64 = 1e19;

/// Maximum number of decimal digits of a number in Paddle's own code. A number that has been computed has more.
const DIGITS: usize = 6;

impl Exact {
    #[expect(clippy::cast_precision_loss, reason = "of an integer beyond 2**53 the nearest one is asked for")]
    pub(super) fn to_float(self) -> f64 {
        match self {
            Exact::Float(number) => number,
            Exact::Integer(number) => number as f64,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "what a `float32` makes of the number is the question"
    )]
    fn rounded(self) -> f64 {
        f64::from(match self {
            Exact::Float(number) => number as f32,
            Exact::Integer(number) => number as f32,
        })
    }
}

/// Returns the exact number that has become `rounded`, or `None` if it is not known. `given` are the numbers of the
/// call.
#[expect(clippy::float_cmp, reason = "the numbers are compared bit by bit on purpose")]
pub(crate) fn of(rounded: f64, given: &[Exact], name: &str) -> Option<Exact> {
    if name == "pd_op.clip" && rounded.is_infinite() {
        // The missing bound, unless the bound was computed from a number that is infinite or becomes so.
        let is_left_out = given.iter().all(|number| number.rounded().abs() < SMALL_SQUARE);
        return is_left_out.then(|| Exact::Float(f64::MAX.copysign(rounded)));
    }
    let mut found: Option<Exact> = None;
    for &number in given.iter().filter(|number| number.rounded() == rounded) {
        match found {
            Some(other) if other.to_float() != number.to_float() => return None,
            // The rounded number equals one of the common constants of Paddle's own code, so its origin is unknown.
            _ if number.to_float() != rounded && is_common(rounded) => return None,
            _ => found = Some(number),
        }
    }
    if found.is_some() {
        return found;
    }
    if let Some(bound) = BOUNDS.into_iter().map(Exact::Integer).find(|bound| bound.rounded() == rounded) {
        return Some(bound);
    }
    let is_any_rounded = given.iter().any(|number| number.rounded() != number.to_float());
    if rounded.is_infinite() || rounded.is_nan() || is_common(rounded) || !is_any_rounded && !uses_all_bits(rounded) {
        return Some(Exact::Float(rounded));
    }
    // If a number of the call was rounded, `rounded` may have been computed from it.
    decimal(rounded).filter(|_| !is_any_rounded).map(Exact::Float)
}

/// True for the small numbers of few bits that are frequent in code. Other numbers are rarely rounded to one of them.
fn is_common(number: f64) -> bool {
    number == 0.0 || number.abs() <= 1024.0 && number.to_bits() & ((1 << 44) - 1) == 0
}

/// Returns the number of few decimal digits that a `float32` stands for, if there is one.
#[expect(clippy::cast_possible_truncation, reason = "the number is a `float32`")]
fn decimal(rounded: f64) -> Option<f64> {
    let text = format!("{:e}", rounded as f32);
    let digits = text.split('e').next()?.chars().filter(char::is_ascii_digit).count();
    (digits <= DIGITS).then(|| text.parse().ok()).flatten()
}

/// Replaces operands of operations in the program that is being built.
pub(crate) struct Mender<'a, 'py> {
    pub(crate) paddle: &'a Paddle,
    pub(crate) target: &'a Target,
    pub(crate) py: Python<'py>,
}

impl<'py> Mender<'_, 'py> {
    /// Replaces the result of `constant` by `number` as an operand of `user`.
    pub(crate) fn replace_number(
        &self,
        constant: &Bound<'py, PyAny>,
        user: &Bound<'py, PyAny>,
        number: Exact,
    ) -> PyResult<()> {
        self.replace_with(constant, user, || {
            let full = cpython::import(self.py, "paddle")?.getattr("full")?;
            match number {
                Exact::Float(number) => full.call1(([1], number, "float64")),
                Exact::Integer(number) => whole(&full, number),
            }
        })
    }

    /// Replaces the result of `constant` by a tensor of these numbers as an operand of `user`.
    pub(crate) fn replace_tensor(
        &self,
        constant: &Bound<'py, PyAny>,
        user: &Bound<'py, PyAny>,
        numbers: &[f64],
    ) -> PyResult<()> {
        self.replace_with(constant, user, || {
            let shape = first_result(constant)?.getattr(intern!(self.py, "shape"))?;
            let array = cpython::import(self.py, "numpy")?.call_method1("array", (PyList::new(self.py, numbers)?,))?;
            let array = array.call_method1("reshape", (shape,))?;
            cpython::import(self.py, "paddle")?.call_method1("assign", (array,))
        })
    }

    /// Gives an operation a copy of its first operand, which it may then write over. The copy is copied again:
    /// otherwise it would be merged with a copy of the same tensor that the program has made already.
    pub(crate) fn copy_first_operand(&self, operation: &Bound<'py, PyAny>) -> PyResult<()> {
        let operand = operation.call_method1(intern!(self.py, "operand"), (0,))?;
        let source = operand.call_method0(intern!(self.py, "source"))?;
        let made = self.at(("set_insertion_point", operation), || {
            let assign = cpython::import(self.py, "paddle")?.getattr("assign")?;
            assign.call1((assign.call1((source,))?,))
        })?;
        operand.call_method1(intern!(self.py, "set_source"), (made,)).map(drop)
    }

    /// Replaces the result of `operation` by the value that `make` returns as an operand of `user`.
    pub(crate) fn replace_with(
        &self,
        operation: &Bound<'py, PyAny>,
        user: &Bound<'py, PyAny>,
        make: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let replacement = self.behind(operation, make)?;
        self.replace(operation, user, &replacement)
    }

    fn behind<T>(&self, operation: &Bound<'py, PyAny>, make: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        self.at(("set_insertion_point_after", operation), make)
    }

    /// Runs `make` with new operations inserted at a position in the program.
    fn at<T>(&self, (go, operation): (&str, &Bound<'py, PyAny>), make: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        let pir = cpython::import(self.py, "paddle.base.libpaddle")?.getattr(intern!(self.py, "pir"))?;
        self.paddle.static_mode.within(self.py, self.target, || {
            pir.call_method1(go, (operation,))?;
            let result = make();
            let block = self.target.main.bind(self.py).call_method0(intern!(self.py, "global_block"))?;
            pir.call_method1(intern!(self.py, "set_insertion_point_to_block_end"), (block,))?;
            result
        })
    }

    fn replace(&self, old: &Bound<'py, PyAny>, user: &Bound<'py, PyAny>, new: &Bound<'py, PyAny>) -> PyResult<()> {
        let old = first_result(old)?.call_method0(intern!(self.py, "hash"))?;
        let operands: usize = user.call_method0(intern!(self.py, "num_operands"))?.extract()?;
        for at in 0..operands {
            let operand = user.call_method1(intern!(self.py, "operand"), (at,))?;
            let source = operand.call_method0(intern!(self.py, "source"))?;
            if self.paddle.is_value(&source) && source.call_method0(intern!(self.py, "hash"))?.eq(&old)? {
                operand.call_method1(intern!(self.py, "set_source"), (new,))?;
            }
        }
        Ok(())
    }
}

/// Makes an integer as a tensor. A constant has only the nearest `double` of an integer beyond 2**53, so the rest is
/// added.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "what the cast loses is added afterwards"
)]
fn whole<'py>(full: &Bound<'py, PyAny>, number: i64) -> PyResult<Bound<'py, PyAny>> {
    let near = number as f64;
    let rest = i128::from(number) - near as i128;
    let near = full.call1(([1], near, "int64"))?;
    if rest == 0 {
        Ok(near)
    } else {
        near.add(full.call1(([1], rest as f64, "int64"))?)
    }
}

fn first_result<'py>(operation: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    operation.call_method1(intern!(operation.py(), "result"), (0,))
}

/// Returns the numbers of a constant tensor of `float32` that Paddle's code has made of Python numbers; `None` for any
/// other operation.
pub(crate) fn numbers_of(operation: &Bound<'_, PyAny>) -> PyResult<Option<Vec<f64>>> {
    let py = operation.py();
    if operation.is_none() || operation.call_method0(intern!(py, "name"))?.extract::<&str>()? != "pd_op.assign_value_" {
        return Ok(None);
    }
    let attributes = operation.call_method0(intern!(py, "attrs"))?.cast_into::<PyDict>()?;
    if &*dtype_name(&attributes.as_any().get_item("dtype")?)? != "float32" {
        return Ok(None);
    }
    attributes.as_any().get_item("values")?.extract().map(Some)
}

/// The error for a number that cannot be restored.
pub(crate) fn refused(name: &str) -> PyErr {
    PyNotImplementedError::new_err(format!("a program would round a number on its way to {name} to float32"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_the_call_is_found_again() {
        let given = [Exact::Float(0.1), Exact::Integer((1 << 24) + 1)];
        for number in given {
            assert_eq!(of(number.rounded(), &given, "pd_op.full_like"), Some(number));
        }
        assert_eq!(of(f64::from(0.3_f32), &given, "pd_op.full_like"), None);
        assert_eq!(of(0.25, &given, "pd_op.full_like"), Some(Exact::Float(0.25)));
    }

    #[test]
    fn a_number_of_few_digits_is_the_one_in_the_source() {
        assert_eq!(of(f64::from(1e-6_f32), &[], "pd_op.clip"), Some(Exact::Float(1e-6)));
        assert_eq!(of(f64::from(1.0_f32 / 3.0), &[], "pd_op.clip"), None);
        assert_eq!(of(2_147_483_520.0, &[], "pd_op.clip"), Some(Exact::Integer(2_147_483_519)));
        assert_eq!(of(f64::INFINITY, &[], "pd_op.clip"), Some(Exact::Float(f64::MAX)));
        assert_eq!(of(f64::INFINITY, &[Exact::Float(0.5)], "pd_op.clip"), Some(Exact::Float(f64::MAX)));
        assert_eq!(of(f64::INFINITY, &[Exact::Float(f64::NEG_INFINITY)], "pd_op.clip"), None);
    }

    #[test]
    fn what_two_numbers_are_rounded_to_is_neither() {
        let given = [Exact::Integer((1 << 24) + 1), Exact::Integer(1 << 24)];
        assert_eq!(of(16_777_216.0, &given, "pd_op.clip"), None);
        assert_eq!(of(0.0, &[Exact::Float(1e-300)], "pd_op.full_like"), None);
    }
}
