//! Methods of `tuple`, and the fields of named tuples.

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, OpcodeExecutor};
use sot_core::guard::{Identity, Test};
use sot_core::tracker::Tracker;
use sot_core::variable::VarId;

use super::{receive, required};
use crate::containers::sequence;
use crate::containers::tuple::TupleVariable;

builtin! { INDEX = "tuple.index" => |cx, args| {
    let (this, [item, start, stop]) = receive(cx, args, "tuple", "index", 1)?;
    let items = items(cx, this)?;
    let range = sequence::bounds(cx, start, stop, items.len())?;
    match sequence::find(cx, &items[range.clone()], required(item)?)? {
        Some(at) => cx.trace.integer((range.start + at) as i64),
        None => Err(cx.raise(PyValueError::new_err("tuple.index(x): x not in tuple"))),
    }
} }

builtin! { COUNT = "tuple.count" => |cx, args| {
    let (this, [item]) = receive(cx, args, "tuple", "count", 1)?;
    let items = items(cx, this)?;
    sequence::count(cx, &items, required(item)?)
} }

builtin! { LEN = "tuple.__len__" => |cx, args| {
    let (this, []) = receive(cx, args, "tuple", "__len__", 0)?;
    items(cx, this)?;
    cx.len(this)
} }

builtin! { GET = "tuple.__getitem__" => |cx, args| {
    let (this, [key]) = receive(cx, args, "tuple", "__getitem__", 1)?;
    items(cx, this)?;
    cx.get_item(this, required(key)?)
} }

builtin! { CONTAINS = "tuple.__contains__" => |cx, args| {
    let (this, [item]) = receive(cx, args, "tuple", "__contains__", 1)?;
    items(cx, this)?;
    cx.contains(this, required(item)?, false)
} }

builtin! { ITER = "tuple.__iter__" => |cx, args| {
    let (this, []) = receive(cx, args, "tuple", "__iter__", 0)?;
    items(cx, this)?;
    cx.iter(this)
} }

builtin! { FIELD = "collections:_tuplegetter.__get__" => |cx, args| {
    let [getter, this, ..] = args.positional[..] else { return Err(super::cannot("a field of a named tuple")) };
    let object = cx.see(getter)?.object().map(|object| object.bind(cx.py).clone());
    let Some(object) = object else { return Err(super::cannot("a field of a named tuple")) };
    let tracker = cx.trace.vars.tracker(getter);
    if cx.trace.trackers.is_sourced(tracker) {
        cx.trace.guards.add(tracker, Test::Is(Identity::of(&object)));
    }
    let index: usize = object.call_method0("__reduce__")?.get_item(1)?.get_item(0)?.extract()?;
    if let Some(field) = field_from_outside(cx, this, &object, index)? {
        return Ok(field);
    }
    items(cx, this)?.get(index).copied().ok_or_else(|| sequence::index_error(cx, "tuple index out of range"))
} }

/// Reads a field of an object from outside whose class has special methods of its own, such as `__len__`. `None` for
/// other objects. `getter` is the class's attribute of the field's name.
fn field_from_outside<'py>(
    cx: &mut OpcodeExecutor<'py>,
    this: VarId,
    getter: &Bound<'py, PyAny>,
    index: usize,
) -> Flow<Option<VarId>> {
    if cx.see_as::<TupleVariable>(this)?.is_some() || !cx.trace.trackers.is_loadable(cx.trace.vars.tracker(this)) {
        return Ok(None);
    }
    let object = cx.see(this)?.object().map(|object| object.bind(cx.py).clone());
    let Some(tuple) = object.and_then(|object| object.cast_into::<PyTuple>().ok()) else { return Ok(None) };
    let fields = cpython::type_lookup(&tuple.get_type(), intern!(cx.py, "_fields"));
    let name = fields.and_then(|fields| fields.cast_into::<PyTuple>().ok()?.get_item(index).ok());
    let Some(name) = name.and_then(|name| name.cast_into::<PyString>().ok()) else { return Ok(None) };
    let is_its_own = cpython::type_lookup(&tuple.get_type(), &name).is_some_and(|found| found.is(getter));
    let (true, Ok(value)) = (is_its_own, tuple.get_item(index)) else { return Ok(None) };
    let of = object_model::found_below(cx, this)?;
    let tracker = cx.trace.trackers.add(Tracker::Getattr { of, name: name.to_str()?.into() });
    cx.trace.guards.require(tracker);
    Ok(Some(cx.trace.wrap(&value, tracker)))
}

fn items(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Vec<VarId>> {
    if let Some(tuple) = cx.see_as::<TupleVariable>(this)? {
        Ok(tuple.items.clone())
    } else {
        let name = cx.type_name(this)?;
        Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("a tuple method on a {name} object")))
    }
}
