//! What reads and writes of a tensor's attributes mean to a trace.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};
use sot_core::backend::{Returns, TensorAttribute, TensorMeta, WrittenAttribute};

use super::names;
use super::stand_in;
use crate::backend::graph::inner_gradients;
use crate::backend::memory::in_place;
use crate::backend::paddle::Paddle;

/// Attributes of tensors that need the tensor's value, memory or place in the autograd graph, with the reason.
pub(super) const BREAKING_ATTRIBUTES: &[(&str, &str)] = &[
    ("numpy", "needs the tensor's values; move the conversion out of the hot function"),
    ("item", "needs the tensor's value; keep it a tensor, or move the read out of the hot function"),
    ("tolist", "needs the tensor's values; move the conversion out of the hot function"),
    ("__array__", "needs the tensor's values; move the conversion out of the hot function"),
    ("__bool__", "needs the tensor's value"),
    ("__nonzero__", "needs the tensor's value"),
    ("__int__", "needs the tensor's value"),
    ("__long__", "needs the tensor's value"),
    ("__float__", "needs the tensor's value"),
    ("__index__", "needs the tensor's value"),
    ("__complex__", "needs the tensor's value"),
    ("__contains__", "needs the tensor's values"),
    ("__format__", "formats the tensor's values"),
    ("__str__", "formats the tensor's values"),
    ("__repr__", "formats the tensor's values"),
    ("__iter__", "is unpacked by its first dimension; index it instead"),
    ("__hash__", "needs the tensor's identity"),
    ("__deepcopy__", "makes a tensor that gradients end at; copy it outside the hot function, or `clone` it"),
    ("__dlpack__", "hands memory to other libraries"),
    ("__dlpack_device__", "hands memory to other libraries"),
    ("__delitem__", "in-place on a traced tensor is not supported yet"),
    ("backward", "runs the backward pass"),
    ("cpu", "copies between devices; move it out of the hot function"),
    ("grad_fn", "belongs to eager autograd"),
    ("gradient", "is filled by backward passes"),
    ("register_hook", "hooks gradients; register it outside the translated function"),
    ("retain_grads", "hooks gradients; call it outside the translated function"),
    ("apply", "calls a Python function on the tensor"),
    ("block", "belongs to static graph programs"),
    ("cuda", "copies between devices; move it out of the hot function"),
    ("pin_memory", "copies between devices; move it out of the hot function"),
    ("is_contiguous", "depends on the memory layout at run time"),
    ("stride", "depends on the memory layout at run time"),
];

/// Attributes that are read or called as those of any object: Python code that calls other methods, or C code that is
/// simulated.
const FOLLOWED_ATTRIBUTES: &[&str] = &["__class__", "clear_grad", "clear_gradient", "istft"];

/// Methods and properties for eager mode only that are followed: they read what is known, or call other methods.
const EAGER_METHODS: &[&str] =
    &["bernoulli_", "cauchy_", "cpu", "get_device", "is_cuda", "log_normal_", "normal_", "requires_grad_"];

/// Attributes that a tensor has besides its value, and that results of a graph have only after it has run; with the
/// reason.
const OUTSIDE: &[(&str, &str)] = &[
    ("is_leaf", "belongs to eager autograd"),
    ("grad", "is filled by backward passes"),
    ("grad_", "is filled by backward passes"),
    ("persistable", "is a property of the tensor object, not of its value"),
];

/// Reason for writes in place that must run eagerly, because no operation returns the same as a new tensor.
pub(super) const IN_PLACE: &str = "changes a tensor in a way no graph can; use the result of an operation instead";

/// Attributes whose read is an operation of the graph.
const OPERATIONS: &[&str] = &["T", "mT", "H", "mH", "real", "imag"];

