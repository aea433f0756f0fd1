//! Numpy arrays that are new at each call, as inputs of the graph. As a graph value such an array is the tensor that
//! `paddle.to_tensor` makes of it. Uses that this module does not know are refused.

use std::collections::HashMap;

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sot_core::backend::{CallKind, TensorMeta};
use sot_core::cpython;

use crate::backend::graph::builder::identity;
use crate::backend::graph::data::{is_named, OPERATORS};
use crate::backend::paddle::meta::{self, dtype_name};
use crate::backend::paddle::Paddle;

/// Functions that copy an array into a tensor.
const MAKERS: &[&str] = &["tensor", "to_tensor"];

/// Element types to which numpy and Paddle convert numbers in the same way.
const ALIKE: &[&str] = &["float32", "float64", "int32", "int64"];

/// True if a statement can take such an array.
pub(crate) fn accepts_arrays(kind: CallKind, callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(match kind {
        CallKind::Api => is_maker(callee)?,
        CallKind::Method => OPERATORS.contains(&callee.extract::<&str>()?),
        _ => false,
    })
}

fn is_maker(callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    MAKERS.iter().try_fold(false, |any, name| Ok(any || is_named(callee, name)?))
}

/// Returns the tensor that eager mode makes of an array.
pub(crate) fn tensor_of<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    cpython::import(array.py(), "paddle")?.call_method1(intern!(array.py(), "to_tensor"), (array,))
}

/// The graph values that stand for arrays, by identity.
#[derive(Default)]
pub(crate) struct ArrayValues(HashMap<u64, ArrayValue>);

struct ArrayValue {
    /// The element type of the array.
    dtype: String,
    /// True for a scalar of numpy.
    is_scalar: bool,
}

impl ArrayValues {
    /// Notes the value that stands for an array.
    pub(crate) fn insert(
        &mut self,
        paddle: &Paddle,
        value: &Bound<'_, PyAny>,
        array: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let dtype = array.getattr(intern!(array.py(), "dtype"))?.str()?.to_string();
        let is_scalar = !cpython::builtin_type_name(array).eq("ndarray");
        self.0.insert(identity(paddle, value)?, ArrayValue { dtype, is_scalar });
        Ok(())
    }

    /// True if a value stands for an array.
    pub(crate) fn has(&self, paddle: &Paddle, value: &Bound<'_, PyAny>) -> bool {
        self.of(paddle, value).is_some()
    }

    fn of(&self, paddle: &Paddle, value: &Bound<'_, PyAny>) -> Option<&ArrayValue> {
        let is_value = !self.0.is_empty() && paddle.is_value(value);
        let id = is_value.then(|| identity(paddle, value).ok()).flatten()?;
        self.0.get(&id)
    }

    /// True if the arguments of a statement contain a value that stands for an array.
    pub(crate) fn are_in(
        &self,
        paddle: &Paddle,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<bool> {
        if self.0.is_empty() {
            return Ok(false);
        }
        let mut values = meta::values_in(paddle, args)?;
        if let Some(kwargs) = kwargs {
            values.extend(meta::values_in(paddle, kwargs)?);
        }
        Ok(values.iter().any(|value| self.has(paddle, value)))
    }

    /// Returns the result of a statement that takes such a value; `None` for any other statement. To be called in
    /// static mode.
    pub(crate) fn call<'py>(
        &self,
        paddle: &Paddle,
        (kind, callee): (CallKind, &Bound<'py, PyAny>),
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !self.are_in(paddle, args, kwargs)? {
            return Ok(None);
        }
        if kind == CallKind::Method && args.len() == 2 && kwargs.is_none() {
            let (tensor, array) = (args.get_item(0)?, args.get_item(1)?);
            let is_scalar = self.of(paddle, &array).is_some_and(|array| array.is_scalar);
            return operator(paddle, callee, &tensor, (&array, is_scalar)).map(Some);
        }
        let data = args.get_item(0).ok().and_then(|data| Some((self.of(paddle, &data)?, data)));
        let (Some((own, data)), CallKind::Api) = (data, kind) else { return Err(refused("an array in other data")) };
        make(&own.dtype, &data, &args.get_slice(1, args.len()), kwargs).map(Some)
    }
}

/// Applies an operator between a tensor and an array or scalar. Eager mode converts the array to a tensor, too, and the
/// scalars that are given here.
fn operator<'py>(
    paddle: &Paddle,
    method: &Bound<'py, PyAny>,
    tensor: &Bound<'py, PyAny>,
    (array, is_scalar): (&Bound<'py, PyAny>, bool),
) -> PyResult<Bound<'py, PyAny>> {
    let metas = meta::of_value(paddle, tensor)?.zip(meta::of_value(paddle, array)?);
    // Eager mode treats an array without dimensions as a number. With two element types, eager mode decides which
    // pairs it refuses.
    let is_number = |array: &TensorMeta| array.shape.is_empty() && !is_scalar;
    let widened = |(tensor, array): &(TensorMeta, TensorMeta)| {
        is_scalar && (&*tensor.dtype, &*array.dtype) == ("float64", "float32")
    };
    if metas.as_ref().is_some_and(widened) {
        return tensor.call_method1(method.cast()?, (array.call_method1("astype", ("float64",))?,));
    }
    if metas.is_none_or(|(tensor, array)| is_number(&array) || tensor.dtype != array.dtype) {
        return Err(refused("an operator with an array of another element type, or without dimensions"));
    }
    tensor.call_method1(method.cast()?, (array,))
}

/// `to_tensor(array, dtype)`
fn make<'py>(
    own: &str,
    data: &Bound<'py, PyAny>,
    rest: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = data.py();
    let mut dtype = rest.get_item(0).ok().filter(|dtype| !dtype.is_none());
    let mut is_plain = rest.iter().skip(1).all(|other| other.is_none());
    for (keyword, value) in kwargs.into_iter().flat_map(PyDictMethods::iter) {
        match keyword.extract::<&str>()? {
            "dtype" if !value.is_none() => dtype = Some(value),
            "dtype" | "place" | "device" => is_plain &= value.is_none(),
            "stop_gradient" => is_plain &= value.is_truthy()?,
            "requires_grad" => is_plain &= !value.is_truthy()?,
            _ => is_plain = false,
        }
    }
    if !is_plain {
        return Err(refused("a tensor made of an array, and put elsewhere or with a gradient"));
    }
    let made = match dtype.map(|dtype| dtype_name(&dtype)).transpose()? {
        Some(wanted) if *dtype_name(&data.getattr(intern!(py, "dtype"))?)? != *wanted => {
            if !ALIKE.contains(&&*wanted) {
                return Err(refused(&format!("an array of {own} as a tensor of {wanted}")));
            }
            data.call_method1(intern!(py, "astype"), (&*wanted,))?
        }
        _ => cpython::import(py, "paddle")?.call_method1(intern!(py, "assign"), (data,))?,
    };
    made.setattr(intern!(py, "stop_gradient"), true)?;
    Ok(made)
}

fn refused(what: &str) -> PyErr {
    PyNotImplementedError::new_err(format!("{what} is done in eager mode"))
}
