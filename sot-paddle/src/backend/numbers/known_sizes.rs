//! Sizes that a program has as a tensor (by `paddle.shape`, or made of Python integers), and what it computes from
//! them. If no size is open, their numbers are known. Shapes are then built with the numbers, so that the shapes of
//! results are known, too, and branches and `int()` need no break.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PySlice, PyString, PyTuple};
use sot_core::backend::CallKind;

use crate::backend::graph::builder::identity;
use crate::backend::numbers::scalar;
use crate::backend::numbers::sizes;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// Functions and methods that take shapes and counts: name, range of positions (from, to), and keywords. At these
/// arguments a number has the same effect as a tensor of that number.
const TAKING: &[(&str, usize, usize, &[&str])] = &[
    ("__getitem__", 1, 2, &[]),
    ("adaptive_avg_pool2d", 1, 2, &["output_size"]),
    ("adaptive_max_pool2d", 1, 2, &["output_size"]),
    ("arange", 0, 3, &["start", "end", "step"]),
    ("broadcast_to", 1, 2, &["shape"]),
    ("empty", 0, 1, &["shape"]),
    ("expand", 1, 2, &["shape"]),
    ("eye", 0, 2, &["num_rows", "num_columns"]),
    ("full", 0, 1, &["shape"]),
    ("interpolate", 1, 2, &["size"]),
    ("one_hot", 1, 2, &["num_classes"]),
    ("ones", 0, 1, &["shape"]),
    ("rand", 0, 1, &["shape"]),
    ("randn", 0, 1, &["shape"]),
    ("reshape", 1, 2, &["shape"]),
    ("slice", 2, 4, &["starts", "ends"]),
    ("split", 1, 2, &["num_or_sections"]),
    ("tile", 1, 2, &["repeat_times"]),
    ("upsample", 1, 2, &["size"]),
    ("zeros", 0, 1, &["shape"]),
];

/// The known numbers of values, by identity: an `int`, a `bool`, or a list of these.
#[derive(Default)]
pub(crate) struct KnownSizes(HashMap<u64, Py<PyAny>>);

impl KnownSizes {
    /// Notes the numbers of a statement's result, if they are known.
    pub(crate) fn note(
        &mut self,
        paddle: &Paddle,
        kind: CallKind,
        callee: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        result: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let Some(name) = scalar::name(callee)? else { return Ok(()) };
        let known = match (kind, &*name) {
            (CallKind::Api, "shape") if !args.is_empty() => sizes_of(paddle, &args.get_item(0)?)?,
            (_, "numel") if !args.is_empty() => elements_of(paddle, &args.get_item(0)?)?,
            (CallKind::Method, "__getitem__") => self.item(paddle, args)?,
            (CallKind::Method, name) if sizes::OPERATORS.contains(&name) || sizes::COMPARISONS.contains(&name) => {
                self.operator(paddle, name, args)?
            }
            _ => None,
        };
        if let (Some(known), true) = (known, paddle.is_value(result)) {
            self.0.insert(identity(paddle, result)?, known.unbind());
        }
        Ok(())
    }

    /// Notes the integers that a tensor was made of, which are given as an array.
    pub(crate) fn note_data(
        &mut self,
        paddle: &Paddle,
        data: &Bound<'_, PyAny>,
        result: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let Some(meta) = meta::of_value(paddle, result)? else { return Ok(()) };
        if meta.shape.len() > 1 || !matches!(&*meta.dtype, "int32" | "int64") {
            return Ok(());
        }
        let numbers = data.call_method0("tolist")?;
        self.0.insert(identity(paddle, result)?, numbers.unbind());
        Ok(())
    }

    /// Returns the arguments with known values replaced by their numbers, if the callee takes shapes; otherwise
    /// `None`.
    pub(crate) fn arguments<'py>(
        &self,
        paddle: &Paddle,
        callee: &Bound<'py, PyAny>,
        (args, keywords): (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
    ) -> PyResult<Option<(Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let name = scalar::name(callee)?;
        let Some((_, from, to, names)) = TAKING.iter().find(|(taking, ..)| name.as_deref() == Some(taking)) else {
            return Ok(None);
        };
        let mut positional = Vec::new();
        for (place, argument) in args.iter().enumerate() {
            positional.push(if (*from..*to).contains(&place) { self.number(paddle, &argument)? } else { argument });
        }
        let keywords = keywords.map(PyDictMethods::copy).transpose()?;
        for (given, name) in keywords.iter().flat_map(|given| names.iter().map(move |name| (given, name))) {
            if let Some(argument) = given.get_item(name)? {
                given.set_item(name, self.number(paddle, &argument)?)?;
            }
        }
        Ok(Some((PyTuple::new(callee.py(), positional)?, keywords)))
    }

