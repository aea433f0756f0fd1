//! Operations that write to a tensor in place. In a program they become operations that make a new value. Also decides
//! which values share memory in eager mode.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::backend::calls::ignored_arguments;
use crate::backend::calls::items;
use crate::backend::calls::stand_in;
use crate::backend::graph::builder::identity;
use crate::backend::memory::views::{Views, VIEWS};
use crate::backend::memory::write_histories::WriteHistories;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

use sot_core::cpython;

/// In-place functions without a counterpart: the name without the underscore does not exist, or is another function.
const NOT_FUNCTIONAL: &[&str] = &[
    "bernoulli_",
    "cauchy_",
    "geometric_",
    "hypot_",
    "log_normal_",
    "normal_",
    "reconstruct_from_",
    "resize_",
    "set_",
    "sinc_",
    "where_",
];

/// In-place functions that change the shape or element type of the tensor, as their counterparts do.
const MAKING_ANOTHER: &[&str] =
    &["cast_", "flatten_", "reshape_", "squeeze_", "t_", "transpose_", "unflatten_", "unsqueeze_"];

/// In-place functions that draw random numbers. The in-place operation itself is used, on a copy, so that the numbers
/// are those of eager mode.
const RANDOM: &[&str] = &["exponential_", "gaussian_", "random_", "uniform_"];

/// The only in-place function without an underscore.
pub(crate) const INCREMENT: &str = "increment";

/// Functions that write to their first argument if the argument `inplace` is true.
const ASKED: &[&str] = &["dropout", "silu"];
const ARGUMENT: &str = "inplace";

/// Operations whose result may share memory with their first operand in eager mode, besides [`VIEWS`] and the
/// `builtin` operations that bundle values. A superfluous entry costs a graph break.
const SHARING: &[&str] = &[
    "pd_op.broadcast_tensors",
    "pd_op.einsum",
    "pd_op.expand",
    "pd_op.expand_as",
    "pd_op.share_data_",
    "pd_op.view_slice",
];

/// True if the in-place function of this name has a counterpart: the function without the underscore makes a new
/// value.
pub(crate) fn is_functional(name: &str) -> bool {
    !NOT_FUNCTIONAL.contains(&name)
}

/// Returns the argument by which a function can be asked to write to its first argument, and its position.
pub(crate) fn asked_by(
    paddle: &Paddle,
    function: &Bound<'_, PyAny>,
    name: &str,
) -> PyResult<Option<(&'static str, usize)>> {
    if !ASKED.contains(&name) {
        return Ok(None);
    }
    Ok(ignored_arguments::position(paddle, function, ARGUMENT, usize::MAX)?.map(|at| (ARGUMENT, at)))
}

/// True if no gradient flows to a value.
pub(crate) fn stops(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.getattr(intern!(value.py(), "stop_gradient"))?.is_truthy()
}

/// True if the callee changes a tensor without autograd, in any mode.
pub(crate) fn is_set_value(callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    match callee.cast::<PyString>() {
        Ok(method) => Ok(matches!(method.to_str()?, "copy_" | "set_value")),
        Err(_) => Ok(callee.is(clearing(callee.py())?)),
    }
}

/// `paddle.assign(value, tensor)` with the tensor that is written to as the first argument.
#[pyfunction]
fn assign_to<'py>(tensor: Bound<'py, PyAny>, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    cpython::import(tensor.py(), "paddle")?.call_method1(intern!(tensor.py(), "assign"), (value, tensor))
}

/// Returns [`assign_to`] as a Python function.
pub(crate) fn assignment(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static FUNCTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || PyResult::Ok(wrap_pyfunction!(assign_to, py)?.into_any().unbind());
    Ok(FUNCTION.get_or_try_init(py, make)?.bind(py).clone())
}

/// Writes zeros to the gradient of a tensor, which is given as well.
#[pyfunction]
fn clear_gradient_to_zero<'py>(gradient: Bound<'py, PyAny>, tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    tensor.call_method0(intern!(tensor.py(), "clear_gradient"))?;
    Ok(gradient)
}

/// Returns [`clear_gradient_to_zero`] as a Python function.
pub(crate) fn clearing(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static FUNCTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || PyResult::Ok(wrap_pyfunction!(clear_gradient_to_zero, py)?.into_any().unbind());
    Ok(FUNCTION.get_or_try_init(py, make)?.bind(py))
}

