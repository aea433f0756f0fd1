//! Methods of `set` and `frozenset`.

use pyo3::exceptions::PyTypeError;

use pyo3::prelude::*;
use sot_core::builtin;
use sot_core::error::Flow;
use sot_core::executor::{BinaryOp, CallArgs, CompareOp, OpcodeExecutor};
use sot_core::variable::VarId;

use super::{receive, required};
use crate::classes::subclass;
use crate::containers::dict;
use crate::containers::hash_key::HashKey;
use crate::containers::replica::{self, Replica};
use crate::containers::set::{self, combine, elements, expect, write, SetOrder, SetVariable};

builtin! { ADD = "set.add" => |cx, args| {
    let (this, [item]) = receive(cx, args, "set", "add", 1)?;
    set::add(cx, this, required(item)?)?;
    Ok(cx.trace.none())
} }

builtin! { REMOVE = "set.remove" => |cx, args| {
    let (this, [item]) = receive(cx, args, "set", "remove", 1)?;
    let key = HashKey::sought(cx, required(item)?)?;
    if !set::discard(cx, this, &key)? {
        return Err(dict::key_error(cx, &key));
    }
    Ok(cx.trace.none())
} }

builtin! { DISCARD = "set.discard" => |cx, args| {
    let (this, [item]) = receive(cx, args, "set", "discard", 1)?;
    let key = HashKey::sought(cx, required(item)?)?;
    set::discard(cx, this, &key)?;
    Ok(cx.trace.none())
} }

builtin! { POP = "set.pop" => |cx, args| {
    let (this, []) = receive(cx, args, "set", "pop", 0)?;
    let set = expect(cx, this)?;
    if set.keys.is_empty() {
        return Err(dict::empty_error(cx, "pop from an empty set"));
    }
    let Some(replica) = replica::of(cx, this)? else {
        let [ref key] = set.keys[..] else {
            return Err(super::cannot("set.pop(): only CPython knows which element goes"));
        };
        write(cx, this, (Vec::new(), SetOrder::Unknown))?;
        return Ok(key.variable);
    };
    let (rest, popped) = replica.change(cx.py, "pop", &[], &set.keys)?;
    write(cx, this, rest)?;
    let gone = set.keys.iter().find(|key| key.bind(cx.py).is(&popped));
    gone.map(|key| key.variable).ok_or_else(|| super::cannot("set.pop(): the element is not found again"))
} }

builtin! { CLEAR = "set.clear" => |cx, args| {
    let (this, []) = receive(cx, args, "set", "clear", 0)?;
    let order = Replica::order_of_added(cx.py, &[])?;
    write(cx, this, (Vec::new(), order))?;
    Ok(cx.trace.none())
} }

builtin! { UPDATE = "set.update" => |cx, args| {
    let (this, others) = operands(cx, args)?;
    others.into_iter().try_for_each(|other| update(cx, this, BinaryOp::Or, other))?;
    Ok(cx.trace.none())
} }

builtin! { INTERSECTION_UPDATE = "set.intersection_update" => |cx, args| updates(cx, args, BinaryOp::And) }
builtin! { DIFFERENCE_UPDATE = "set.difference_update" => |cx, args| updates(cx, args, BinaryOp::Subtract) }
builtin! { SYMMETRIC_UPDATE = "set.symmetric_difference_update" => |cx, args| {
    let (this, [other]) = receive(cx, args, "set", "symmetric_difference_update", 1)?;
    let other = other.ok_or_else(|| super::cannot("symmetric_difference_update() without a set"))?;
    update(cx, this, BinaryOp::Xor, other)?;
    Ok(cx.trace.none())
} }

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
    let [this, other] = args.exactly("isdisjoint")?;
    let items = cx.unpack_all(this)?;
    let items = SetVariable::build(cx, items)?;
    disjoint(cx, &CallArgs::positional(vec![items, other]))
}

/// Returns the receiver, and the other sets or iterables.
fn operands(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<(VarId, Vec<VarId>)> {
    match args.positional.split_first() {
        Some((&this, others)) if args.keywords.is_empty() => {
            expect(cx, this)?;
            Ok((this, others.to_vec()))
        }
        _ => Err(cx.raise(PyTypeError::new_err("a set method takes no keyword arguments"))),
    }
}

/// Simulates `set.update(other)` and similar methods.
pub fn update(cx: &mut OpcodeExecutor<'_>, this: VarId, op: BinaryOp, other: VarId) -> Flow<()> {
    let other = set::seen(cx, other)?;
    let as_a_whole = cx.see_as::<SetVariable>(other)?.is_some() || dict::of(cx, other)?.is_some();
    match op {
        // Item by item, as changes remain if a later item raises.
        BinaryOp::Or if !as_a_whole => cx.each(other, |cx, item| set::add(cx, this, item)),
        BinaryOp::Subtract if !as_a_whole => cx.each(other, |cx, item| {
            let key = HashKey::of(cx, item)?;
            set::discard(cx, this, &key).map(drop)
        }),
        _ => {
            let changed = replica::changed(cx, op, this, other)?;
            write(cx, this, changed)
        }
    }
}

fn updates(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, op: BinaryOp) -> Flow<VarId> {
    let (this, others) = operands(cx, args)?;
    for other in others {
        update(cx, this, op, other)?;
    }
    Ok(cx.trace.none())
}

fn combined(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, op: BinaryOp) -> Flow<VarId> {
    let (this, others) = operands(cx, args)?;
    let frozen = expect(cx, this)?.frozen;
    let others = others.into_iter().map(|other| set::seen(cx, other)).collect::<Flow<Vec<_>>>()?;
    let found = replica::combined(cx, op, this, &others)?;
    Ok(SetVariable::make(cx, found, frozen))
}

fn compared(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, op: CompareOp) -> Flow<VarId> {
    let [this, other] = args.exactly("issubset")?;
    expect(cx, this)?;
    let other = set::seen(cx, other)?;
    let other = elements(cx, other)?;
    let other = SetVariable::make(cx, (other, SetOrder::Unknown), true);
    cx.compare(op, this, other)
}

fn disjoint(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let [this, other] = args.exactly("isdisjoint")?;
    let (left, right) = (expect(cx, this)?, elements(cx, other)?);
    let none = combine(cx, BinaryOp::And, &left.keys, &right)?.is_empty();
    Ok(cx.trace.boolean(none))
}

fn copy(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let (this, []) = receive(cx, args, "set", "copy", 0)?;
    let set = expect(cx, this)?;
    let plain = subclass::owner_of(&cx.trace, this) == this
        && cx.type_of(this)?.is(cx.py.get_type::<pyo3::types::PyFrozenSet>());
    if set.frozen && plain {
        return Ok(this);
    }
    // A union without operands.
    combined(cx, &CallArgs::positional(vec![this]), BinaryOp::Or)
}
