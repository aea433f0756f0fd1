//! C parts of `collections`: `defaultdict`, and the counting of `Counter`.

use std::rc::Rc;

use pyo3::exceptions::{PyKeyError, PyTypeError};

use sot_core::builtin;
use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;

use super::{cannot, is_none};
use crate::classes::subclass;

builtin! { DEFAULTDICT_INIT = "collections:defaultdict.__init__" => |cx, args| {
    let Some((&this, rest)) = args.positional.split_first() else { return Err(cannot("defaultdict.__init__()")) };
    let Some(storage) = subclass::storage_of(cx, this)? else { return Err(cannot("a defaultdict made outside")) };
    let factory = match rest.first() {
        Some(&factory) => factory,
        None => cx.trace.none(),
    };
    if !is_none(cx, factory)? && !cx.has_special(factory, "__call__")? {
        return Err(cx.raise(PyTypeError::new_err("first argument must be callable or None")));
    }
    cx.trace.effects.set_attribute(this, &Rc::from("default_factory"), Some(factory));
    let rest = CallArgs { positional: rest.iter().skip(1).copied().collect(), keywords: args.keywords.clone() };
    subclass::fill_dict(cx, &rest.with_receiver(storage))
} }

builtin! { MISSING = "collections:defaultdict.__missing__" => |cx, args| {
    let [this, key] = args.exactly("__missing__")?;
    let factory = cx.get_attr(this, &Rc::from("default_factory"))?;
    if is_none(cx, factory)? {
        let Some(key) = cx.materialize(key)? else { return Err(cannot("KeyError of an unknown key")) };
        return Err(cx.raise(PyKeyError::new_err((key.unbind(),))));
    }
    let value = cx.call(factory, &CallArgs::default())?;
    cx.set_item(this, key, value)?;
    Ok(value)
} }

builtin! { DEFAULTDICT_COPY = "collections:defaultdict.copy" => |cx, args| copy(cx, args) }
builtin! { DEFAULTDICT_SHALLOW_COPY = "collections:defaultdict.__copy__" => |cx, args| copy(cx, args) }

fn copy(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let [this] = args.exactly("copy")?;
    let factory = cx.get_attr(this, &Rc::from("default_factory"))?;
    let class = sot_core::executor::object_model::type_variable(cx, this)?;
    cx.call(class, &CallArgs::positional(vec![factory, this]))
}

builtin! { COUNT_ELEMENTS = "collections:_count_elements" => |cx, args| {
    let [mapping, iterable] = args.exactly("_count_elements")?;
    let (zero, one) = (cx.trace.integer(0)?, cx.trace.integer(1)?);
    cx.each(iterable, |cx, item| {
        let count = cx.call_method(mapping, "get", &[item, zero])?;
        let count = cx.binary(sot_core::executor::BinaryOp::Add, count, one)?;
        cx.set_item(mapping, item, count)
    })?;
    Ok(cx.trace.none())
} }
