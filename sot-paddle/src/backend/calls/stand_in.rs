//! Methods that only eager tensors have, or that mean something else in a program, and the calls that stand for them
//! there.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyString, PyTuple};

use crate::backend::memory::views::{self, is_plain, Step};
use crate::backend::paddle::Paddle;

use sot_core::cpython;

/// The result of a call that stands for a method in a program.
pub(crate) struct StandIn<'py> {
    pub(crate) value: Bound<'py, PyAny>,
    /// The call that makes the value from the receiver in eager mode, where it may share the receiver's memory.
    pub(crate) again: Option<Step>,
}

/// The arguments of a method call, without the receiver.
pub(crate) struct MethodArguments<'py> {
    pub(crate) positional: Bound<'py, PyTuple>,
    pub(crate) keywords: Option<Bound<'py, PyDict>>,
}

type MakeStandIn = for<'py> fn(&Paddle, &Bound<'py, PyAny>, &MethodArguments<'py>) -> PyResult<StandIn<'py>>;

const METHODS: &[(&str, MakeStandIn)] = &[
    ("_to", to_by_place),
    ("as_strided", as_strided),
    ("contiguous", |paddle, receiver, arguments| copy(paddle, receiver, "contiguous", arguments)),
    ("detach", detach),
    ("fill_diagonal_tensor", |_, receiver, arguments| {
        let value = fill_diagonal_tensor(receiver, &arguments.positional, arguments.keywords.as_ref())?;
        Ok(StandIn { value, again: None })
    }),
    ("is_dense", |_, receiver, _| answer(receiver, true)),
    ("is_selected_rows", |_, receiver, _| answer(receiver, false)),
    ("is_sparse", |_, receiver, _| answer(receiver, false)),
    ("is_sparse_coo", |_, receiver, _| answer(receiver, false)),
    ("is_sparse_csr", |_, receiver, _| answer(receiver, false)),
    ("narrow", narrow),
    ("to", to),
    ("unfold", unfold),
    ("view", view),
    ("view_as", view_as),
    ("view_shape", view),
];

/// Functions that have a stand-in, by module. Most of them exist as methods, too.
const FUNCTIONS: &[(&str, &[&str])] = &[
    ("paddle.tensor.manipulation", &["as_strided", "narrow", "unfold", "view", "view_as"]),
    ("paddle.base.libpaddle.eager.ops", &["view_shape"]),
    ("paddle.base.libpaddle.pir.ops", &["view_shape"]),
];

/// True if the function has a stand-in.
pub(crate) fn is_function(callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    let text = |attribute: &str| -> PyResult<String> {
        Ok(callee.getattr_opt(attribute)?.and_then(|text| text.extract().ok()).unwrap_or_default())
    };
    let (name, module) = (text("__name__")?, text("__module__")?);
    Ok(FUNCTIONS.iter().any(|(of, names)| *of == module && names.contains(&&*name)))
}

/// True if the method has a stand-in.
pub(crate) fn exists(method: &str) -> bool {
    METHODS.iter().any(|(name, _)| *name == method)
}

/// True if the attribute has a stand-in.
pub(crate) fn is_attribute(paddle: &Paddle, name: &str) -> bool {
    paddle.release.eager_attributes.iter().any(|(of, _)| *of == name)
}

/// Returns the method that stands for `getattr` with these arguments.
pub(crate) fn of_attribute<'py>(
    paddle: &Paddle,
    callee: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
) -> PyResult<Option<Bound<'py, PyString>>> {
    let py = callee.py();
    if args.len() != 2 || !callee.is(&cpython::builtin(py, "getattr")?) {
        return Ok(None);
    }
    let name = args.get_item(1)?;
    let attributes = paddle.release.eager_attributes;
    let method = attributes.iter().find(|(of, _)| name.extract::<&str>().is_ok_and(|name| name == *of));
    Ok(method.map(|(_, method)| PyString::intern(py, method)))
}

/// Makes the stand-in for a call of the method; `None` if the method needs none.
pub(crate) fn of<'py>(
    paddle: &Paddle,
    method: &Bound<'py, PyString>,
    receiver: &Bound<'py, PyAny>,
    arguments: &MethodArguments<'py>,
) -> PyResult<Option<StandIn<'py>>> {
    let method = method.to_str()?;
    match METHODS.iter().find(|(name, _)| *name == method) {
        Some((_, make)) => make(paddle, receiver, arguments).map(Some),
        None => Ok(None),
    }
}

