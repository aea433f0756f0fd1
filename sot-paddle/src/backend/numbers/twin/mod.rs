//! Checks that statements do not depend on open sizes. Paddle infers shapes with unknown sizes, but its Python
//! functions may read such a size and get -1. So a statement on a value with an open size is built twice: in a program
//! that is thrown away (the twin), with the sizes of this call, and then in the program that will run. If both have
//! the same operations, with equal attributes and results that agree, the sizes make no difference. Everything else is
//! refused.
//!
//! Sizes that follow from the elements of a tensor, as those of `x[mask]`, are known only when the graph has run. The
//! twin has invented sizes in their place.

mod compare;
mod iteration;
mod selections;
mod shape_arguments;
mod size_numbers;

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySlice, PyTuple};
use sot_core::backend::{CallKind, SizesMatter};
use sot_core::cpython;

use crate::backend::graph::builder::identity;
use crate::backend::numbers::scalar;
use crate::backend::paddle::meta;
use crate::backend::paddle::operation;
use crate::backend::paddle::static_mode::BuildTarget;
use crate::backend::paddle::Paddle;

pub(crate) use compare::attributes_text;
pub(crate) use iteration::refusing_endless;
use size_numbers::SizeNumbers;

/// Operations with one result for each index of a dimension. If the dimension is open, Paddle ends the process.
const TAKE_APART: &[&str] = &["pd_op.unbind", "pd_op.unstack"];

/// Functions and methods that split a tensor into one result for each index of a dimension.
const TAKING_APART: &[&str] = &["unbind", "unstack"];

/// The size in the twin of a dimension whose size only a run tells. It can be divided by the usual numbers of groups
/// and heads.
const INVENTED: i64 = 840;
/// The invented size if a statement cannot be built with [`INVENTED`]: it is broadcast to any other.
const INVENTED_INSTEAD: i64 = 1;

/// The twin: a program that is built with the sizes of this call.
pub(crate) struct Twin {
    paddle: Arc<Paddle>,
    target: BuildTarget,
    /// The twin's values, by identity of the program's values: for values with open sizes, or computed from them.
    values: HashMap<u64, Py<PyAny>>,
    /// Like `values`, for values with invented sizes, or computed from them.
    invented: HashMap<u64, Py<PyAny>>,
    /// The size that is invented for the present statement.
    invented_size: i64,
    /// True if an argument of the present statement has an invented size.
    uses_invented: bool,
    /// Number of values that the twin was given.
    given: usize,
    /// The twin's values for other values of the program, which statements use together with those in `values`.
    stand_ins: HashMap<u64, Py<PyAny>>,
    /// The program's values, by identity of the twin's.
    originals: HashMap<u64, Py<PyAny>>,
    /// The numbers of values that stand for sizes.
    numbers: SizeNumbers,
    inputs: Vec<TwinInput>,
    /// The statements that are in both programs.
    statements: Vec<TwinStatement>,
}

/// An input of the program that the twin has as well.
pub(crate) struct TwinInput {
    pub(crate) value: Py<PyAny>,
    /// The sizes of this call.
    pub(crate) sizes: Vec<i64>,
}

/// A statement of the program on values with open sizes.
pub(crate) struct TwinStatement {
    pub(crate) kind: CallKind,
    pub(crate) callee: Py<PyAny>,
    pub(crate) args: Py<PyTuple>,
    pub(crate) kwargs: Option<Py<PyDict>>,
    /// The program's result.
    pub(crate) result: Py<PyAny>,
    /// The program's operations.
    pub(crate) operations: Vec<Py<PyAny>>,
}

/// The arguments of a statement.
pub(crate) struct Arguments<'py> {
    pub(crate) positional: Bound<'py, PyTuple>,
    pub(crate) keywords: Option<Bound<'py, PyDict>>,
}

