//! Results that share memory with another tensor in eager mode: slices, reshaped and detached tensors. Inside a
//! program they are values like any other, because a write to memory that other values share ends the graph. A view
//! that leaves the graph together with the tensor that it is a view of is made again from that tensor, by the same
//! call in eager mode, so that a later write to one shows in the other.

use std::collections::HashMap;
use std::rc::Rc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyEllipsis, PyFloat, PyInt, PyList, PySlice, PyString, PyTuple};
use sot_core::backend::CallKind;
use sot_core::cpython;

use crate::backend::calls::argument_types::is_frameworks;
use crate::backend::graph::builder::identity;
use crate::backend::numbers::twin::with_values;
use crate::backend::paddle::Paddle;

use super::in_place::refuse;

/// Operations whose result may be a view of their first operand. For some operands it is a copy,
/// which is made again by the same call.
pub(crate) const VIEWS: &[&str] = &[
    "builtin.split",
    "pd_op.as_complex",
    "pd_op.as_real",
    "pd_op.as_strided",
    "pd_op.diagonal",
    "pd_op.flatten",
    "pd_op.imag",
    "pd_op.real",
    "pd_op.reshape",
    "pd_op.slice",
    "pd_op.split",
    "pd_op.split_with_num",
    "pd_op.squeeze",
    "pd_op.strided_slice",
    "pd_op.tensor_unfold",
    "pd_op.transpose",
    "pd_op.unbind",
    "pd_op.unsqueeze",
    "pd_op.view_dtype",
    "pd_op.view_shape",
];

/// A call that makes a view of one of its arguments.
pub(crate) struct Step {
    /// `None` for a method.
    function: Option<Py<PyAny>>,
    method: Py<PyAny>,
    /// The keyword by which the tensor is given; `None` if it is the first argument.
    source: Option<Py<PyAny>>,
    rest: Py<PyTuple>,
    keywords: Option<Py<PyDict>>,
    /// Index of the view among the results, if the call returns several.
    index: Option<usize>,
    /// The graph values among the other arguments that stand for numbers.
    numbers: Vec<Py<PyAny>>,
}

/// The value that another value is a view of, directly or through other views.
pub(crate) struct ViewRoot<'py> {
    pub(crate) id: u64,
    pub(crate) value: Bound<'py, PyAny>,
    /// The calls from the root to the value, each with the identity of the value that it makes; empty if the value is
    /// no view.
    pub(crate) steps: Vec<(u64, Rc<Step>)>,
}

struct View {
    source: u64,
    source_value: Py<PyAny>,
    step: Rc<Step>,
}

/// The views among a program's values, by identity.
#[derive(Default)]
pub(crate) struct Views(HashMap<u64, View>);

impl Views {
    /// Notes the results of a statement that are views of its first argument, or of a tensor among its keywords. Other
    /// values among the arguments, such as a size or a tensor whose shape is taken over, are needed to make the view
    /// again.
    pub(crate) fn note<'py>(
        &mut self,
        paddle: &Paddle,
        (kind, callee): (CallKind, &Bound<'py, PyAny>),
        args: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
        result: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        if kind == CallKind::InPlace {
            return Ok(());
        }
        let items = results(paddle, result);
        if items.is_empty() {
            return Ok(());
        }
        let first = args.get_item(0).ok().filter(|first| paddle.is_value(first));
        if let Some(source) = first {
            let rest = args.get_slice(1, args.len());
            return self.note_all(paddle, (kind, callee), (&source, None), (&rest, keywords), &items);
        }
        for (name, source) in keywords.into_iter().flatten().filter(|(_, given)| paddle.is_value(given)) {
            let others = keywords.map(PyDictMethods::copy).transpose()?;
            others.as_ref().map_or(Ok(()), |others| others.del_item(&name))?;
            self.note_all(paddle, (kind, callee), (&source, Some(&name)), (args, others.as_ref()), &items)?;
        }
        Ok(())
    }

