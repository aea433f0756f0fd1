//! Open sizes: sizes that are values of the graph, in the place of Python numbers. Only for few functions is it known
//! that a statement with such a value does the same as with a number; these functions are listed here.

use std::collections::HashSet;

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyInt, PySlice, PyString, PyTuple};
use sot_core::backend::{CallKind, SizesMatter};
use sot_core::cpython;

use crate::backend::calls::items;
use crate::backend::graph::builder::identity;
use crate::backend::numbers::diagonals;
use crate::backend::numbers::floats;
use crate::backend::numbers::scalar;
use crate::backend::numbers::twin::parts;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// Functions and methods that take sizes, in shapes and bounds.
const TAKING: &[&str] = &[
    "__getitem__",
    "arange",
    "bincount",
    "broadcast_to",
    "crop",
    "empty",
    "expand",
    "eye",
    "full",
    "full_like",
    "interpolate",
    "linspace",
    "multinomial",
    "new_empty",
    "new_full",
    "new_ones",
    "new_zeros",
    "normal",
    "one_hot",
    "ones",
    "pad",
    "rand",
    "randint",
    "randn",
    "reshape",
    "sequence_mask",
    "slice",
    "split",
    "standard_normal",
    "tile",
    "to_tensor",
    "topk",
    "unflatten",
    "uniform",
    "upsample",
    "view",
    "zeros",
];

/// Operators between numbers, or between a tensor and a number.
pub(crate) const OPERATORS: &[&str] =
    &["__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__floordiv__", "__mod__"];

/// Operators that divide.
const QUOTIENTS: &[&str] = &["__truediv__", "__rtruediv__", "__floordiv__", "__mod__"];

/// Comparisons of a tensor with a number. Eager mode converts the number to the tensor's type.
pub(crate) const COMPARISONS: &[&str] = &["__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"];

/// True if a statement can take open sizes.
pub(crate) fn accepts_sizes(kind: CallKind, callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let CallKind::Object(_) = kind {
        return Ok(false);
    }
    if diagonals::take_sizes(kind, callee)? {
        return Ok(true);
    }
    let Some(name) = scalar::name(callee)? else { return Ok(false) };
    Ok(match kind {
        CallKind::Method => [TAKING, OPERATORS, QUOTIENTS, COMPARISONS].iter().any(|taking| taking.contains(&&*name)),
        CallKind::Api => TAKING.contains(&&*name),
        CallKind::InPlace => &*name == "__setitem__",
        CallKind::Object(_) => false,
    })
}

/// Operators for which zero, one and negative numbers are numbers like others.
const OPERATORS_ON_ALL: &[&str] = &["__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__"];

/// True if a statement can take all integers that a graph takes, and not only those that may be sizes.
pub(crate) fn accepts_all_integers(kind: CallKind, callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    let name = if kind == CallKind::Method { scalar::name(callee)? } else { None };
    Ok(name.is_some_and(|name| OPERATORS_ON_ALL.contains(&&*name) || COMPARISONS.contains(&&*name)))
}

/// True if a call is an operator between numbers, or between a tensor and a number.
pub(crate) fn is_operator(kind: CallKind, callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    let name = if kind == CallKind::Method { scalar::name(callee)? } else { None };
    Ok(name.is_some_and(|name| [OPERATORS, QUOTIENTS, COMPARISONS].iter().any(|operators| operators.contains(&&*name))))
}

/// True if a function takes tensors in the place of sizes.
pub(crate) fn is_taken_by(function: &str) -> bool {
    TAKING.contains(&function)
}

/// Returns the function that gives the size of a dimension: as a number for a tensor, as a graph value for a graph
/// value.
pub(crate) fn function(py: Python<'_>, paddle: &Paddle) -> PyResult<Py<PyAny>> {
    static SIZE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let value_type = paddle.value_type.clone_ref(py);
    let make = || -> PyResult<Py<PyAny>> {
        let size = cpython::fastcall(py, "size", "The size of a dimension.", move |py, args| {
            let [tensor, axis] = args else { return Err(PyTypeError::new_err("a tensor and an axis are expected")) };
            if !tensor.is_instance(value_type.bind(py))? {
                return Ok(tensor.getattr(intern!(py, "shape"))?.get_item(axis)?.unbind());
            }
            let sizes = cpython::import(py, "paddle")?.call_method1(intern!(py, "shape"), (tensor,))?;
            Ok(sizes.get_item(axis)?.call_method1(intern!(py, "astype"), ("int64",))?.unbind())
        })?;
        Ok(size.unbind())
    };
    Ok(SIZE.get_or_try_init(py, make)?.clone_ref(py))
}