impl Twin {
    pub(crate) fn new(py: Python<'_>, paddle: &Arc<Paddle>) -> PyResult<Self> {
        Ok(Twin {
            paddle: Arc::clone(paddle),
            target: paddle.static_mode.new_target(py, &paddle.program)?,
            values: HashMap::new(),
            invented: HashMap::new(),
            invented_size: INVENTED,
            uses_invented: false,
            given: 0,
            stand_ins: HashMap::new(),
            originals: HashMap::new(),
            numbers: SizeNumbers::default(),
            inputs: Vec::new(),
            statements: Vec::new(),
        })
    }

    /// The target for the twin's operations.
    pub(crate) fn target(&self, py: Python<'_>) -> BuildTarget {
        self.target.clone_ref(py)
    }

    /// Adds an input of the program, with the sizes that it has in the twin. Returns the twin's value.
    pub(crate) fn add_input<'py>(&mut self, value: &Bound<'py, PyAny>, sizes: Vec<i64>) -> PyResult<Bound<'py, PyAny>> {
        self.uses_invented = false;
        let twin = self.data_like(value, &sizes)?;
        self.insert(value, &twin)?;
        self.inputs.push(TwinInput { value: value.clone().unbind(), sizes });
        Ok(twin)
    }

    /// The inputs that have open sizes or are numbers.
    pub(crate) fn inputs(&self) -> &[TwinInput] {
        &self.inputs
    }

    /// Notes a statement that was added to both programs.
    pub(crate) fn note(&mut self, statement: TwinStatement) {
        self.statements.push(statement);
    }

    /// The statements that are in both programs.
    pub(crate) fn statements(&self) -> &[TwinStatement] {
        &self.statements
    }

    /// Returns the size of a dimension in the twin; `None` if the value does not depend on open sizes, or the twin does
    /// not know the size either.
    pub(crate) fn size(&self, value: &Bound<'_, PyAny>, axis: usize) -> PyResult<Option<i64>> {
        let Some(twin) = self.values.get(&identity(&self.paddle, value)?) else { return Ok(None) };
        let meta = meta::of_value(&self.paddle, twin.bind(value.py()))?;
        Ok(meta.and_then(|meta| meta.shape.get(axis).copied().flatten()))
    }

    /// Makes a twin's value of these sizes, with the type of `value`.
    fn data_like<'py>(&mut self, value: &Bound<'py, PyAny>, sizes: &[i64]) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        let name = format!("sot.twin.{}", self.given);
        self.given += 1;
        let (sizes, dtype) = (PyList::new(py, sizes)?, value.getattr(intern!(py, "dtype"))?);
        self.paddle.static_mode.within(py, &self.target, || {
            let twin = self.paddle.data.bind(py).call1((name, sizes, dtype))?;
            twin.setattr(intern!(py, "stop_gradient"), value.getattr(intern!(py, "stop_gradient"))?)?;
            Ok(twin)
        })
    }

    fn insert(&mut self, value: &Bound<'_, PyAny>, twin: &Bound<'_, PyAny>) -> PyResult<()> {
        let (here, there) = (identity(&self.paddle, twin)?, identity(&self.paddle, value)?);
        let values = if self.uses_invented { &mut self.invented } else { &mut self.values };
        values.insert(there, twin.clone().unbind());
        self.originals.insert(here, value.clone().unbind());
        Ok(())
    }

    /// True if an argument contains a value that depends on open sizes, or has sizes that only a run tells.
    pub(crate) fn concerns(&self, args: &Bound<'_, PyTuple>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<bool> {
        let given = args.iter().chain(keywords.into_iter().flat_map(PyDictMethods::values));
        for argument in given {
            if self.holds_open(&argument)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn holds_open(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        if self.paddle.is_value(object) {
            let id = identity(&self.paddle, object)?;
            return Ok(self.values.contains_key(&id) || self.invented.contains_key(&id) || has_unknown_size(object)?);
        }
        for part in parts(object)? {
            if self.holds_open(&part)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the arguments with the twin's values.
    pub(crate) fn arguments<'py>(
        &mut self,
        args: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Arguments<'py>> {
        (self.invented_size, self.uses_invented) = (INVENTED, false);
        self.with_twins_values(args, keywords)
    }

    /// Returns the arguments with other invented sizes. `None` if none of their sizes is invented.
    pub(crate) fn other_arguments<'py>(
        &mut self,
        args: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Arguments<'py>>> {
        if !self.uses_invented {
            return Ok(None);
        }
        self.invented_size = INVENTED_INSTEAD;
        self.with_twins_values(args, keywords).map(Some)
    }

    fn with_twins_values<'py>(
        &mut self,
        args: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Arguments<'py>> {
        let positional = self.translated(args.as_any())?.cast_into()?;
        let keywords = match keywords {
            Some(keywords) => Some(self.translated(keywords.as_any())?.cast_into()?),
            None => None,
        };
        Ok(Arguments { positional, keywords })
    }

    fn translated<'py>(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let paddle = Arc::clone(&self.paddle);
        with_values(&paddle, object, &mut |value| {
            let id = identity(&paddle, value)?;
            let known = self.values.get(&id).or_else(|| self.stand_ins.get(&id)).map(|twin| twin.bind(value.py()));
            let sizes = match known {
                Some(known) if !has_unknown_size(known)? => return Ok(known.clone()),
                Some(known) => sizes_of(known)?,
                None => sizes_of(value)?,
            };
            if !sizes.contains(&UNKNOWN) {
                let twin = self.data_like(value, &sizes)?;
                self.stand_ins.insert(id, twin.clone().unbind());
                return Ok(twin);
            }
            self.with_invented_sizes(value, id, sizes)
        })
    }

    /// Returns the twin's value for one with sizes that only a run tells. `sizes` are those that are known in the twin.
    fn with_invented_sizes<'py>(
        &mut self,
        value: &Bound<'py, PyAny>,
        id: u64,
        mut sizes: Vec<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.uses_invented = true;
        if let Some(twin) = self.invented.get(&id).filter(|_| self.invented_size == INVENTED) {
            let twin = twin.bind(value.py());
            if !has_unknown_size(twin)? {
                return Ok(twin.clone());
            }
        }
        for size in sizes.iter_mut().filter(|size| **size == UNKNOWN) {
            *size = self.invented_size;
        }
        let twin = self.data_like(value, &sizes)?;
        self.insert(value, &twin)?;
        Ok(twin)
    }

    /// Returns the operations of a program, without those that stand for its parameters.
    pub(crate) fn operations<'py>(py: Python<'py>, target: &BuildTarget) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let mut kept = Vec::new();
        for operation in operation::of_program(target.main.bind(py))? {
            if operation::name_of(&operation)? != "builtin.parameter" {
                kept.push(operation);
            }
        }
        Ok(kept)
    }

    /// Refuses to split a tensor along a dimension whose open size is computed from numbers: the number of results
    /// would be unknown, and Paddle would end the process.
    pub(crate) fn refuse_to_take_apart(&self, callee: &Bound<'_, PyAny>, given: &Arguments<'_>) -> PyResult<()> {
        if !scalar::name(callee)?.is_some_and(|name| TAKING_APART.contains(&&*name)) {
            return Ok(());
        }
        for argument in given.positional.iter().chain(given.keywords.iter().flat_map(PyDictMethods::values)) {
            if !self.paddle.is_value(&argument) {
                continue;
            }
            let sizes: Vec<i64> = argument.getattr(intern!(argument.py(), "shape"))?.extract()?;
            if sizes.iter().any(|size| *size < 0) {
                return Err(refused("it takes a dimension apart"));
            }
        }
        Ok(())
    }

    /// Refuses operations that must not even be built in the program, because Paddle would end the process.
    pub(crate) fn refuse_dangerous(&self, operations: &[Bound<'_, PyAny>]) -> PyResult<()> {
        for operation in operations {
            if !TAKE_APART.contains(&&*operation::name_of(operation)?) {
                continue;
            }
            let py = operation.py();
            let axis: i64 = operation.call_method0(intern!(py, "attrs"))?.get_item("axis")?.extract()?;
            let source = operation.call_method0(intern!(py, "operands_source"))?.get_item(0)?;
            let original = self.originals.get(&identity(&self.paddle, &source)?);
            let open = match original {
                Some(original) => {
                    let shape: Vec<i64> = original.bind(py).getattr(intern!(py, "shape"))?.extract()?;
                    let axis = if axis < 0 { axis + shape.len() as i64 } else { axis };
                    usize::try_from(axis).ok().and_then(|axis| shape.get(axis)).is_none_or(|size| *size < 0)
                }
                None => true,
            };
            if open {
                return Err(refused("it takes a dimension apart"));
            }
        }
        Ok(())
    }
}