pub(crate) fn refused(what: &str) -> PyErr {
    PyNotImplementedError::new_err(format!("{what} has no counterpart in a program"))
}

fn answer<'py>(receiver: &Bound<'py, PyAny>, truth: bool) -> PyResult<StandIn<'py>> {
    Ok(StandIn { value: PyBool::new(receiver.py(), truth).to_owned().into_any(), again: None })
}

fn copy<'py>(
    paddle: &Paddle,
    receiver: &Bound<'py, PyAny>,
    method: &str,
    arguments: &MethodArguments<'py>,
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

/// A copy without gradient. A program's own `detach` shares memory without the executor's knowledge: the executor then
/// computes in place over the detached tensor, which may be the user's own.
fn detach<'py>(
    paddle: &Paddle,
    receiver: &Bound<'py, PyAny>,
    arguments: &MethodArguments<'py>,
) -> PyResult<StandIn<'py>> {
    let copy = copy(paddle, receiver, "detach", arguments)?;
    copy.value.setattr(intern!(receiver.py(), "stop_gradient"), true)?;
    Ok(copy)
}

/// Stands for a view of another shape; a view of another element type is refused. The values among the sizes stand for
/// numbers.
fn view<'py>(
    paddle: &Paddle,
    receiver: &Bound<'py, PyAny>,
    arguments: &MethodArguments<'py>,
) -> PyResult<StandIn<'py>> {
    let shape = arguments.positional.get_item(0).map_err(|_| refused("view() with keyword arguments"))?;
    let is_shape =
        shape.is_instance_of::<PyList>() || shape.is_instance_of::<PyTuple>() || shape.is_instance_of::<PyInt>();
    let (sizes, numbers) = views::numbers_in(paddle, arguments.positional.as_any())?;
    let is_shape = is_shape || paddle.is_value(&shape);
    if arguments.keywords.is_some() || !is_shape || !is_plain(paddle, &sizes) {
        return Err(refused("a view with another element type"));
    }
    let value = receiver.call_method1(intern!(receiver.py(), "reshape"), arguments.positional.clone())?;
    let again = Step::method(receiver.py(), "view", &arguments.positional, None).with_numbers(numbers);
    Ok(StandIn { value, again: Some(again) })
}

/// A tensor with other numbers on its diagonal. The function that makes it is no method of a program's values.
pub(crate) fn fill_diagonal_tensor<'py>(
    tensor: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let function = cpython::import(py, "paddle.tensor.manipulation")?.getattr("fill_diagonal_tensor")?;
    let args: Vec<Bound<'_, PyAny>> = std::iter::once(tensor.clone()).chain(args.iter()).collect();
    function.call(PyTuple::new(py, args)?, kwargs)
}

fn view_as<'py>(
    paddle: &Paddle,
    receiver: &Bound<'py, PyAny>,
    arguments: &MethodArguments<'py>,
) -> PyResult<StandIn<'py>> {
    let other = arguments.positional.get_item(0).map_err(|_| refused("view_as() with keyword arguments"))?;
    let shape: Vec<i64> = other.getattr(intern!(receiver.py(), "shape"))?.extract()?;
    if shape.contains(&-1) {
        return Err(refused("a view of a shape that only the run tells"));
    }
    view(paddle, receiver, &MethodArguments { positional: PyTuple::new(receiver.py(), [shape])?, keywords: None })
}

/// Returns an argument, by position or by name, as a number or numbers.
fn numbers<'py, T: FromPyObjectOwned<'py>>(arguments: &MethodArguments<'py>, at: usize, name: &str) -> PyResult<T> {
    let by_name = arguments.keywords.as_ref().map(|keywords| keywords.get_item(name)).transpose()?.flatten();
    let given = arguments.positional.get_item(at).ok().or(by_name);
    let given = given.ok_or_else(|| refused(&format!("a call without {name}")))?;
    given.extract().map_err(|_| refused(&format!("a call with such {name}")))
}