    /// Returns the result of a method of a value without arguments, if it is known.
    pub(crate) fn answer<'py>(
        &self,
        paddle: &Paddle,
        value: &Bound<'py, PyAny>,
        method: &str,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(number) = self.known(paddle, value)?.filter(PyAnyMethods::is_instance_of::<PyInt>) else {
            return Ok(None);
        };
        // Only some releases of numpy convert an array with a dimension (`size // 2`) to a number, so these methods
        // need a value without dimensions.
        let is_bare = meta::of_value(paddle, value)?.is_some_and(|meta| meta.shape.is_empty());
        match method {
            "item" => Ok(Some(number)),
            "__bool__" => number.call_method0(method).map(Some),
            "__int__" | "__float__" if is_bare => number.call_method0(method).map(Some),
            "__index__" if is_bare && number.is_exact_instance_of::<PyInt>() => Ok(Some(number)),
            _ => Ok(None),
        }
    }

    /// Returns the known number of a value, or an object with its known values replaced by their numbers.
    fn number<'py>(&self, paddle: &Paddle, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(known) = self.known(paddle, object)?.filter(|known| !known.is_instance_of::<PyBool>()) {
            return Ok(known);
        }
        if let Ok(slice) = object.cast::<PySlice>() {
            let part = |name: &str| self.number(paddle, &slice.getattr(name)?);
            return object.get_type().call1((part("start")?, part("stop")?, part("step")?));
        }
        let is_list = object.is_exact_instance_of::<PyList>();
        if !is_list && !object.is_exact_instance_of::<PyTuple>() {
            return Ok(object.clone());
        }
        let items: Vec<Bound<'py, PyAny>> = object.try_iter()?.collect::<PyResult<_>>()?;
        let items = items.iter().map(|item| self.number(paddle, item)).collect::<PyResult<Vec<_>>>()?;
        let items = PyList::new(object.py(), items)?;
        Ok(if is_list { items.into_any() } else { items.to_tuple().into_any() })
    }

    fn known<'py>(&self, paddle: &Paddle, object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.0.is_empty() || !paddle.is_value(object) {
            return Ok(None);
        }
        Ok(self.0.get(&identity(paddle, object)?).map(|known| known.bind(object.py()).clone()))
    }

    fn item<'py>(&self, paddle: &Paddle, args: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (Some(of), key) = (self.known(paddle, &args.get_item(0)?)?, args.get_item(1)?) else { return Ok(None) };
        let is_plain = key.is_exact_instance_of::<PyInt>() || key.is_exact_instance_of::<PySlice>();
        if !is_plain || !of.is_instance_of::<PyList>() {
            return Ok(None);
        }
        Ok(of.get_item(key).ok())
    }

    fn operator<'py>(
        &self,
        paddle: &Paddle,
        name: &str,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(left) = self.known(paddle, &args.get_item(0)?)? else { return Ok(None) };
        let other = args.get_item(1)?;
        let right = self.known(paddle, &other)?.unwrap_or(other);
        let is_number = |operand: &Bound<'_, PyAny>| operand.is_exact_instance_of::<PyInt>();
        if !is_number(&left) || !is_number(&right) {
            return Ok(None);
        }
        let result = left.call_method1(PyString::new(args.py(), name), (right,)).ok();
        // A tensor of sizes holds numbers of 32 bits.
        Ok(result.filter(|result| result.extract::<i32>().is_ok()))
    }
}

/// Number of elements of a value, if its sizes are known.
fn elements_of<'py>(paddle: &Paddle, value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(meta) = meta::of_value(paddle, value)? else { return Ok(None) };
    let elements: Option<i64> = meta.shape.into_iter().product();
    elements.map(|elements| Ok(elements.into_pyobject(value.py())?.into_any())).transpose()
}

/// All sizes of a value as a list, if they are known.
fn sizes_of<'py>(paddle: &Paddle, value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(meta) = meta::of_value(paddle, value)? else { return Ok(None) };
    let sizes: Option<Vec<i64>> = meta.shape.into_iter().collect();
    sizes.map(|sizes| Ok(PyList::new(value.py(), sizes)?.into_any())).transpose()
}
