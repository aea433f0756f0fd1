//! Methods of `tuple`, and the fields of named tuples.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use sot_core::builtin;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::guard::{Identity, Test};
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
    items(cx, this)?.get(index).copied().ok_or_else(|| sequence::index_error(cx, "tuple index out of range"))
} }

fn items(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Vec<VarId>> {
    if let Some(tuple) = cx.see_as::<TupleVariable>(this)? {
        Ok(tuple.items.clone())
    } else {
        let name = cx.type_name(this)?;
        Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("a tuple method on a {name} object")))
    }
}
