//! Sizes that a program has as a tensor (by `paddle.shape`, or made of Python integers), and what it computes from
//! them, of integers or floats. If no size is open, their numbers are known. Shapes are then built with the numbers, so
//! that the shapes of results are known, too, and branches and `int()` need no break.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PySlice, PyString, PyTuple};
use sot_core::backend::{CallKind, KnownResult};
use sot_core::cpython;

use crate::backend::graph::builder::identity;
use crate::backend::numbers::open_sizes::{self, OpenSizes};
use crate::backend::numbers::scalar;
use crate::backend::numbers::sizes;
use crate::backend::numbers::twin::with_values;
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
    ("pad", 1, 2, &["pad"]),
    ("rand", 0, 1, &["shape"]),
    ("randn", 0, 1, &["shape"]),
    ("randperm", 0, 1, &["n"]),
    ("reshape", 1, 2, &["shape"]),
    ("slice", 2, 4, &["starts", "ends"]),
    ("split", 1, 2, &["num_or_sections"]),
    ("tile", 1, 2, &["repeat_times"]),
    ("upsample", 1, 2, &["size"]),
    ("zeros", 0, 1, &["shape"]),
];

/// Functions and methods that are called in eager mode on known values, so that the result is known, too.
const FOLDED: &[&str] = &[
    "__abs__",
    "__getitem__",
    "__neg__",
    "__pow__",
    "__rfloordiv__",
    "__rmod__",
    "__rtruediv__",
    "abs",
    "add",
    "all",
    "any",
    "assign",
    "astype",
    "cast",
    "ceil",
    "clip",
    "clone",
    "concat",
    "divide",
    "equal",
    "flatten",
    "floor",
    "floor_divide",
    "greater_equal",
    "greater_than",
    "less_equal",
    "less_than",
    "logical_and",
    "logical_not",
    "logical_or",
    "max",
    "maximum",
    "min",
    "minimum",
    "mod",
    "multiply",
    "not_equal",
    "prod",
    "remainder",
    "reshape",
    "round",
    "squeeze",
    "stack",
    "subtract",
    "sum",
    "to_tensor",
    "unsqueeze",
];

/// Number of elements up to which values are computed while tracing.
const MOST_ELEMENTS: i64 = 64;

/// The known values of a program.
#[derive(Default)]
pub(crate) struct KnownSizes {
    /// The numbers of values, by identity: an `int`, a `bool`, or a list of these.
    numbers: HashMap<u64, Py<PyAny>>,
    /// Eager tensors that equal values, by identity. What has numbers may have none.
    tensors: HashMap<u64, Py<PyAny>>,
    /// What values hold of open sizes.
    open: OpenSizes,
}

impl KnownSizes {
    /// Notes the numbers of a statement's result, if they are known.
    pub(crate) fn note(
        &mut self,
        paddle: &Paddle,
        kind: CallKind,
        callee: &Bound<'_, PyAny>,
        (args, kwargs): (&Bound<'_, PyTuple>, Option<&Bound<'_, PyDict>>),
        result: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let Some(name) = scalar::name(callee)? else { return Ok(()) };
        if !paddle.is_value(result) {
            return Ok(());
        }
        let id = identity(paddle, result)?;
        let integer = |value: &Bound<'_, PyAny>| Ok(self.known(paddle, value)?.as_ref().and_then(open_sizes::integer));
        if let Some(held) = self.open.held_by_result(paddle, (kind, &name), args, &integer)? {
            match held.numbers(paddle, args.py())? {
                Some(numbers) => drop(self.numbers.insert(id, numbers.unbind())),
                None => self.open.insert(id, held),
            }
            return Ok(());
        }
        let known = match (kind, &*name) {
            (CallKind::Method, "__getitem__") => self.item(paddle, args)?,
            (CallKind::Method, name) if sizes::OPERATORS.contains(&name) || sizes::COMPARISONS.contains(&name) => {
                self.operator(paddle, name, args)?
            }
            _ => None,
        };
        if let Some(known) = known {
            self.numbers.insert(id, known.unbind());
        } else if let Some(tensor) = self.computed(paddle, (kind, callee, &name), (args, kwargs), result)? {
            let meta = meta::of_tensor(paddle, &tensor)?;
            if meta.shape.len() < 2 && matches!(&*meta.dtype, "bool" | "int32" | "int64") {
                self.numbers.insert(id, tensor.call_method0("tolist")?.unbind());
            }
            self.tensors.insert(id, tensor.unbind());
        }
        Ok(())
    }

