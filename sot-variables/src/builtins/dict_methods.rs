//! Methods of `dict` and of `collections.OrderedDict`.

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use sot_core::builtin;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::{VarId, Variable};

use super::{cannot, receive, required};
use crate::containers::dict::{self, expect, write, DictVariable, Entry, IndexedEntries};
use crate::containers::hash_key::HashKey;
use crate::iterators::dict_view::{DictView, View};

builtin! { GET = "dict.get" => |cx, args| {
    let (this, [key, default]) = receive(cx, args, "dict", "get", 1)?;
    dict::see(cx, this)?;
    let key = HashKey::of(cx, required(key)?)?;
    Ok(dict::value_of(cx, this, &key)?.or(default).unwrap_or_else(|| cx.trace.none()))
} }

builtin! { KEYS = "dict.keys" => |cx, args| view(cx, args, View::Keys) }
builtin! { VALUES = "dict.values" => |cx, args| view(cx, args, View::Values) }
builtin! { ITEMS = "dict.items" => |cx, args| view(cx, args, View::Items) }
builtin! { ORDERED_KEYS = "collections:OrderedDict.keys" => |cx, args| view(cx, args, View::Keys) }
builtin! { ORDERED_VALUES = "collections:OrderedDict.values" => |cx, args| view(cx, args, View::Values) }
builtin! { ORDERED_ITEMS = "collections:OrderedDict.items" => |cx, args| view(cx, args, View::Items) }

builtin! { POP = "dict.pop" => |cx, args| {
    let (this, [key, default]) = receive(cx, args, "dict", "pop", 1)?;
    pop(cx, this, required(key)?, default)
} }

builtin! { ORDERED_POP = "collections:OrderedDict.pop" => |cx, args| {
    let [key, default] = options(args).named("pop", ["key", "default"], 1)?;
    pop(cx, receiver(args)?, required(key)?, default)
} }

builtin! { POPITEM = "dict.popitem" => |cx, args| {
    let (this, []) = receive(cx, args, "dict", "popitem", 0)?;
    pop_item(cx, this, true, "popitem(): dictionary is empty")
} }

builtin! { ORDERED_POPITEM = "collections:OrderedDict.popitem" => |cx, args| {
    let last = last_option(cx, args, "popitem")?;
    pop_item(cx, receiver(args)?, last, "dictionary is empty")
} }

builtin! { MOVE_TO_END = "collections:OrderedDict.move_to_end" => |cx, args| {
    let [key, last] = options(args).named("move_to_end", ["key", "last"], 1)?;
    let last = match last {
        Some(last) => cx.truth(last)?,
        None => true,
    };
    let this = receiver(args)?;
    let (dict, key) = (expect(cx, this)?, HashKey::of(cx, required(key)?)?);
    let Some(at) = dict.position(cx, &key)? else { return Err(dict::key_error(cx, &key)) };
    let mut entries = dict.entries.clone();
    let entry = entries.remove(at);
    entries.insert(if last { entries.len() } else { 0 }, entry);
    write(cx, this, entries)?;
    Ok(cx.trace.none())
} }

builtin! { SETDEFAULT = "dict.setdefault" => |cx, args| set_default(cx, args) }
builtin! { ORDERED_SETDEFAULT = "collections:OrderedDict.setdefault" => |cx, args| set_default(cx, args) }
builtin! { UPDATE = "dict.update" => |cx, args| update(cx, args) }
builtin! { ORDERED_UPDATE = "collections:OrderedDict.update" => |cx, args| update(cx, args) }
builtin! { CLEAR = "dict.clear" => |cx, args| clear(cx, args) }
builtin! { ORDERED_CLEAR = "collections:OrderedDict.clear" => |cx, args| clear(cx, args) }
builtin! { COPY = "dict.copy" => |cx, args| copy(cx, args) }
builtin! { ORDERED_COPY = "collections:OrderedDict.copy" => |cx, args| copy(cx, args) }
builtin! { FROMKEYS = "dict.fromkeys" => |cx, args| from_keys(cx, args) }

builtin! { LEN = "dict.__len__" => |cx, args| {
    let (this, []) = receive(cx, args, "dict", "__len__", 0)?;
    dict::see(cx, this)?;
    cx.len(this)
} }

builtin! { GETITEM = "dict.__getitem__" => |cx, args| {
    let (this, [key]) = receive(cx, args, "dict", "__getitem__", 1)?;
    dict::see(cx, this)?;
    cx.get_item(this, required(key)?)
} }

builtin! { CONTAINS = "dict.__contains__" => |cx, args| {
    let (this, [key]) = receive(cx, args, "dict", "__contains__", 1)?;
    dict::see(cx, this)?;
    cx.contains(this, required(key)?, false)
} }

builtin! { SETITEM = "dict.__setitem__" => |cx, args| set_item(cx, args) }
builtin! { ORDERED_SETITEM = "collections:OrderedDict.__setitem__" => |cx, args| set_item(cx, args) }
builtin! { DELITEM = "dict.__delitem__" => |cx, args| del_item(cx, args) }
builtin! { ORDERED_DELITEM = "collections:OrderedDict.__delitem__" => |cx, args| del_item(cx, args) }
builtin! { ITER = "dict.__iter__" => |cx, args| iter(cx, args) }
builtin! { ORDERED_ITER = "collections:OrderedDict.__iter__" => |cx, args| iter(cx, args) }

