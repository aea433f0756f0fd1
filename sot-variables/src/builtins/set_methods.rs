//! Methods of `set` and `frozenset`.

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;

use pyo3::prelude::*;
use sot_core::builtin;
use sot_core::error::Flow;
use sot_core::executor::{BinaryOp, CallArgs, CompareOp, OpcodeExecutor};
use sot_core::variable::VarId;

use super::{receive, required};
use crate::classes::subclass;
use crate::containers::dict;
use crate::containers::hash_key::{position, HashKey};
use crate::containers::set::{self, combine, elements, expect, only, write, Order, SetVariable};

builtin! { ADD = "set.add" => |cx, args| {
    let (this, [item]) = receive(cx, args, "set", "add", 1)?;
    set::add(cx, this, required(item)?)?;
    Ok(cx.none())
} }

builtin! { REMOVE = "set.remove" => |cx, args| {
    let (this, [item]) = receive(cx, args, "set", "remove", 1)?;
    let key = HashKey::sought(cx, required(item)?)?;
    if !discard(cx, this, &key)? {
        return Err(dict::key_error(cx, &key));
    }
    Ok(cx.none())
} }

builtin! { DISCARD = "set.discard" => |cx, args| {
    let (this, [item]) = receive(cx, args, "set", "discard", 1)?;
    let key = HashKey::sought(cx, required(item)?)?;
    discard(cx, this, &key)?;
    Ok(cx.none())
} }

builtin! { POP = "set.pop" => |cx, args| {
    let (this, []) = receive(cx, args, "set", "pop", 0)?;
    let set = expect(cx, this)?;
    match set.keys[..] {
        [] => Err(dict::empty_error(cx, "pop from an empty set")),
        [ref key] => {
            write(cx, this, Vec::new(), Order::Insertion)?;
            Ok(key.variable)
        }
        _ => Err(super::cannot("set.pop(): only CPython knows which element goes")),
    }
} }

builtin! { CLEAR = "set.clear" => |cx, args| {
    let (this, []) = receive(cx, args, "set", "clear", 0)?;
    write(cx, this, Vec::new(), Order::Insertion)?;
    Ok(cx.none())
} }

builtin! { UPDATE = "set.update" => |cx, args| {
    let (this, others) = operands(cx, args)?;
    for other in others {
        match cx.see_as::<SetVariable>(other)? {
            Some(_) => update(cx, this, BinaryOp::Or, other)?,
            None => cx.each(other, |cx, item| set::add(cx, this, item))?,
        }
    }
    Ok(cx.none())
} }

builtin! { INTERSECTION_UPDATE = "set.intersection_update" => |cx, args| updates(cx, args, BinaryOp::And) }
builtin! { DIFFERENCE_UPDATE = "set.difference_update" => |cx, args| updates(cx, args, BinaryOp::Subtract) }
builtin! { SYMMETRIC_UPDATE = "set.symmetric_difference_update" => |cx, args| updates(cx, args, BinaryOp::Xor) }

builtin! { COPY = "set.copy" => |cx, args| copy(cx, args) }
builtin! { UNION = "set.union" => |cx, args| combined(cx, args, BinaryOp::Or) }
builtin! { INTERSECTION = "set.intersection" => |cx, args| combined(cx, args, BinaryOp::And) }
builtin! { DIFFERENCE = "set.difference" => |cx, args| combined(cx, args, BinaryOp::Subtract) }
builtin! { SYMMETRIC = "set.symmetric_difference" => |cx, args| combined(cx, args, BinaryOp::Xor) }
builtin! { ISSUBSET = "set.issubset" => |cx, args| compared(cx, args, CompareOp::LessEqual) }
builtin! { ISSUPERSET = "set.issuperset" => |cx, args| compared(cx, args, CompareOp::GreaterEqual) }
builtin! { ISDISJOINT = "set.isdisjoint" => |cx, args| disjoint(cx, args) }

builtin! { FROZEN_COPY = "frozenset.copy" => |cx, args| copy(cx, args) }
builtin! { FROZEN_UNION = "frozenset.union" => |cx, args| combined(cx, args, BinaryOp::Or) }
builtin! { FROZEN_INTERSECTION = "frozenset.intersection" => |cx, args| combined(cx, args, BinaryOp::And) }
builtin! { FROZEN_DIFFERENCE = "frozenset.difference" => |cx, args| combined(cx, args, BinaryOp::Subtract) }
builtin! { FROZEN_SYMMETRIC = "frozenset.symmetric_difference" => |cx, args| combined(cx, args, BinaryOp::Xor) }
builtin! { FROZEN_ISSUBSET = "frozenset.issubset" => |cx, args| compared(cx, args, CompareOp::LessEqual) }
builtin! { FROZEN_ISSUPERSET = "frozenset.issuperset" => |cx, args| compared(cx, args, CompareOp::GreaterEqual) }
builtin! { FROZEN_ISDISJOINT = "frozenset.isdisjoint" => |cx, args| disjoint(cx, args) }