/// Decides what a write of `value` to an attribute of a tensor means.
pub(crate) fn written_attribute(
    paddle: &Paddle,
    name: &str,
    value: Option<&Bound<'_, PyAny>>,
) -> PyResult<WrittenAttribute> {
    Ok(match (name, value) {
        ("stop_gradient", Some(stop)) if stop.is_instance_of::<PyBool>() => {
            let switched_by = inner_gradients::switch(stop.py())?.clone().unbind();
            WrittenAttribute::Gradient { flows: !stop.is_truthy()?, stopped_by: "detach", switched_by }
        }
        (_, Some(none)) if none.is_none() && paddle.release.set_to_none.contains(&name) => {
            WrittenAttribute::OfOutside { if_true: "is_leaf" }
        }
        ("name", Some(text)) if text.is_instance_of::<PyString>() => WrittenAttribute::OfOneObject,
        _ => WrittenAttribute::Plain,
    })
}

/// Decides what a read of attribute `name` of a tensor means.
pub(crate) fn tensor_attribute(
    py: Python<'_>,
    paddle: &Paddle,
    name: &str,
    meta: &TensorMeta,
    value: &Bound<'_, PyAny>,
) -> PyResult<TensorAttribute> {
    let Some(defined) = Paddle::defined(py, &paddle.tensor_type, name) else {
        return Ok(TensorAttribute::Missing);
    };
    if let Some(known) = known_attribute(paddle, name, meta, value)? {
        return Ok(known);
    }
    if let Some((_, reason)) = OUTSIDE.iter().find(|(of, _)| *of == name) {
        let of_result = of_result(paddle, name, meta, value)?;
        return Ok(TensorAttribute::Outside { of_result, why: format!("Tensor.{name} {reason}") });
    }
    let follows = paddle.release.follows_eager_methods && paddle.only_place.is_some();
    if FOLLOWED_ATTRIBUTES.contains(&name) || (EAGER_METHODS.contains(&name) && follows) {
        return Ok(TensorAttribute::Follow);
    }
    if let Some(returns) = in_place_returns(name) {
        return Ok(TensorAttribute::InPlace(returns));
    }
    if name == "name" {
        return names::attribute(paddle, value);
    }
    // For a tensor with gradients, the copy is a leaf.
    if name == "__deepcopy__" && !meta.gradient.flows {
        return Ok(TensorAttribute::Copy { by: "clone", unless: "persistable" });
    }
    if let Some(reason) = breaking_attribute(name) {
        return Ok(TensorAttribute::Break(format!("Tensor.{name} {reason}")));
    }
    // `contiguous` lays out the tensor anew if necessary, and returns the tensor itself.
    if name == "contiguous" {
        return Ok(TensorAttribute::Becoming);
    }
    if stand_in::exists(name) {
        return Ok(TensorAttribute::Method);
    }
    if stand_in::is_attribute(paddle, name) {
        return Ok(TensorAttribute::Operation);
    }
    if Paddle::defined(py, &paddle.value_type, name).is_none() {
        return Ok(TensorAttribute::Break(format!("Tensor.{name} exists for eager tensors only")));
    }
    if defined.is_callable() {
        return Ok(TensorAttribute::Method);
    }
    if OPERATIONS.contains(&name) {
        return Ok(TensorAttribute::Operation);
    }
    Ok(TensorAttribute::Break(format!("Tensor.{name} is a property of the tensor object at run time")))
}

/// Returns the value of an attribute of [`OUTSIDE`] for the result of an operation, if it is known. No backward pass
/// has gone through the result yet.
fn of_result(paddle: &Paddle, name: &str, meta: &TensorMeta, value: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
    let py = value.py();
    if !paddle.is_value(value) {
        return Ok(None);
    }
    let operation = value.call_method0("get_defining_op")?;
    if operation.is_none() || operation.call_method0("num_operands")?.extract::<usize>()? == 0 {
        return Ok(None); // The tensor may be an input.
    }
    let sources: Vec<Bound<'_, PyAny>> = operation.call_method0("operands_source")?.extract()?;
    let begins_here = meta.gradient.flows && sources.iter().all(|source| in_place::stops(source).unwrap_or(true));
    Ok(match name {
        _ if begins_here => None,
        "grad" => Some(py.None()),
        "is_leaf" if meta.gradient.flows => Some(PyBool::new(py, false).to_owned().into_any().unbind()),
        _ => None,
    })
}