/// The graph values that stand for numbers, by identity.
#[derive(Default)]
pub(crate) struct NumberValues(HashSet<u64>);

impl NumberValues {
    /// Notes the result of the function that [`function`] returns.
    pub(crate) fn note(
        &mut self,
        paddle: &Paddle,
        callee: &Bound<'_, PyAny>,
        result: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if callee.is(&function(callee.py(), paddle)?) {
            self.0.insert(identity(paddle, result)?);
        }
        Ok(())
    }

    /// Notes the values that stand for numbers in a copy of a statement's arguments.
    pub(crate) fn note_alike(
        &mut self,
        paddle: &Paddle,
        original: &Bound<'_, PyAny>,
        copy: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if paddle.is_value(original) {
            return if self.has(paddle, original) { self.insert(paddle, copy) } else { Ok(()) };
        }
        let pairs = parts(original)?.into_iter().zip(parts(copy)?);
        pairs.into_iter().try_for_each(|(original, copy)| self.note_alike(paddle, &original, &copy))
    }

    /// True if the arguments of a statement contain a value that stands for a number.
    pub(crate) fn are_in(
        &self,
        paddle: &Paddle,
        args: &Bound<'_, PyTuple>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<bool> {
        self.is_any(paddle, args, keywords, &|value| Ok(self.has(paddle, value)))
    }

    /// True if all values among the arguments stand for numbers.
    pub(crate) fn are_all(&self, paddle: &Paddle, args: &Bound<'_, PyTuple>) -> PyResult<bool> {
        let is_other = |value: &Bound<'_, PyAny>| Ok(!self.has(paddle, value));
        is_any_within(paddle, args.as_any(), &is_other).map(|other| !other)
    }

    /// True if a value that stands for a float is among the arguments of a statement.
    pub(crate) fn floats_are_in(
        &self,
        paddle: &Paddle,
        args: &Bound<'_, PyTuple>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<bool> {
        self.is_any(paddle, args, keywords, &|value| self.is_float(paddle, value))
    }