builtin! { KEYS_ISDISJOINT = "_collections_abc:dict_keys.isdisjoint" => |cx, args| view_disjoint(cx, args) }
builtin! { ITEMS_ISDISJOINT = "_collections_abc:dict_items.isdisjoint" => |cx, args| view_disjoint(cx, args) }

fn view_disjoint(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let [this, other] = args.exactly(cx, "isdisjoint")?;
    let items = cx.unpack_all(this)?;
    let items = SetVariable::build(cx, items)?;
    disjoint(cx, &CallArgs::positional(vec![items, other]))
}

fn discard(cx: &mut OpcodeExecutor<'_>, this: VarId, key: &HashKey) -> Flow<bool> {
    let set = expect(cx, this)?;
    let Some(at) = position(cx, &set.keys, key)? else { return Ok(false) };
    let mut keys: Vec<Rc<HashKey>> = set.keys.clone();
    keys.remove(at);
    write(cx, this, keys, Order::Unknown)?;
    Ok(true)
}

/// The receiver and the other sets or iterables.
fn operands(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<(VarId, Vec<VarId>)> {
    match args.positional.split_first() {
        Some((&this, others)) if args.keywords.is_empty() => {
            expect(cx, this)?;
            let others = others.iter().map(|&other| set::seen(cx, other)).collect::<Flow<Vec<_>>>()?;
            Ok((this, others))
        }
        _ => Err(cx.raise(PyTypeError::new_err("a set method takes no keyword arguments"))),
    }
}

fn update(cx: &mut OpcodeExecutor<'_>, this: VarId, op: BinaryOp, other: VarId) -> Flow<()> {
    if op == BinaryOp::Subtract && cx.see_as::<SetVariable>(other)?.is_none() && dict::of(cx, other)?.is_none() {
        return cx.each(other, |cx, item| {
            let key = HashKey::of(cx, item)?;
            discard(cx, this, &key).map(drop)
        });
    }
    let left = expect(cx, this)?;
    let keys = with_iterable(cx, op, &left.keys, other)?;
    write(cx, this, keys, Order::Unknown)
}

/// The elements of a set and another, or an iterable.
fn with_iterable(
    cx: &mut OpcodeExecutor<'_>,
    op: BinaryOp,
    left: &[Rc<HashKey>],
    other: VarId,
) -> Flow<Vec<Rc<HashKey>>> {
    let right = elements(cx, other)?;
    if op == BinaryOp::And && cx.see_as::<SetVariable>(other)?.is_none() {
        // Of two equal elements that of the iterable stays.
        return only(cx, &right, left, true);
    }
    combine(cx, op, left, &right)
}

fn updates(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, op: BinaryOp) -> Flow<VarId> {
    let (this, others) = operands(cx, args)?;
    for other in others {
        update(cx, this, op, other)?;
    }
    Ok(cx.none())
}

fn combined(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, op: BinaryOp) -> Flow<VarId> {
    let (this, others) = operands(cx, args)?;
    let set = expect(cx, this)?;
    if let [other] = others[..] {
        if cx.see_as::<SetVariable>(other)?.is_some() {
            return set::operate(cx, op, this, other);
        }
    }
    let mut keys = set.keys.clone();
    for other in others {
        keys = with_iterable(cx, op, &keys, other)?;
    }
    Ok(SetVariable::make(cx, keys, set.frozen, Order::Unknown))
}

fn compared(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, op: CompareOp) -> Flow<VarId> {
    let [this, other] = args.exactly(cx, "issubset")?;
    expect(cx, this)?;
    let other = set::seen(cx, other)?;
    let other = elements(cx, other)?;
    let other = SetVariable::make(cx, other, true, Order::Unknown);
    cx.compare(op, this, other)
}

fn disjoint(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let [this, other] = args.exactly(cx, "isdisjoint")?;
    let (left, right) = (expect(cx, this)?, elements(cx, other)?);
    let none = combine(cx, BinaryOp::And, &left.keys, &right)?.is_empty();
    Ok(cx.boolean(none))
}

fn copy(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let (this, []) = receive(cx, args, "set", "copy", 0)?;
    let set = expect(cx, this)?;
    let plain =
        subclass::owner_of(cx, this) == this && cx.type_of(this)?.is(cx.py.get_type::<pyo3::types::PyFrozenSet>());
    if set.frozen && plain {
        return Ok(this);
    }
    Ok(SetVariable::make(cx, set.keys.clone(), set.frozen, Order::Unknown))
}
