//! Lists of tensors that `paddle.to_tensor` copies to one tensor. Among tensors without dimensions may be numbers.
//! Eager mode makes an array of such a list, so numpy chooses the element type.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyTuple};
use sot_core::backend::{CallKind, TensorMeta};
use sot_core::cpython;

use crate::backend::graph::data::{self, is_named, is_row, refused, TYPES};
use crate::backend::numbers::sizes::NumberValues;
use crate::backend::numbers::twin::parts;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// A list that becomes one tensor.
pub(crate) struct CopiedRow<'py> {
    items: Vec<Item<'py>>,
    /// The element type of the tensor.
    dtype: Bound<'py, PyAny>,
    has_numbers: bool,
    has_floats: bool,
}

enum Item<'py> {
    Tensor(Bound<'py, PyAny>),
    /// What eager mode makes of a number: an array without dimensions.
    Number(Bound<'py, PyAny>),
}

impl<'py> CopiedRow<'py> {
    /// Returns the list that a call copies to one tensor; `None` for any other call. Such a tensor has no gradient. To
    /// be called in eager mode.
    pub(crate) fn of_call(
        paddle: &Paddle,
        numbers: &NumberValues,
        (kind, callee): (CallKind, &Bound<'py, PyAny>),
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Self>> {
        if kind != CallKind::Api || !is_named(callee, "to_tensor")? || numbers.are_in(paddle, args, kwargs)? {
            return Ok(None);
        }
        let Ok(row) = args.get_item(0) else { return Ok(None) };
        if !is_row(&row) {
            return Ok(None);
        }
        let parts = parts(&row)?;
        let tensors: Vec<&Bound<'py, PyAny>> = parts.iter().filter(|part| paddle.is_value(part)).collect();
        let has_numbers = tensors.len() < parts.len();
        if tensors.is_empty() || !parts.iter().all(|part| paddle.is_value(part) || is_number(part)) {
            return Ok(None);
        }
        let metas = tensors.iter().map(|tensor| meta::of_value(paddle, tensor)).collect::<PyResult<Vec<_>>>()?;
        let alike = |meta: &TensorMeta| {
            let first = metas.first().and_then(Option::as_ref);
            first.is_some_and(|first| (&meta.shape, &meta.dtype) == (&first.shape, &first.dtype))
                && meta.shape.iter().all(Option::is_some)
                && (meta.shape.is_empty() || !has_numbers)
                && TYPES.contains(&&*meta.dtype)
        };
        if !metas.iter().all(|meta| meta.as_ref().is_some_and(alike)) {
            return Err(refused("copies tensors of several shapes or element types, or of open sizes"));
        }
        // Paddle chooses the element type. It is asked with zeros in the place of the tensors.
        let dtype = tensors[0].getattr(intern!(callee.py(), "dtype"))?;
        let shape = if has_numbers { vec![] } else { vec![1] };
        let zero = cpython::import(callee.py(), "paddle")?.call_method1("zeros", (shape, dtype))?;
        let asked = parts.iter().map(|part| if paddle.is_value(part) { &zero } else { part });
        let asked = PyList::new(callee.py(), asked.take(if has_numbers { parts.len() } else { 1 }))?.into_any();
        let given: Vec<_> = std::iter::once(asked).chain(args.iter().skip(1)).collect();
        let made = callee.call(PyTuple::new(callee.py(), given)?, kwargs)?;
        let meta = meta::of_tensor(paddle, &made)?;
        if meta.gradient.flows || !TYPES.contains(&&*meta.dtype) {
            return Err(refused("makes a tensor that collects a gradient, or of an element type that programs lack"));
        }
        let dtype = made.getattr(intern!(callee.py(), "dtype"))?;
        let array = made.call_method0(intern!(callee.py(), "numpy"))?;
        let has_floats = parts.iter().any(PyAnyMethods::is_instance_of::<PyFloat>);
        let item = |(place, part): (usize, Bound<'py, PyAny>)| {
            if paddle.is_value(&part) {
                return Ok(Item::Tensor(part));
            }
            let number = array.call_method1(intern!(array.py(), "take"), (place,))?;
            Ok(Item::Number(cpython::import(array.py(), "numpy")?.call_method1("asarray", (number,))?))
        };
        let items = parts.into_iter().enumerate().map(item).collect::<PyResult<Vec<_>>>()?;
        Ok(Some(CopiedRow { items, dtype, has_numbers, has_floats }))
    }

    /// Copies the list to one tensor. To be called in static mode.
    pub(crate) fn copy(&self) -> PyResult<Bound<'py, PyAny>> {
        let py = self.dtype.py();
        let item = |item: &Item<'py>| match item {
            // Without numbers, the tensors are of one type, and the copy is converted as a whole.
            Item::Tensor(tensor) if !self.has_numbers => Ok(tensor.clone()),
            // Beside floats, numpy converts integers to `float64` before anything else.
            Item::Tensor(tensor) if self.has_floats => {
                tensor.call_method1(intern!(py, "astype"), ("float64",))?.call_method1("astype", (&self.dtype,))
            }
            Item::Tensor(tensor) => tensor.call_method1(intern!(py, "astype"), (&self.dtype,)),
            Item::Number(number) => data::constant(number),
        };
        let items = self.items.iter().map(item).collect::<PyResult<Vec<_>>>()?;
        let copy = cpython::import(py, "paddle")?.call_method1(intern!(py, "stack"), (items,))?;
        let copy = if self.has_numbers { copy } else { copy.call_method1(intern!(py, "astype"), (&self.dtype,))? };
        copy.call_method0(intern!(py, "detach"))
    }
}

fn is_number(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyBool>()
}
