//! Methods of `list`.

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use sot_core::builtin;
use sot_core::error::Flow;
use sot_core::executor::{BinaryOp, OpcodeExecutor};
use sot_core::variable::{VarId, Variable};

use super::iteration::sort;
use super::{builtin_object, cannot, known_index, receive, required};
use crate::containers::list::{self, expect, write};
use crate::containers::sequence;

builtin! { APPEND = "list.append" => |cx, args| {
    let (this, [item]) = receive(cx, args, "list", "append", 1)?;
    list::append(cx, this, required(item)?)?;
    Ok(cx.trace.none())
} }

builtin! { EXTEND = "list.extend" => |cx, args| {
    let (this, [items]) = receive(cx, args, "list", "extend", 1)?;
    list::extend(cx, this, required(items)?)?;
    Ok(cx.trace.none())
} }

builtin! { INSERT = "list.insert" => |cx, args| {
    let (this, [index, item]) = receive(cx, args, "list", "insert", 2)?;
    let mut items = expect(cx, this)?.items.clone();
    let index = known_index(cx, required(index)?, "list.insert()")?;
    let len = items.len() as i64;
    let at = (if index < 0 { index + len } else { index }).clamp(0, len);
    items.insert(at as usize, required(item)?);
    write(cx, this, items)?;
    Ok(cx.trace.none())
} }

builtin! { REMOVE = "list.remove" => |cx, args| {
    let (this, [item]) = receive(cx, args, "list", "remove", 1)?;
    let before = expect(cx, this)?;
    let found = sequence::find(cx, &before.items, required(item)?);
    let Some(at) = list::unchanged(cx, this, &before, found)? else {
        return Err(cx.raise(PyValueError::new_err("list.remove(x): x not in list")));
    };
    let mut items = before.items.clone();
    items.remove(at);
    write(cx, this, items)?;
    Ok(cx.trace.none())
} }

builtin! { POP = "list.pop" => |cx, args| {
    let (this, [index]) = receive(cx, args, "list", "pop", 0)?;
    let mut items = expect(cx, this)?.items.clone();
    let at = match index {
        Some(index) => known_index(cx, index, "list.pop()")?,
        None => -1,
    };
    if items.is_empty() {
        return Err(cx.raise(PyIndexError::new_err("pop from empty list")));
    }
    let at = usize::try_from(if at < 0 { at + items.len() as i64 } else { at }).ok().filter(|&at| at < items.len());
    let Some(at) = at else { return Err(cx.raise(PyIndexError::new_err("pop index out of range"))) };
    let item = items.remove(at);
    write(cx, this, items)?;
    Ok(item)
} }

builtin! { CLEAR = "list.clear" => |cx, args| {
    let (this, []) = receive(cx, args, "list", "clear", 0)?;
    write(cx, this, Vec::new())?;
    Ok(cx.trace.none())
} }

builtin! { INDEX = "list.index" => |cx, args| {
    let (this, [item, start, stop]) = receive(cx, args, "list", "index", 1)?;
    let before = expect(cx, this)?;
    let item = required(item)?;
    let range = sequence::bounds(cx, start, stop, before.items.len())?;
    let found = sequence::find(cx, &before.items[range.clone()], item);
    match list::unchanged(cx, this, &before, found)? {
        Some(at) => cx.trace.integer((range.start + at) as i64),
        None => Err(not_in_list(cx, item)?),
    }
} }

builtin! { COUNT = "list.count" => |cx, args| {
    let (this, [item]) = receive(cx, args, "list", "count", 1)?;
    let before = expect(cx, this)?;
    let count = sequence::count(cx, &before.items, required(item)?);
    list::unchanged(cx, this, &before, count)
} }

builtin! { SORT = "list.sort" => |cx, args| {
    let [this] = args.positional[..] else {
        return Err(cx.raise(PyTypeError::new_err("sort() takes no positional arguments")));
    };
    let items = expect(cx, this)?.items.clone();
    // During a sort, the comparisons and the key function see an empty list.
    write(cx, this, Vec::new())?;
    let emptied = expect(cx, this)?;
    let sorted = sort(cx, &items, args, false);
    let sorted = list::unchanged(cx, this, &emptied, sorted);
    write(cx, this, sorted.as_ref().map_or(items, Vec::clone))?;
    sorted?;
    Ok(cx.trace.none())
} }

builtin! { REVERSE = "list.reverse" => |cx, args| {
    let (this, []) = receive(cx, args, "list", "reverse", 0)?;
    let items = expect(cx, this)?.items.iter().rev().copied().collect();
    write(cx, this, items)?;
    Ok(cx.trace.none())
} }

builtin! { COPY = "list.copy" => |cx, args| {
    let (this, []) = receive(cx, args, "list", "copy", 0)?;
    let items = expect(cx, this)?.items.clone();
    Ok(cx.trace.list(items))
} }

builtin! { LEN = "list.__len__" => |cx, args| {
    let (this, []) = receive(cx, args, "list", "__len__", 0)?;
    expect(cx, this)?;
    cx.len(this)
} }

builtin! { GET = "list.__getitem__" => |cx, args| {
    let (this, [key]) = receive(cx, args, "list", "__getitem__", 1)?;
    expect(cx, this)?;
    cx.get_item(this, required(key)?)
} }

builtin! { SET = "list.__setitem__" => |cx, args| {
    let (this, [key, value]) = receive(cx, args, "list", "__setitem__", 2)?;
    expect(cx, this)?;
    cx.set_item(this, required(key)?, required(value)?)?;
    Ok(cx.trace.none())
} }

builtin! { DELETE = "list.__delitem__" => |cx, args| {
    let (this, [key]) = receive(cx, args, "list", "__delitem__", 1)?;
    expect(cx, this)?;
    cx.del_item(this, required(key)?)?;
    Ok(cx.trace.none())
} }

builtin! { CONTAINS = "list.__contains__" => |cx, args| {
    let (this, [item]) = receive(cx, args, "list", "__contains__", 1)?;
    expect(cx, this)?;
    cx.contains(this, required(item)?, false)
} }

builtin! { ITER = "list.__iter__" => |cx, args| {
    let (this, []) = receive(cx, args, "list", "__iter__", 0)?;
    expect(cx, this)?;
    cx.iter(this)
} }

builtin! { ADD = "list.__add__" => |cx, args| {
    let (this, [other]) = receive(cx, args, "list", "__add__", 1)?;
    let other = required(other)?;
    let list = expect(cx, this)?;
    // Not as the operator, which may ask the other operand first.
    match list.binary(cx, BinaryOp::Add, this, other, false)? {
        Some(sum) => Ok(sum),
        None => Err(cx.misfit("__add__", &[this, other])?),
    }
} }

/// Returns the `ValueError` of `list.index`, with CPython's message if the item is known.
fn not_in_list(cx: &mut OpcodeExecutor<'_>, item: VarId) -> Flow<sot_core::error::Unwind> {
    let Some(item) = cx.materialize(item)? else { return Err(cannot("list.index() of an absent item")) };
    match builtin_object(cx.py, "list")?.call0()?.call_method1("index", (item,)) {
        Err(error) => Ok(cx.raise(error)),
        Ok(_) => Err(cannot("list.index() of an absent item")),
    }
}
