//! Methods that only eager tensors have, or that mean something else in a program, and what stands for them there.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyString, PyTuple};

use super::paddle::Paddle;
use super::views::{is_plain, Step};

use sot_core::cpython;

/// What stands for a call of a method in a program.
pub(crate) struct StandIn<'py> {
    pub(crate) value: Bound<'py, PyAny>,
    /// How eager mode makes it from the receiver, whose memory it may share there.
    pub(crate) again: Option<Step>,
}

/// What a method was given besides its receiver.
pub(crate) struct Arguments<'py> {
    pub(crate) positional: Bound<'py, PyTuple>,
    pub(crate) keywords: Option<Bound<'py, PyDict>>,
}

type Make = for<'py> fn(&Paddle, &Bound<'py, PyAny>, &Arguments<'py>) -> PyResult<StandIn<'py>>;

const METHODS: &[(&str, Make)] = &[
    ("contiguous", |paddle, receiver, arguments| copy(paddle, receiver, "contiguous", arguments)),
    ("detach", detach),
    ("is_dense", |_, receiver, _| answer(receiver, true)),
    ("is_selected_rows", |_, receiver, _| answer(receiver, false)),
    ("is_sparse", |_, receiver, _| answer(receiver, false)),
    ("is_sparse_coo", |_, receiver, _| answer(receiver, false)),
    ("is_sparse_csr", |_, receiver, _| answer(receiver, false)),
    ("to", to),
    ("view", view),
    ("view_as", view_as),
];

/// Whether something stands for the method.
pub(crate) fn exists(method: &str) -> bool {
    METHODS.iter().any(|(name, _)| *name == method)
}

/// What stands for a call of the method; `None` if it stands for itself.
pub(crate) fn of<'py>(
    paddle: &Paddle,
    method: &Bound<'py, PyString>,
    receiver: &Bound<'py, PyAny>,
    arguments: &Arguments<'py>,
) -> PyResult<Option<StandIn<'py>>> {
    let method = method.to_str()?;
    match METHODS.iter().find(|(name, _)| *name == method) {
        Some((_, make)) => make(paddle, receiver, arguments).map(Some),
        None => Ok(None),
    }
}

fn refused(what: &str) -> PyErr {
    PyNotImplementedError::new_err(format!("{what} has no counterpart in a program"))
}

fn answer<'py>(receiver: &Bound<'py, PyAny>, truth: bool) -> PyResult<StandIn<'py>> {
    Ok(StandIn { value: PyBool::new(receiver.py(), truth).to_owned().into_any(), again: None })
}

fn copy<'py>(
    paddle: &Paddle,
    receiver: &Bound<'py, PyAny>,
    method: &str,
    arguments: &Arguments<'py>,
) -> PyResult<StandIn<'py>> {
    let plain = |mut items: Box<dyn Iterator<Item = Bound<'py, PyAny>> + '_>| items.all(|item| is_plain(paddle, &item));
    let keywords = arguments.keywords.as_ref();
    if !plain(Box::new(arguments.positional.iter()))
        || keywords.is_some_and(|keywords| !plain(Box::new(keywords.values().iter())))
    {
        return Err(refused(&format!("{method}() with these arguments")));
    }
    let again = Step::method(receiver.py(), method, &arguments.positional, keywords);
    Ok(StandIn {
        value: cpython::import(receiver.py(), "paddle")?.call_method1("assign", (receiver,))?,
        again: Some(again),
    })
}

/// A program's own `detach` shares memory behind the back of the executor, which then computes in place over what was
/// detached, be it the user's own tensor.
fn detach<'py>(paddle: &Paddle, receiver: &Bound<'py, PyAny>, arguments: &Arguments<'py>) -> PyResult<StandIn<'py>> {
    let copy = copy(paddle, receiver, "detach", arguments)?;
    copy.value.setattr(intern!(receiver.py(), "stop_gradient"), true)?;
    Ok(copy)
}

/// Of another shape, not of another element type.
fn view<'py>(paddle: &Paddle, receiver: &Bound<'py, PyAny>, arguments: &Arguments<'py>) -> PyResult<StandIn<'py>> {
    let shape = arguments.positional.get_item(0).map_err(|_| refused("view() with keyword arguments"))?;
    let is_shape =
        shape.is_instance_of::<PyList>() || shape.is_instance_of::<PyTuple>() || shape.is_instance_of::<PyInt>();
    if arguments.keywords.is_some() || !is_shape || !arguments.positional.iter().all(|size| is_plain(paddle, &size)) {
        return Err(refused("a view with another element type"));
    }
    let value = receiver.call_method1(intern!(receiver.py(), "reshape"), arguments.positional.clone())?;
    Ok(StandIn { value, again: Some(Step::method(receiver.py(), "view", &arguments.positional, None)) })
}

fn view_as<'py>(paddle: &Paddle, receiver: &Bound<'py, PyAny>, arguments: &Arguments<'py>) -> PyResult<StandIn<'py>> {
    let other = arguments.positional.get_item(0).map_err(|_| refused("view_as() with keyword arguments"))?;
    let shape: Vec<i64> = other.getattr(intern!(receiver.py(), "shape"))?.extract()?;
    if shape.contains(&-1) {
        return Err(refused("a view of a shape that only the run tells"));
    }
    view(paddle, receiver, &Arguments { positional: PyTuple::new(receiver.py(), [shape])?, keywords: None })
}

/// Where there is but one place to be, only the element type can change.
fn to<'py>(paddle: &Paddle, receiver: &Bound<'py, PyAny>, arguments: &Arguments<'py>) -> PyResult<StandIn<'py>> {
    let py = receiver.py();
    let Some(place) = paddle.only_place.as_ref().map(|place| place.bind(py)) else {
        return Err(refused("to() where there are several devices"));
    };
    let mut wanted = arguments.positional.iter().collect::<Vec<_>>();
    for (keyword, argument) in arguments.keywords.iter().flat_map(PyDictMethods::iter) {
        match keyword.extract::<&str>()? {
            "device" | "dtype" | "other" => wanted.push(argument),
            "blocking" | "non_blocking" => {}
            keyword => return Err(refused(&format!("to() with {keyword}"))),
        }
    }
    if wanted.is_empty() {
        return Err(refused("to() without arguments"));
    }
    let own = receiver.getattr(intern!(py, "dtype"))?;
    let mut is_copied = false;
    for argument in wanted {
        if argument.is_none() || argument.is_instance_of::<PyBool>() || is_place(&argument, place)? {
            continue;
        }
        let of_another = paddle.is_value(&argument);
        let wanted = if of_another { argument.getattr(intern!(py, "dtype"))? } else { argument };
        // A name of the type is not the type itself, so the tensor is cast.
        is_copied = !wanted.get_type().is(own.get_type());
        let cast = receiver.call_method1(intern!(py, "astype"), (wanted,))?; // Refuses what names no element type.
        if !cast.getattr(intern!(py, "dtype"))?.eq(&own)? {
            return Ok(StandIn { value: cast, again: None });
        }
    }
    if is_copied {
        return copy(paddle, receiver, "to", arguments);
    }
    Ok(StandIn { value: receiver.clone(), again: None })
}

/// Whether an argument is the place, or its name.
fn is_place(argument: &Bound<'_, PyAny>, place: &Bound<'_, PyAny>) -> PyResult<bool> {
    let place = place.str()?;
    match argument.extract::<&str>() {
        Ok(name) => Ok(place.to_str()? == format!("Place({name})")),
        Err(_) => Ok(argument.str()?.to_str()? == place.to_str()?),
    }
}