/// What Paddle's static mode says for a size that it does not know.
const UNKNOWN: i64 = -1;

/// The sizes of a value; none if it has no shape.
fn sizes_of(value: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    value.getattr_opt(intern!(value.py(), "shape"))?.map_or_else(|| Ok(Vec::new()), |shape| shape.extract())
}

/// True if static mode does not know all sizes of a value.
fn has_unknown_size(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(sizes_of(value)?.contains(&UNKNOWN))
}

/// True if an argument contains a value with sizes that static mode does not know.
pub(crate) fn hold_unknown_sizes(
    paddle: &Paddle,
    args: &Bound<'_, PyTuple>,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<bool> {
    for argument in args.iter().chain(keywords.into_iter().flat_map(PyDictMethods::values)) {
        if holds_unknown_size(paddle, &argument)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holds_unknown_size(paddle: &Paddle, object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if paddle.is_value(object) {
        return has_unknown_size(object);
    }
    for part in parts(object)? {
        if holds_unknown_size(paddle, &part)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn refused(why: &str) -> PyErr {
    SizesMatter::new_err(format!("what it does depends on the size of a dimension: {why}"))
}

/// Returns the items of an object of a plain container type; nothing for other objects.
pub(crate) fn parts<'py>(object: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if object.is_exact_instance_of::<PyTuple>() || object.is_exact_instance_of::<PyList>() {
        return object.try_iter()?.collect();
    }
    if let Ok(dict) = object.cast_exact::<PyDict>() {
        return Ok(dict.values().iter().collect());
    }
    if object.is_exact_instance_of::<PySlice>() {
        return ["start", "stop", "step"].into_iter().map(|part| object.getattr(part)).collect();
    }
    Ok(Vec::new())
}

/// Returns a copy of the object with its graph values replaced.
pub(crate) fn with_values<'py>(
    paddle: &Paddle,
    object: &Bound<'py, PyAny>,
    replace: &mut dyn FnMut(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if paddle.is_value(object) {
        return replace(object);
    }
    let mut items = Vec::new();
    for part in parts(object)? {
        items.push(with_values(paddle, &part, replace)?);
    }
    if object.is_exact_instance_of::<PyTuple>() {
        return Ok(PyTuple::new(py, items)?.into_any());
    }
    if object.is_exact_instance_of::<PyList>() {
        return Ok(PyList::new(py, items)?.into_any());
    }
    if let Ok(slice) = object.cast_exact::<PySlice>() {
        let [start, end, step] = &items[..] else { return Ok(slice.clone().into_any()) };
        return cpython::new_slice(py, [start, end, step]);
    }
    if let Ok(dict) = object.cast_exact::<PyDict>() {
        let copy = PyDict::new(py);
        for (key, item) in dict.keys().iter().zip(items) {
            copy.set_item(key, item)?;
        }
        return Ok(copy.into_any());
    }
    Ok(object.clone())
}