    /// True if `is_it` is true of a value among the arguments of a statement.
    fn is_any(
        &self,
        paddle: &Paddle,
        args: &Bound<'_, PyTuple>,
        keywords: Option<&Bound<'_, PyDict>>,
        is_it: &dyn Fn(&Bound<'_, PyAny>) -> PyResult<bool>,
    ) -> PyResult<bool> {
        if self.0.is_empty() {
            return Ok(false);
        }
        let mut given = args.iter().chain(keywords.into_iter().flat_map(PyDictMethods::values));
        given.try_fold(false, |any, argument| Ok(any || is_any_within(paddle, &argument, is_it)?))
    }

    /// Refuses what a program does not do with an open number in an index as eager mode does.
    ///
    /// - The step of a slice: Paddle asks for its sign while the statement is built.
    /// - The position of a write: a program does not notice a position outside the tensor.
    /// - A number that is written to a tensor of integers.
    pub(crate) fn refuse_in_index(
        &self,
        paddle: &Paddle,
        (kind, callee): (CallKind, &Bound<'_, PyAny>),
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        if self.0.is_empty() || args.len() < 2 {
            return Ok(());
        }
        let name = scalar::name(callee)?;
        let writes = kind == CallKind::InPlace && name.as_deref() == Some("__setitem__");
        if !writes && name.as_deref() != Some("__getitem__") {
            return Ok(());
        }
        let index = items::parts(&args.get_item(1)?);
        for part in &index {
            if part.is_instance_of::<PySlice>() && self.has(paddle, &part.getattr("step")?) {
                return Err(SizesMatter::new_err("a number is the step of a slice"));
            }
        }
        if !writes {
            return Ok(());
        }
        let written = args.get_item(2).ok().filter(|value| self.has(paddle, value));
        if written.is_some()
            && meta::of_value(paddle, &args.get_item(0)?)?.is_none_or(|meta| !meta.dtype.starts_with("float"))
        {
            return Err(SizesMatter::new_err("a number that is written to integers is rounded in eager mode"));
        }
        if index.iter().any(|part| self.has(paddle, part)) {
            return Err(SizesMatter::new_err("a number says where is written"));
        }
        Ok(())
    }

    /// Notes that a value stands for a number.
    pub(crate) fn insert(&mut self, paddle: &Paddle, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.0.insert(identity(paddle, value)?);
        Ok(())
    }

    /// True if a value stands for a number.
    pub(crate) fn has(&self, paddle: &Paddle, value: &Bound<'_, PyAny>) -> bool {
        paddle.is_value(value) && identity(paddle, value).is_ok_and(|id| self.0.contains(&id))
    }

    /// True if a value stands for a float.
    pub(crate) fn is_float(&self, paddle: &Paddle, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.has(paddle, value) && meta::of_value(paddle, value)?.is_some_and(|meta| &*meta.dtype == "float64"))
    }

    /// Returns the result, if the call is an operator with a value that stands for a number, and another value or a
    /// number. To be called in static mode.
    pub(crate) fn operator<'py>(
        &mut self,
        paddle: &Paddle,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.0.is_empty() || kind != CallKind::Method || args.len() != 2 {
            return Ok(None);
        }
        let method = callee.cast::<PyString>()?;
        let (receiver, other) = (args.get_item(0)?, args.get_item(1)?);
        let compares = COMPARISONS.contains(&method.to_str()?);
        if !compares && !OPERATORS.contains(&method.to_str()?) && !QUOTIENTS.contains(&method.to_str()?) {
            return Ok(None);
        }
        let is_number = |operand: &Bound<'py, PyAny>| self.has(paddle, operand);
        if !compares && is_number(&receiver) && (is_number(&other) || other.is_exact_instance_of::<PyInt>()) {
            let result = receiver.call_method1(method, (other,))?;
            self.0.insert(identity(paddle, &result)?);
            return Ok(Some(result));
        }
        if is_number(&receiver) || !is_number(&other) {
            return if is_number(&receiver) { Err(refuse_unlike_number(method)) } else { Ok(None) };
        }
        let Some(meta) = meta::of_value(paddle, &receiver)? else { return Err(refuse_unlike_number(method)) };
        let floating = matches!(&*meta.dtype, "float32" | "float64");
        if QUOTIENTS.contains(&method.to_str()?) {
            if method == "__truediv__" && paddle.release.divides_by_reciprocal {
                return Err(refuse_unlike_number(method));
            }
            // Of integers, eager mode makes quotients of other types.
            let number = other.call_method1(intern!(method.py(), "astype"), ("float64",))?;
            return floats::compute(paddle, method, &receiver, &number).map(Some);
        }
        // For numbers that do not fit into 32 bits, eager mode and a cast give different results.
        if !floating && &*meta.dtype != "int64" {
            return Err(refuse_unlike_number(method));
        }
        let number = other.call_method1(intern!(method.py(), "astype"), (&*meta.dtype,))?;
        if floating && matches!(method.to_str()?, "__mul__" | "__rmul__") {
            // `scale` also adds zero, in eager mode, too.
            return cpython::import(method.py(), "paddle")?.call_method1("scale", (receiver, number)).map(Some);
        }
        receiver.call_method1(method, (number,)).map(Some)
    }
}

/// True if `is_it` is true of the value, or of one in the container.
fn is_any_within<'py>(
    paddle: &Paddle,
    object: &Bound<'py, PyAny>,
    is_it: &dyn Fn(&Bound<'py, PyAny>) -> PyResult<bool>,
) -> PyResult<bool> {
    if paddle.is_value(object) {
        return is_it(object);
    }
    parts(object)?.iter().try_fold(false, |any, part| Ok(any || is_any_within(paddle, part, is_it)?))
}

fn refuse_unlike_number(method: &Bound<'_, PyString>) -> PyErr {
    SizesMatter::new_err(format!("{method} with a size is not as it is with a number"))
}