/// Returns the value that `args[0]` has after the call, which is a new one. To be called in static mode.
pub(crate) fn call<'py>(
    paddle: &Paddle,
    callee: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let value = changed(paddle, callee, args, kwargs)?;
    refuse_another(callee, &args.get_item(0)?, &value)?;
    let id = identity(paddle, &value)?;
    for argument in args.iter().filter(|argument| paddle.is_value(argument)) {
        if identity(paddle, &argument)? == id {
            return cpython::import(callee.py(), "paddle")?.call_method1("assign", (value,));
        }
    }
    Ok(value)
}

/// Refuses a result of another shape or element type than the tensor has, which some counterparts give.
fn refuse_another(callee: &Bound<'_, PyAny>, before: &Bound<'_, PyAny>, after: &Bound<'_, PyAny>) -> PyResult<()> {
    let name = match callee.cast::<PyString>() {
        Ok(method) => method.to_string(),
        Err(_) => callee.getattr("__name__")?.extract()?,
    };
    let stays = |name| before.getattr(name)?.eq(after.getattr(name)?);
    // With a number as weight, eager mode gives a tensor without dimensions one.
    let gets_dimension = name == "lerp_" && before.getattr("ndim")?.eq(0)?;
    if gets_dimension {
        return refuse("it gives a tensor without dimensions one");
    }
    if MAKING_ANOTHER.contains(&&*name) || (stays("shape")? && stays("dtype")?) {
        return Ok(());
    }
    refuse("it changes what the tensor is, not only its numbers")
}

fn changed<'py>(
    paddle: &Paddle,
    callee: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = callee.py();
    let changed = args.get_item(0)?;
    if callee.is(assignment(py)?) {
        let value = args.get_item(1)?;
        refuse_another_kind(&changed, &value)?;
        return cpython::import(py, "paddle")?.call_method1("assign", (value,));
    }
    if callee.is(clearing(py)?) {
        let zeros = cpython::import(py, "paddle")?.call_method1("zeros_like", (changed,))?;
        zeros.setattr(intern!(py, "stop_gradient"), true)?;
        return Ok(zeros);
    }
    match callee.cast::<PyString>() {
        Ok(method) => changed_by_method(paddle, method.to_str()?, args, kwargs),
        Err(_) => changed_by_function(paddle, callee, args, kwargs),
    }
}

fn changed_by_function<'py>(
    paddle: &Paddle,
    callee: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let name: String = callee.getattr("__name__")?.extract()?;
    if RANDOM.contains(&&*name) {
        return draw(callee, args, kwargs);
    }
    if name == INCREMENT {
        return increment(paddle, args, kwargs);
    }
    if let Some((argument, at)) = asked_by(paddle, callee, &name)? {
        return unasked(paddle, callee, args, kwargs, (argument, at));
    }
    let module = cpython::import(callee.py(), callee.getattr("__module__")?.cast::<PyString>()?.to_str()?)?;
    module.getattr(name.trim_end_matches('_'))?.call(args, kwargs)
}

fn changed_by_method<'py>(
    paddle: &Paddle,
    method: &str,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, changed, rest) = (args.py(), args.get_item(0)?, args.get_slice(1, args.len()));
    let api = cpython::import(py, "paddle")?;
    match method {
        "__setitem__" => with_items(paddle, &changed, &rest.get_item(0)?, &rest.get_item(1)?),
        "copy_" | "set_value" => {
            let value = rest.get_item(0)?;
            if !paddle.is_value(&value) || kwargs.is_some() {
                return refuse("it is given what is no tensor");
            }
            if method == "copy_" {
                refuse_another_kind(&changed, &value)?;
            }
            let copy = api.call_method1("assign", (value,))?;
            copy.setattr(intern!(py, "stop_gradient"), true)?;
            Ok(copy)
        }
        "fill_" if changed.getattr("dtype")?.eq(api.getattr("bool")?)? => {
            refuse("a bool tensor is filled with a number")
        }
        "fill_" => api.getattr("full_like")?.call((changed, rest.get_item(0)?), kwargs),
        name if RANDOM.contains(&name) => {
            let function = cpython::import(py, "paddle.tensor.random")?.getattr(name)?;
            draw(&function, args, kwargs)
        }
        INCREMENT => increment(paddle, args, kwargs),
        "fill_diagonal_" => fill_diagonal(&changed, &rest, kwargs),
        "fill_diagonal_tensor_" => stand_in::fill_diagonal_tensor(&changed, &rest, kwargs),
        "zero_" => api.call_method1("zeros_like", (changed,)),
        "detach_" if !paddle.grad_enabled(py)? => {
            refuse("it changes where the tensor's gradient goes, not its numbers")
        }
        name => changed.getattr(name.trim_end_matches('_'))?.call(rest, kwargs),
    }
}