fn sizes_of(value: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let sizes: Vec<i64> = value.getattr(intern!(value.py(), "shape"))?.extract()?;
    if sizes.contains(&-1) {
        return Err(refused("a shape that only the run tells"));
    }
    Ok(sizes)
}

/// Refuses tensors with a gradient: an element that appears in several places gets, in eager mode, the gradient of one
/// of these places or none.
fn refuse_gradient(receiver: &Bound<'_, PyAny>) -> PyResult<()> {
    if receiver.getattr(intern!(receiver.py(), "stop_gradient"))?.is_truthy()? {
        return Ok(());
    }
    Err(refused("a tensor with a gradient whose elements are shown in several places"))
}

/// Selects the elements with these indices along an axis.
fn taken<'py>(value: &Bound<'py, PyAny>, at: &[i64], axis: usize) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let (paddle, numpy) = (cpython::import(py, "paddle")?, cpython::import(py, "numpy")?);
    let at = paddle.call_method1("assign", (numpy.call_method1("array", (at.to_vec(), "int64"))?,))?;
    paddle.call_method1("index_select", (value, at, axis))
}

/// `x[..., start:start + length, ...]`
fn narrow<'py>(
    paddle: &Paddle,
    receiver: &Bound<'py, PyAny>,
    arguments: &MethodArguments<'py>,
) -> PyResult<StandIn<'py>> {
    let py = receiver.py();
    let (axis, start): (i64, i64) = (numbers(arguments, 0, "dim")?, numbers(arguments, 1, "start")?);
    let (length, sizes): (i64, _) = (numbers(arguments, 2, "length")?, sizes_of(receiver)?);
    let at = usize::try_from(if axis < 0 { axis + sizes.len() as i64 } else { axis }).ok();
    let size = at.and_then(|at| sizes.get(at)).copied().ok_or_else(|| refused("a dimension that is not there"))?;
    let start = if start < 0 { start + size } else { start };
    if start < 0 || length <= 0 || start + length > size {
        return Err(refused("a part that is empty or not there"));
    }
    let value = cpython::import(py, "paddle")?.call_method1("slice", (receiver, [axis], [start], [start + length]))?;
    again(paddle, "narrow", receiver, arguments, value)
}

/// Windows of `size` elements along an axis, as a new last dimension.
fn unfold<'py>(
    paddle: &Paddle,
    receiver: &Bound<'py, PyAny>,
    arguments: &MethodArguments<'py>,
) -> PyResult<StandIn<'py>> {
    let (axis, size): (i64, i64) = (numbers(arguments, 0, "axis")?, numbers(arguments, 1, "size")?);
    let (step, sizes): (i64, _) = (numbers(arguments, 2, "step")?, sizes_of(receiver)?);
    refuse_gradient(receiver)?;
    let at = usize::try_from(if axis < 0 { axis + sizes.len() as i64 } else { axis }).ok();
    let at = at.filter(|at| *at < sizes.len()).ok_or_else(|| refused("a dimension that is not there"))?;
    if size <= 0 || step <= 0 || size > sizes[at] {
        return Err(refused("windows that are not there"));
    }
    let windows = (sizes[at] - size) / step + 1;
    let places: Vec<i64> = (0..windows).flat_map(|window| (0..size).map(move |place| window * step + place)).collect();
    let value = taken(receiver, &places, at)?;
    let apart: Vec<i64> = [&sizes[..at], &[windows, size], &sizes[at + 1..]].concat();
    let order: Vec<usize> = (0..=at).chain(at + 2..apart.len()).chain([at + 1]).collect();
    let value = value.call_method1("reshape", (apart,))?.call_method1("transpose", (order,))?;
    again(paddle, "unfold", receiver, arguments, value)
}