/// True for names like `add_`, but neither `__add__` nor a private `_add`. One function has no such name:
/// [`in_place::INCREMENT`].
pub(super) fn is_in_place(name: &str) -> bool {
    name == in_place::INCREMENT || name.ends_with('_') && !name.ends_with("__")
}

/// Returns what a method that writes to a tensor in place returns; `None` if a graph cannot have the method.
fn in_place_returns(name: &str) -> Option<Returns> {
    match name {
        "__setitem__" | "set_value" => Some(Returns::Nothing),
        "copy_" => Some(Returns::AnotherObject),
        _ => (is_in_place(name) && in_place::is_functional(name)).then_some(Returns::It),
    }
}

/// Returns the reason why an attribute breaks the graph, if it does.
pub(super) fn breaking_attribute(name: &str) -> Option<&'static str> {
    if let Some((_, reason)) = BREAKING_ATTRIBUTES.iter().find(|(of, _)| *of == name) {
        return Some(reason);
    }
    if is_in_place(name) {
        return Some(IN_PLACE);
    }
    let is_private = name.starts_with('_') && !name.starts_with("__") && !stand_in::exists(name);
    is_private.then_some("is private to Paddle")
}

/// Returns the attribute if the meta alone decides it. Attributes that need an open size break the graph.
fn known_attribute(
    paddle: &Paddle,
    name: &str,
    meta: &TensorMeta,
    value: &Bound<'_, PyAny>,
) -> PyResult<Option<TensorAttribute>> {
    let py = value.py();
    let depends_on_sizes = matches!(name, "shape" | "size" | "__len__");
    if depends_on_sizes && meta.shape.iter().any(Option::is_none) {
        if name == "shape" {
            let ty = value.getattr(name)?.get_type().into_any().unbind();
            return Ok(Some(TensorAttribute::Sizes(ty)));
        }
        if name == "size" {
            return Ok(Some(TensorAttribute::Elements(paddle.size_type.clone_ref(py))));
        }
        return Ok(Some(TensorAttribute::OpenSizes(format!("Tensor.{name} is known only when the graph has run"))));
    }
    let known = match name {
        // The attribute of the value has the type that it has for an eager tensor (`shape`: a `paddle.Size` or a
        // list).
        "shape" => value.getattr(name)?.unbind(),
        "dtype" => {
            let dtype = value.getattr(name)?;
            paddle.lasting_of(&dtype)?.unwrap_or(dtype).unbind()
        }
        "size" if paddle.size_type.is(py.get_type::<PyInt>()) => {
            meta.shape.iter().flatten().product::<i64>().into_pyobject(py)?.into_any().unbind()
        }
        // An `int` that knows the shape it comes from.
        "size" => paddle.size_type.call1(py, (value.getattr("shape")?,))?,
        "ndim" => meta.shape.len().into_pyobject(py)?.into_any().unbind(),
        "stop_gradient" => (!meta.gradient.flows).into_pyobject(py)?.to_owned().into_any().unbind(),
        "requires_grad" => meta.gradient.flows.into_pyobject(py)?.to_owned().into_any().unbind(),
        "itemsize" => value.call_method0("element_size")?.unbind(),
        "place" => match &paddle.only_place {
            Some(place) => place.clone_ref(py),
            None => {
                return Ok(Some(TensorAttribute::Break("Tensor.place is known only when the graph has run".into())))
            }
        },
        _ => return Ok(None),
    };
    Ok(Some(TensorAttribute::Known(known)))
}