/// `fill_diagonal_(value, offset=0, wrap=False)`, whose counterpart is an operation without a method.
fn fill_diagonal<'py>(
    tensor: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let inspect = cpython::import(py, "inspect")?;
    let function = cpython::import(py, "paddle.tensor.manipulation")?.getattr("fill_diagonal_")?;
    let signature = inspect.call_method1("signature", (function,))?;
    let args: Vec<Bound<'_, PyAny>> = std::iter::once(tensor.clone()).chain(args.iter()).collect();
    let bound = signature.call_method("bind", PyTuple::new(py, args)?, kwargs)?;
    bound.call_method0("apply_defaults")?;
    let given = bound.getattr("arguments")?;
    // Only in a matrix, the diagonal may end where it is not wrapped.
    let wrap = match tensor.getattr(intern!(py, "shape"))?.len()? {
        2 => given.get_item("wrap")?,
        _ => PyBool::new(py, true).to_owned().into_any(),
    };
    let operations = cpython::import(py, "paddle")?.getattr("_C_ops")?;
    operations.call_method1("fill_diagonal", (tensor, given.get_item("value")?, given.get_item("offset")?, wrap))
}

/// Returns a tensor with other items at an index.
fn with_items<'py>(
    paddle: &Paddle,
    tensor: &Bound<'py, PyAny>,
    index: &Bound<'py, PyAny>,
    numbers: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    refuse_late_mask(paddle, index)?;
    items::refuse_before_first(paddle, tensor, index)?;
    refuse_gradient_of_value(paddle, tensor, numbers)?;
    let index = items::to_write_at(paddle, tensor, index)?;
    let py = tensor.py();
    // The operation writes over its operand, which other operations may still read.
    let copy = cpython::import(py, "paddle")?.call_method1("assign", (tensor,))?;
    let set = cpython::import(py, "paddle.base.variable_index")?.getattr("_setitem_static")?;
    let numbers = as_tensor(paddle, &copy, numbers)?;
    set.call1((copy, index, numbers))
}

/// Refuses a value of another shape or element type than the tensor that it is written to.
fn refuse_another_kind(tensor: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let same = |name| value.getattr(name)?.eq(tensor.getattr(name)?);
    if same("shape")? && same("dtype")? {
        return Ok(());
    }
    refuse("it is given another shape or element type")
}

/// `increment(x, value=1.0)` as an addition: the operation itself writes over its operand.
fn increment<'py>(
    paddle: &Paddle,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (tensor, api) = (args.get_item(0)?, cpython::import(args.py(), "paddle")?);
    let by_name = kwargs.map(|kwargs| kwargs.get_item("value")).transpose()?.flatten();
    let value = match args.get_item(1).ok().or(by_name) {
        None => PyFloat::new(args.py(), 1.0).into_any(),
        Some(value) if paddle.is_value(&value) => return refuse("it is given a tensor"),
        // In eager mode the number is a `float32`, whatever the tensor's type is.
        #[expect(clippy::cast_possible_truncation, reason = "what eager mode makes of the number is wanted")]
        Some(value) => match value.cast::<PyFloat>() {
            Ok(number) => PyFloat::new(args.py(), f64::from(number.value() as f32)).into_any(),
            Err(_) => value,
        },
    };
    let shape = tensor.getattr("shape")?;
    if shape.try_iter()?.any(|size| !size.is_ok_and(|size| size.eq(1).unwrap_or(false))) {
        return refuse("it is not of one element");
    }
    let value = api.call_method1("full", (shape, value, tensor.getattr("dtype")?))?;
    api.call_method1("add", (tensor, value))
}

/// Calls the function without the argument that asks for a write in place.
fn unasked<'py>(
    paddle: &Paddle,
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    (argument, at): (&str, usize),
) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    // Dropout of whole dimensions raises if it is asked to write in place.
    let by_name = kwargs.map(|kwargs| kwargs.get_item("axis")).transpose()?.flatten();
    let axis = ignored_arguments::position(paddle, function, "axis", args.len())?.and_then(|at| args.get_item(at).ok());
    if by_name.or(axis).is_some_and(|axis| !axis.is_none()) {
        return refuse("it is given an axis");
    }
    let kwargs = kwargs.map(PyDictMethods::copy).transpose()?;
    if let Some(kwargs) = kwargs.as_ref().filter(|kwargs| kwargs.contains(argument).unwrap_or(false)) {
        kwargs.del_item(argument)?;
    }
    let mut args: Vec<Bound<'_, PyAny>> = args.iter().collect();
    if let Some(asked) = args.get_mut(at) {
        *asked = PyBool::new(py, false).to_owned().into_any();
    }
    function.call(PyTuple::new(py, args)?, kwargs.as_ref())
}