    /// Notes those of the results that are views of `source`, which is given by a keyword or as the first argument.
    fn note_all<'py>(
        &mut self,
        paddle: &Paddle,
        (kind, callee): (CallKind, &Bound<'py, PyAny>),
        (source, keyword): (&Bound<'py, PyAny>, Option<&Bound<'py, PyAny>>),
        (rest, keywords): (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
        items: &[(Option<usize>, Bound<'py, PyAny>)],
    ) -> PyResult<()> {
        let id = identity(paddle, source)?;
        let mut views = Vec::new();
        for (index, item) in items {
            if identity(paddle, item)? != id && is_view(paddle, item, id)? {
                views.push((*index, item));
            }
        }
        if views.is_empty() {
            return Ok(());
        }
        let mut found = Vec::new();
        for argument in rest.iter().chain(keywords.into_iter().flat_map(PyDictMethods::values)) {
            let (argument, numbers) = numbers_in(paddle, &argument)?;
            found.extend(numbers);
            if !is_kept(paddle, &argument) {
                // The program's own functions may take any object. Their result then counts as one with memory of its
                // own.
                if kind == CallKind::Method || is_frameworks(callee)? {
                    return refuse("a view is made with an argument that may change");
                }
                return Ok(());
            }
        }
        for (index, item) in views {
            let step = Step {
                function: (kind != CallKind::Method).then(|| callee.clone().unbind()),
                method: callee.clone().unbind(),
                source: keyword.map(|keyword| keyword.clone().unbind()),
                rest: rest.clone().unbind(),
                keywords: keywords.map(|keywords| keywords.clone().unbind()),
                index,
                numbers: found.iter().map(|number| number.clone_ref(source.py())).collect(),
            };
            self.note_step(paddle, source, item, step)?;
        }
        Ok(())
    }

    /// Notes a value that may share the memory of `source_value` in eager mode, where `step` makes it.
    pub(crate) fn note_step(
        &mut self,
        paddle: &Paddle,
        source_value: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        step: Step,
    ) -> PyResult<()> {
        let (source, id) = (identity(paddle, source_value)?, identity(paddle, value)?);
        if source != id {
            self.0.insert(id, View { source, source_value: source_value.clone().unbind(), step: Rc::new(step) });
        }
        Ok(())
    }

    /// Returns the value at the start of a chain of views, and the calls that lead from there to `value`. A value
    /// that is no view is its own root.
    pub(crate) fn root<'py>(&self, value: &Bound<'py, PyAny>, mut id: u64) -> ViewRoot<'py> {
        let py = value.py();
        let mut root = ViewRoot { id, value: value.clone(), steps: Vec::new() };
        while let Some(view) = self.0.get(&id) {
            root.steps.push((id, Rc::clone(&view.step)));
            root.value = view.source_value.bind(py).clone();
            id = view.source;
        }
        root.id = id;
        root.steps.reverse();
        root
    }
}

impl Step {
    /// A call of a method.
    pub(crate) fn method(
        py: Python<'_>,
        name: &str,
        rest: &Bound<'_, PyTuple>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> Step {
        let method = PyString::intern(py, name).into_any().unbind();
        let keywords = keywords.map(|keywords| keywords.clone().unbind());
        let rest = rest.clone().unbind();
        Step { function: None, method, source: None, rest, keywords, index: None, numbers: Vec::new() }
    }

    /// Sets the values among the arguments whose numbers are needed to make the view again, in their order.
    pub(crate) fn with_numbers(self, numbers: Vec<Py<PyAny>>) -> Step {
        Step { numbers, ..self }
    }

    /// The values whose numbers are needed to make the view again.
    pub(crate) fn numbers(&self) -> &[Py<PyAny>] {
        &self.numbers
    }

    /// Makes the view of `tensor`, in eager mode. `numbers` are the values of [`Step::numbers`] in this run.
    pub(crate) fn apply<'py>(
        &self,
        paddle: &Paddle,
        tensor: &Bound<'py, PyAny>,
        numbers: &[Bound<'py, PyAny>],
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = tensor.py();
        let (mut rest, mut keywords) =
            (self.rest.bind(py).clone(), self.keywords.as_ref().map(|it| it.bind(py).clone()));
        if !numbers.is_empty() {
            let mut numbers = numbers.iter();
            let mut put_in = |value: &Bound<'py, PyAny>| Ok(numbers.next().unwrap_or(value).clone());
            rest = with_values(paddle, rest.as_any(), &mut put_in)?.cast_into()?;
            if let Some(given) = &mut keywords {
                *given = with_values(paddle, given.as_any(), &mut put_in)?.cast_into()?;
            }
        }
        let result = match (&self.function, &self.source) {
            (Some(function), Some(source)) => {
                let given = keywords.map_or_else(|| Ok(PyDict::new(py)), |keywords| keywords.copy())?;
                given.set_item(source, tensor)?;
                function.bind(py).call(&rest, Some(&given))?
            }
            (Some(function), None) => {
                let args: Vec<_> = std::iter::once(tensor.clone()).chain(rest.iter()).collect();
                function.bind(py).call(PyTuple::new(py, args)?, keywords.as_ref())?
            }
            (None, _) => tensor.getattr(self.method.bind(py).cast::<PyString>()?)?.call(&rest, keywords.as_ref())?,
        };
        match self.index {
            Some(index) => result.get_item(index),
            None => Ok(result),
        }
    }