/// Returns the arguments without the receiver.
fn options(args: &CallArgs) -> CallArgs {
    let positional = args.positional.iter().skip(1).copied().collect();
    CallArgs { positional, keywords: args.keywords.clone() }
}

fn receiver(args: &CallArgs) -> Flow<VarId> {
    args.positional.first().copied().ok_or_else(|| cannot("a dict method without a receiver"))
}

fn view(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, view: View) -> Flow<VarId> {
    let (dict, []) = receive(cx, args, "dict", view.method(), 0)?;
    expect(cx, dict)?;
    Ok(cx.trace.produce(Rc::new(DictView { dict, view })))
}

fn pop(cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId, default: Option<VarId>) -> Flow<VarId> {
    dict::see(cx, this)?;
    let key = HashKey::of(cx, key)?;
    dict::remove(cx, this, &key)?.or(default).ok_or_else(|| dict::key_error(cx, &key))
}

fn pop_item(cx: &mut OpcodeExecutor<'_>, this: VarId, last: bool, error: &str) -> Flow<VarId> {
    let mut entries = expect(cx, this)?.entries.clone();
    if entries.is_empty() {
        return Err(dict::empty_error(cx, error));
    }
    let entry = entries.remove(if last { entries.len() - 1 } else { 0 });
    write(cx, this, entries)?;
    Ok(dict::pair(cx, &entry))
}

fn last_option(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, name: &str) -> Flow<bool> {
    let [last] = options(args).named(name, ["last"], 0)?;
    last.map_or(Ok(true), |last| cx.truth(last))
}

fn set_default(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let [key, default] = options(args).named("setdefault", ["key", "default"], 1)?;
    let this = receiver(args)?;
    dict::see(cx, this)?;
    let key = HashKey::of(cx, required(key)?)?;
    if let Some(value) = dict::value_of(cx, this, &key)? {
        return Ok(value);
    }
    let value = default.unwrap_or_else(|| cx.trace.none());
    if let Some(dict) = dict::by_keys(cx, this)? {
        dict.set(cx, this, key, value)?;
        return Ok(value);
    }
    let dict = expect(cx, this)?;
    let mut entries = dict.entries.clone();
    entries.push(Entry { key, value });
    write(cx, this, entries)?;
    Ok(value)
}

fn update(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let this = receiver(args)?;
    let known = expect(cx, this)?;
    // CPython may copy the layout of the other dict into an empty one, which iterators over the dict can observe.
    if known.entries.is_empty()
        && known.object().is_some_and(|object| object.bind(cx.py).len().is_ok_and(|len| len > 0))
    {
        return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, "update of a dict that was emptied"));
    }
    match args.positional[1..] {
        [] => {}
        [source] => dict::update(cx, this, source)?,
        _ => {
            let given = args.positional.len() - 1;
            return Err(cx.raise(PyTypeError::new_err(format!("update expected at most 1 argument, got {given}"))));
        }
    }
    if !args.keywords.is_empty() {
        let entries = expect(cx, this)?.entries.clone();
        let mut filling = IndexedEntries::of(&cx.trace, entries);
        filling.put_keywords(cx, &args.keywords)?;
        write(cx, this, filling.finish())?;
    }
    Ok(cx.trace.none())
}

fn clear(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let (this, []) = receive(cx, args, "dict", "clear", 0)?;
    write(cx, this, Vec::new())?;
    Ok(cx.trace.none())
}

fn copy(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let (this, []) = receive(cx, args, "dict", "copy", 0)?;
    let ordered = expect(cx, this)?.ordered;
    dict::copied(cx, this, ordered)
}

fn set_item(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let (this, [key, value]) = receive(cx, args, "dict", "__setitem__", 2)?;
    dict::see(cx, this)?;
    cx.set_item(this, required(key)?, required(value)?)?;
    Ok(cx.trace.none())
}

fn del_item(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let (this, [key]) = receive(cx, args, "dict", "__delitem__", 1)?;
    expect(cx, this)?;
    cx.del_item(this, required(key)?)?;
    Ok(cx.trace.none())
}

fn iter(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let (this, []) = receive(cx, args, "dict", "__iter__", 0)?;
    expect(cx, this)?;
    cx.iter(this)
}

/// Simulates `class.fromkeys(keys, value)` for a subclass of `dict`: the keys are set one by one on an instance.
pub(crate) fn from_keys_of_class(cx: &mut OpcodeExecutor<'_>, class: VarId, args: &CallArgs) -> Flow<VarId> {
    let [keys, value] = args.named("fromkeys", ["iterable", "value"], 1)?;
    let value = value.unwrap_or_else(|| cx.trace.none());
    let made = cx.call(class, &CallArgs::default())?;
    cx.each(required(keys)?, |cx, key| cx.set_item(made, key, value))?;
    Ok(made)
}

/// Simulates `dict.fromkeys(keys, value)`, called on `dict` itself.
fn from_keys(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let [keys, value] = args.named("fromkeys", ["iterable", "value"], 1)?;
    let value = value.unwrap_or_else(|| cx.trace.none());
    let mut filling = IndexedEntries::of(&cx.trace, Vec::new());
    for key in cx.unpack_all(required(keys)?)? {
        let key = HashKey::of(cx, key)?;
        filling.put(cx, key, value)?;
    }
    Ok(cx.trace.produce(Rc::new(DictVariable::new(filling.finish(), false))))
}