/// Writes random numbers to a copy of the first argument.
fn draw<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    let copy = cpython::import(py, "paddle")?.call_method1("assign", (args.get_item(0)?,))?;
    let args: Vec<Bound<'_, PyAny>> = std::iter::once(copy).chain(args.iter().skip(1)).collect();
    // The function's decorator refuses static programs, so it is removed.
    let function = cpython::import(py, "inspect")?.call_method1("unwrap", (function,))?;
    function.call(PyTuple::new(py, args)?, kwargs)
}

/// Returns the written value as a tensor, because the operation that writes a number passes on the gradient of the
/// overwritten numbers.
fn as_tensor<'py>(paddle: &Paddle, to: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if paddle.is_value(value) {
        return Ok(value.clone());
    }
    if !value.is_instance_of::<PyFloat>() && !value.is_instance_of::<PyInt>() {
        return refuse("what is written is neither a tensor nor a number");
    }
    let api = cpython::import(value.py(), "paddle")?;
    api.call_method1("full", (vec![1], value, to.getattr("dtype")?))
}

/// Refuses to write a value with gradients to a tensor without while no gradient is recorded. In eager mode the tensor
/// takes over the value's `stop_gradient` even then.
fn refuse_gradient_of_value(paddle: &Paddle, changed: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let takes_over = paddle.is_value(value) && stops(changed)? && !stops(value)?;
    if takes_over && !paddle.grad_enabled(value.py())? {
        return refuse("a tensor takes over that its new values have gradients, where none is recorded");
    }
    Ok(())
}

/// Refuses an index with a mask that is not its first item. Static mode writes to other positions if the mask is one
/// of several dimensions; eager mode does so if a number is written.
fn refuse_late_mask(paddle: &Paddle, index: &Bound<'_, PyAny>) -> PyResult<()> {
    let Ok(items) = index.cast::<PyTuple>() else { return Ok(()) };
    for item in items.iter().skip(1) {
        let is_mask = match item.cast::<PyList>() {
            Ok(list) => list.iter().any(|item| item.is_instance_of::<PyBool>()),
            Err(_) => paddle.is_value(&item) && &*meta::dtype_name(&item.getattr("dtype")?)? == "bool",
        };
        if is_mask {
            return refuse("a mask is not the first of the indices");
        }
    }
    Ok(())
}

pub(super) fn refuse<T>(why: &str) -> PyResult<T> {
    Err(PyNotImplementedError::new_err(why.to_owned()))
}

/// Returns the value whose memory `value` shares, or may share, in eager mode.
pub(crate) fn memory(paddle: &Paddle, views: &Views, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    let py = value.py();
    let mut value = value.clone();
    loop {
        let id = identity(paddle, &value)?;
        let root = views.root(&value, id);
        if root.id != id {
            value = root.value;
            continue;
        }
        let operation = value.call_method0(intern!(py, "get_defining_op"))?;
        if operation.is_none() || operation.call_method0(intern!(py, "num_operands"))?.extract::<usize>()? == 0 {
            return Ok(id);
        }
        let name = operation.call_method0(intern!(py, "name"))?;
        let name = name.extract::<&str>()?;
        let source = operation.call_method1(intern!(py, "operand_source"), (0,))?;
        let casts_to_the_same =
            || PyResult::Ok(name == "pd_op.cast" && source.getattr("dtype")?.eq(value.getattr("dtype")?)?);
        if !VIEWS.contains(&name) && !SHARING.contains(&name) && !name.starts_with("builtin.") && !casts_to_the_same()?
        {
            return Ok(id);
        }
        value = source;
    }
}

/// True if a value is contiguous in eager mode, as are the results of operations that share no memory with their
/// operands.
pub(crate) fn is_contiguous_in_eager_mode(
    paddle: &Paddle,
    views: &Views,
    histories: &WriteHistories,
    value: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let py = value.py();
    let (id, operation) = (identity(paddle, value)?, value.call_method0(intern!(py, "get_defining_op"))?);
    // A tensor keeps its layout when it is changed in place.
    if operation.is_none() || histories.is_written(id) || memory(paddle, views, value)? != id {
        return Ok(false);
    }
    Ok(!matches!(operation.call_method0(intern!(py, "name"))?.extract::<&str>()?, "pd_op.data" | "builtin.parameter"))
}