/// The elements at the given strides in the memory of a contiguous tensor.
fn as_strided<'py>(
    paddle: &Paddle,
    receiver: &Bound<'py, PyAny>,
    arguments: &MethodArguments<'py>,
) -> PyResult<StandIn<'py>> {
    let (shape, strides): (Vec<i64>, Vec<i64>) = (numbers(arguments, 0, "shape")?, numbers(arguments, 1, "stride")?);
    let offset: i64 = numbers(arguments, 2, "offset").unwrap_or(0);
    refuse_gradient(receiver)?;
    // The offset is in bytes.
    if offset != 0 || shape.len() != strides.len() || shape.iter().chain(&strides).any(|number| *number < 0) {
        return Err(refused("such strides"));
    }
    let mut places = vec![0];
    for (size, stride) in shape.iter().zip(&strides) {
        places = places.iter().flat_map(|place| (0..*size).map(move |at| place + at * stride)).collect();
    }
    let elements: i64 = sizes_of(receiver)?.iter().product();
    if places.is_empty() || places.iter().any(|place| *place >= elements) {
        return Err(refused("strides that lead out of the tensor"));
    }
    let value = taken(&receiver.call_method1("reshape", ([-1],))?, &places, 0)?.call_method1("reshape", (shape,))?;
    again(paddle, "as_strided", receiver, arguments, value)
}

/// Returns the value with the call that makes it in eager mode.
fn again<'py>(
    paddle: &Paddle,
    method: &str,
    receiver: &Bound<'py, PyAny>,
    arguments: &MethodArguments<'py>,
    value: Bound<'py, PyAny>,
) -> PyResult<StandIn<'py>> {
    let keywords = arguments.keywords.as_ref();
    let mut given = arguments.positional.iter().chain(keywords.into_iter().flat_map(PyDictMethods::values));
    if !given.all(|argument| is_plain(paddle, &argument)) {
        return Err(refused("a call with values of tensors"));
    }
    Ok(StandIn { value, again: Some(Step::method(receiver.py(), method, &arguments.positional, keywords)) })
}

/// Stands for `to`. With only one place, only the element type can change.
fn to<'py>(paddle: &Paddle, receiver: &Bound<'py, PyAny>, arguments: &MethodArguments<'py>) -> PyResult<StandIn<'py>> {
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
        // If the type is given by name, it is not the tensor's type object, so eager mode casts and makes a copy.
        is_copied = !wanted.get_type().is(own.get_type());
        let cast = receiver.call_method1(intern!(py, "astype"), (wanted,))?; // Raises for what names no element type.
        if !cast.getattr(intern!(py, "dtype"))?.eq(&own)? {
            return Ok(StandIn { value: cast, again: None });
        }
    }
    if is_copied {
        return copy(paddle, receiver, "to", arguments);
    }
    Ok(StandIn { value: receiver.clone(), again: None })
}

/// Stands for `_to(device, dtype, blocking)`, which `to` calls. Unlike those of `to`, its arguments have fixed
/// positions.
fn to_by_place<'py>(
    paddle: &Paddle,
    receiver: &Bound<'py, PyAny>,
    arguments: &MethodArguments<'py>,
) -> PyResult<StandIn<'py>> {
    let py = receiver.py();
    let by_name = |name: &str| arguments.keywords.as_ref().map_or(Ok(None), |keywords| keywords.get_item(name));
    let given = |at: usize, name: &str| -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = arguments.positional.get_item(at).ok().map_or_else(|| by_name(name), |found| Ok(Some(found)))?;
        Ok(found.filter(|found| !found.is_none()))
    };
    let is_element_type = |dtype: &Bound<'py, PyAny>| !paddle.is_value(dtype) && !dtype.is_instance_of::<PyBool>();
    let place = paddle.only_place.as_ref().map(|place| place.bind(py));
    let (device, dtype, blocking) = (given(0, "device")?, given(1, "dtype")?, given(2, "blocking")?);
    let device_is_place = match (&device, place) {
        (Some(device), Some(place)) => is_place(device, place)?,
        (device, _) => device.is_none(),
    };
    let is_plain_call = arguments.positional.len() <= 3 && by_name("copy_tensor")?.is_none();
    let blocks = blocking.is_none_or(|blocking| blocking.is_instance_of::<PyBool>());
    if !is_plain_call || !device_is_place || !blocks || !dtype.as_ref().is_none_or(is_element_type) {
        return Err(refused("_to() with these arguments"));
    }
    to(paddle, receiver, arguments)
}

/// True if an argument is the place, or its name.
fn is_place(argument: &Bound<'_, PyAny>, place: &Bound<'_, PyAny>) -> PyResult<bool> {
    let place = place.str()?;
    match argument.extract::<&str>() {
        Ok(name) => Ok(place.to_str()? == format!("Place({name})")),
        Err(_) => Ok(argument.str()?.to_str()? == place.to_str()?),
    }
}