    /// A copy of the step, for another owner.
    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Step {
        Step {
            function: self.function.as_ref().map(|function| function.clone_ref(py)),
            method: self.method.clone_ref(py),
            source: self.source.as_ref().map(|source| source.clone_ref(py)),
            rest: self.rest.clone_ref(py),
            keywords: self.keywords.as_ref().map(|keywords| keywords.clone_ref(py)),
            numbers: self.numbers.iter().map(|number| number.clone_ref(py)).collect(),
            index: self.index,
        }
    }
}

/// Returns an argument with a number in the place of each graph value, and these values.
pub(crate) fn numbers_in<'py>(
    paddle: &Paddle,
    argument: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Vec<Py<PyAny>>)> {
    let mut found = Vec::new();
    let one = 1_i64.into_pyobject(argument.py())?.into_any();
    let mut taken_out = |value: &Bound<'py, PyAny>| {
        found.push(value.clone().unbind());
        Ok(one.clone())
    };
    let plain = with_values(paddle, argument, &mut taken_out)?;
    Ok((plain, found))
}

/// Returns the values among the results of a statement, each with its index if there are several results.
fn results<'py>(paddle: &Paddle, result: &Bound<'py, PyAny>) -> Vec<(Option<usize>, Bound<'py, PyAny>)> {
    if paddle.is_value(result) {
        return vec![(None, result.clone())];
    }
    let items = match (result.cast::<PyList>(), result.cast::<PyTuple>()) {
        (Ok(list), _) => list.to_tuple(),
        (_, Ok(tuple)) => tuple.clone(),
        _ => return Vec::new(),
    };
    let indexed = items.iter().enumerate().map(|(index, item)| (Some(index), item));
    indexed.filter(|(_, item)| paddle.is_value(item)).collect()
}

/// True if only operations that make views lie between a value and its source.
fn is_view(paddle: &Paddle, value: &Bound<'_, PyAny>, source: u64) -> PyResult<bool> {
    let py = value.py();
    let mut value = value.clone();
    while identity(paddle, &value)? != source {
        let operation = value.call_method0(intern!(py, "get_defining_op"))?;
        if operation.is_none() || !VIEWS.contains(&operation.call_method0(intern!(py, "name"))?.extract::<&str>()?) {
            return Ok(false);
        }
        value = operation.call_method1(intern!(py, "operand_source"), (0,))?;
    }
    Ok(true)
}

/// True if an argument consists of numbers, strings, slices, element types and places.
pub(crate) fn is_plain(paddle: &Paddle, argument: &Bound<'_, PyAny>) -> bool {
    consists_of(argument, &|part| is_plain_part(paddle, part))
}

/// True if an argument can be kept for a later call: it does not change meanwhile.
fn is_kept(paddle: &Paddle, argument: &Bound<'_, PyAny>) -> bool {
    consists_of(argument, &|part| is_plain_part(paddle, part) || is_number_of_numpy(part).unwrap_or(false))
}

fn is_number_of_numpy(part: &Bound<'_, PyAny>) -> PyResult<bool> {
    part.is_instance(&cpython::import(part.py(), "numpy")?.getattr("generic")?)
}

/// True if `is_part` accepts an argument, or all parts of a slice, tuple or list.
fn consists_of(argument: &Bound<'_, PyAny>, is_part: &dyn Fn(&Bound<'_, PyAny>) -> bool) -> bool {
    if let Ok(slice) = argument.cast::<PySlice>() {
        let parts = ["start", "stop", "step"];
        return parts.iter().all(|part| slice.getattr(part).is_ok_and(|part| consists_of(&part, is_part)));
    }
    if let Ok(items) = argument.cast::<PyTuple>() {
        return items.iter().all(|item| consists_of(&item, is_part));
    }
    if let Ok(items) = argument.cast::<PyList>() {
        return items.iter().all(|item| consists_of(&item, is_part));
    }
    is_part(argument)
}

fn is_plain_part(paddle: &Paddle, part: &Bound<'_, PyAny>) -> bool {
    part.is_none()
        || part.is_instance_of::<PyBool>()
        || part.is_instance_of::<PyInt>()
        || part.is_instance_of::<PyFloat>()
        || part.is_instance_of::<PyString>()
        || part.is_instance_of::<PyEllipsis>()
        || paddle.is_plain_value(part)
}