    /// Returns the result of a statement as an eager tensor, computed from known values; `None` if it is not known.
    fn computed<'py>(
        &self,
        paddle: &Paddle,
        (kind, callee, name): (CallKind, &Bound<'py, PyAny>, &str),
        (args, kwargs): (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
        result: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        // Some functions are defined with an underscore before their name.
        let is_folded = FOLDED.contains(&name.strip_prefix('_').unwrap_or(name))
            || FOLDED.contains(&name)
            || sizes::OPERATORS.contains(&name)
            || sizes::COMPARISONS.contains(&name);
        if self.numbers.is_empty() || !is_folded || !matches!(kind, CallKind::Api | CallKind::Method) {
            return Ok(None);
        }
        let mut all_known = true;
        let mut known = |object: &Bound<'py, PyAny>| {
            with_values(paddle, object, &mut |value| {
                let tensor = self.tensor(paddle, value)?;
                all_known &= tensor.is_some();
                Ok(tensor.unwrap_or_else(|| value.clone()))
            })
        };
        let args = known(args.as_any())?.cast_into::<PyTuple>()?;
        let kwargs = kwargs.map(|kwargs| known(kwargs.as_any())).transpose()?;
        let kwargs = kwargs.map(Bound::cast_into::<PyDict>).transpose()?;
        if !all_known || args.is_empty() {
            return Ok(None);
        }
        let outcome = paddle.without_grad(callee.py(), || match callee.cast::<PyString>() {
            Ok(method) => {
                let rest = args.get_slice(1, args.len());
                args.get_item(0)?.getattr(method)?.call(rest, kwargs.as_ref())
            }
            Err(_) => callee.call(&args, kwargs.as_ref()),
        });
        // Where eager mode raises, the program is built as it is.
        let Some(tensor) = outcome.ok().filter(|tensor| paddle.is_tensor(tensor)) else { return Ok(None) };
        let (computed, wanted) = (meta::of_tensor(paddle, &tensor)?, meta::of_value(paddle, result)?);
        let elements: i64 = computed.shape.iter().map(|size| size.unwrap_or(i64::MAX)).product();
        let agrees = wanted.is_some_and(|wanted| wanted.shape == computed.shape && wanted.dtype == computed.dtype);
        Ok(Some(tensor).filter(|_| agrees && elements <= MOST_ELEMENTS))
    }

    /// Returns a known value as an eager tensor.
    fn tensor<'py>(&self, paddle: &Paddle, value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = value.py();
        if let Some(tensor) = self.tensors.get(&identity(paddle, value)?) {
            return Ok(Some(tensor.bind(py).clone()));
        }
        let (Some(numbers), Some(meta)) = (self.known(paddle, value)?, meta::of_value(paddle, value)?) else {
            return Ok(None);
        };
        let Some(shape) = meta.shape.iter().copied().collect::<Option<Vec<i64>>>() else { return Ok(None) };
        let made = cpython::import(py, "paddle")?.call_method1("to_tensor", (numbers, &*meta.dtype))?;
        // A number may have dimensions: `size // 2` has one.
        let elements: i64 = made.getattr("size")?.extract()?;
        if elements == shape.iter().product::<i64>() {
            made.call_method1("reshape", (shape,)).map(Some)
        } else {
            Ok(None)
        }
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
        self.numbers.insert(identity(paddle, result)?, numbers.unbind());
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
        if self.numbers.is_empty() {
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
    pub(crate) fn answer(
        &self,
        paddle: &Paddle,
        value: &Bound<'_, PyAny>,
        method: &str,
    ) -> PyResult<Option<KnownResult>> {
        if let Some(answer) = self.open.answer(paddle, value, method)? {
            return Ok(Some(answer));
        }
        Ok(self.known_answer(paddle, value, method)?.map(|known| KnownResult::Object(known.unbind())))
    }

    /// Returns the result of a method of a value without arguments, if it does not depend on open sizes.
    fn known_answer<'py>(
        &self,
        paddle: &Paddle,
        value: &Bound<'py, PyAny>,
        method: &str,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.numbers.is_empty() || !paddle.is_value(value) {
            return Ok(None);
        }
        let is_number = |known: &Bound<'_, PyAny>| known.is_instance_of::<PyInt>();
        let Some(number) = self.known(paddle, value)?.filter(is_number) else {
            return self.answer_of_tensor(paddle, value, method);
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

    /// Returns the result of a method of a value of one element that is known as a tensor.
    fn answer_of_tensor<'py>(
        &self,
        paddle: &Paddle,
        value: &Bound<'py, PyAny>,
        method: &str,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(tensor) = self.tensors.get(&identity(paddle, value)?) else { return Ok(None) };
        let tensor = tensor.bind(value.py());
        let shape = meta::of_tensor(paddle, tensor)?.shape;
        let answers = match method {
            "item" | "__bool__" => shape.iter().all(|size| *size == Some(1)),
            "__int__" | "__float__" => shape.is_empty(),
            _ => false,
        };
        if answers {
            tensor.call_method0(method).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Returns the known number of a value, or an object with its known values replaced by their numbers.
    fn number<'py>(&self, paddle: &Paddle, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(known) = self.known(paddle, object)?.filter(|known| !known.is_instance_of::<PyBool>()) {
            return Ok(known);
        }
        if let Ok(slice) = object.cast::<PySlice>() {
            let part = |name: &str| {
                let number = self.number(paddle, &slice.getattr(name)?)?;
                // A tensor of one element is a bound, too.
                let is_list = number.is_exact_instance_of::<PyList>() && number.len()? == 1;
                if is_list {
                    number.get_item(0)
                } else {
                    Ok(number)
                }
            };
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
        if self.numbers.is_empty() || !paddle.is_value(object) {
            return Ok(None);
        }
        Ok(self.numbers.get(&identity(paddle, object)?).map(|known| known.bind(object.py()).clone()))
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
