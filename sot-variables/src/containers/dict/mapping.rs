//! Updating a dict from other mappings and from iterables of pairs.

use std::rc::Rc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;

use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, OpcodeExecutor};
use sot_core::variable::VarId;

use super::{expect, of, write, DictVariable, IndexedEntries};
use crate::builtins::attribute;
use crate::classes::subclass;
use crate::containers::hash_key::HashKey;

const ORDERED_OF_OTHERS: &str = "an OrderedDict filled from items that are no pairs";

/// Simulates `dict.update(mapping)`, for a mapping or an iterable of pairs.
pub fn update(cx: &mut OpcodeExecutor<'_>, dict: VarId, mapping: VarId) -> Flow<()> {
    let set = |cx: &mut OpcodeExecutor<'_>, pairs: &[(Rc<HashKey>, VarId)]| {
        let entries = expect(cx, dict)?.entries.clone();
        let mut filling = IndexedEntries::of(&cx.trace, entries);
        for (key, value) in pairs {
            filling.put(cx, Rc::clone(key), *value)?;
        }
        write(cx, dict, filling.finish())
    };
    let ordered = expect(cx, dict)?.ordered;
    match known_pairs(cx, mapping, ordered)? {
        Some(pairs) => set(cx, &pairs),
        // Written pair by pair, as code of the program that iterates may look at the dict meanwhile.
        None => each_pair(cx, mapping, ordered, |cx, key, value| set(cx, &[(key, value)])),
    }
}

/// Returns `mapping.keys()`; `None` if there is no such method.
fn keys_of(cx: &mut OpcodeExecutor<'_>, mapping: VarId) -> Flow<Option<VarId>> {
    match attribute::find(cx, mapping, &Rc::from("keys"))? {
        Some(keys) => cx.call_keys(keys).map(Some),
        None => Ok(None),
    }
}

/// Simulates `{**mapping}`: only mappings are accepted.
pub fn update_from_mapping(cx: &mut OpcodeExecutor<'_>, dict: VarId, mapping: VarId) -> Flow<()> {
    if known_pairs(cx, mapping, false)?.is_some() {
        return update(cx, dict, mapping);
    }
    let entries = expect(cx, dict)?.entries.clone();
    let mut filling = IndexedEntries::of(&cx.trace, entries);
    let Some(keys) = keys_of(cx, mapping)? else {
        let text = format!("'{}' object is not a mapping", cx.type_name(mapping)?);
        return Err(cx.raise(PyTypeError::new_err(text)));
    };
    cx.each(keys, |cx, key| {
        let value = cx.get_item(mapping, key)?;
        let key = HashKey::of(cx, key)?;
        filling.put(cx, key, value)
    })?;
    write(cx, dict, filling.finish())
}

/// Simulates `f(**dict, **mapping)`: as `update`, but a duplicate key raises a `TypeError`.
pub fn merge(cx: &mut OpcodeExecutor<'_>, dict: VarId, mapping: VarId, function_name: Option<&str>) -> Flow<()> {
    let py = cx.py;
    let entries = expect(cx, dict)?.entries.clone();
    let mut filling = IndexedEntries::of(&cx.trace, entries);
    let named = || {
        let text = "wrong keywords for a callable whose name CPython knows";
        function_name.ok_or_else(|| Unwind::break_graph(ReasonId::UnsupportedCall, text))
    };
    let refuse_twice = |cx: &mut OpcodeExecutor<'_>, filling: &IndexedEntries, key: &HashKey| {
        if filling.find(cx, key)?.is_none() {
            return Ok(());
        }
        let (function_name, key) = (named()?, key.bind(py).str()?);
        let text = format!("{function_name}() got multiple values for keyword argument '{key}'");
        Err(cx.raise(PyTypeError::new_err(text)))
    };
    if let Some(pairs) = known_pairs(cx, mapping, false)? {
        for (key, value) in pairs {
            refuse_twice(cx, &filling, &key)?;
            filling.put(cx, key, value)?;
        }
        return write(cx, dict, filling.finish());
    }
    let Some(keys) = keys_of(cx, mapping)? else {
        let (function_name, name) = (named()?, cx.type_name(mapping)?);
        let text = format!("{function_name}() argument after ** must be a mapping, not {name}");
        return Err(cx.raise(PyTypeError::new_err(text)));
    };
    cx.each(keys, |cx, name| {
        let key = HashKey::of(cx, name)?;
        refuse_twice(cx, &filling, &key)?;
        let value = cx.get_item(mapping, name)?;
        filling.put(cx, key, value)
    })?;
    write(cx, dict, filling.finish())
}

fn is_mapping(cx: &mut OpcodeExecutor<'_>, mapping: VarId) -> Flow<bool> {
    Ok(of(cx, mapping)?.is_some() || attribute::find(cx, mapping, &Rc::from("keys"))?.is_some())
}

/// Returns the storage of an instance of a dict subclass, if CPython copies its entries without calling methods: then
/// the subclass must not override the iteration. `into_ordered` is true if an `OrderedDict` takes the entries.
fn plainly_iterated(cx: &mut OpcodeExecutor<'_>, source: VarId, into_ordered: bool) -> Flow<Option<VarId>> {
    let Some(storage) = subclass::storage_of(cx, source)? else { return Ok(None) };
    let base = cx.type_of(storage)?.cast_into::<PyType>().map_err(PyErr::from)?;
    let Some(dict) = cx.see_as::<DictVariable>(storage)? else { return Ok(None) };
    // From or into an `OrderedDict`, CPython calls `keys` and `__getitem__` as for any mapping.
    let asked = if dict.ordered || into_ordered { ["keys", "__getitem__"].as_slice() } else { &["__iter__"] };
    let payload = cx.see(source)?;
    let (ty, of) = (payload.python_type(&cx.trace), payload.type_tracker(cx, source));
    Ok(object_model::inherits(cx, (&ty, of), &base, asked)?.then_some(storage))
}

/// Returns a copy of a dict. An instance of a subclass that overrides the iteration is iterated.
pub(crate) fn copied(cx: &mut OpcodeExecutor<'_>, this: VarId, ordered: bool) -> Flow<VarId> {
    let (entries, owner) = (expect(cx, this)?.entries.clone(), subclass::owner_of(&cx.trace, this));
    let asks = owner != this && !entries.is_empty() && plainly_iterated(cx, owner, ordered)?.is_none();
    let copy = cx.trace.produce(Rc::new(DictVariable::new(if asks { Vec::new() } else { entries }, ordered)));
    if asks {
        update(cx, copy, owner)?;
    }
    Ok(copy)
}

/// Returns the entries of a mapping or of an iterable of pairs, as a dict takes them, or an `OrderedDict`.
pub(crate) fn pairs(cx: &mut OpcodeExecutor<'_>, source: VarId, ordered: bool) -> Flow<Vec<(Rc<HashKey>, VarId)>> {
    if let Some(known) = known_pairs(cx, source, ordered)? {
        return Ok(known);
    }
    let mut found = Vec::new();
    each_pair(cx, source, ordered, |_, key, value| {
        found.push((key, value));
        Ok(())
    })?;
    Ok(found)
}

/// Returns the entries of a dict that CPython reads without calling methods; `None` for other values.
fn known_pairs(cx: &mut OpcodeExecutor<'_>, source: VarId, ordered: bool) -> Flow<Option<Vec<(Rc<HashKey>, VarId)>>> {
    let source = plainly_iterated(cx, source, ordered)?.unwrap_or(source);
    let entries = of(cx, source)?;
    Ok(entries.map(|dict| dict.entries.iter().map(|entry| (Rc::clone(&entry.key), entry.value)).collect()))
}

/// Calls `take` with each pair of a mapping or an iterable of pairs, before the next pair is requested.
fn each_pair(
    cx: &mut OpcodeExecutor<'_>,
    source: VarId,
    ordered: bool,
    mut take: impl FnMut(&mut OpcodeExecutor<'_>, Rc<HashKey>, VarId) -> Flow<()>,
) -> Flow<()> {
    if is_mapping(cx, source)? {
        let keys = cx.call_method(source, "keys", &[])?;
        return cx.each(keys, |cx, key| {
            let value = cx.get_item(source, key)?;
            let key = HashKey::of(cx, key)?;
            take(cx, key, value)
        });
    }
    if ordered && attribute::find(cx, source, &Rc::from("items"))?.is_some() {
        let text = "an OrderedDict filled from an object with items() but without keys()";
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    }
    let mut index = 0;
    cx.each(source, |cx, pair| {
        if !object_model::can_be_iterated(cx, pair)? {
            if ordered {
                return Err(Unwind::break_graph(ReasonId::UnsupportedCall, ORDERED_OF_OTHERS));
            }
            let text = format!("cannot convert dictionary update sequence element #{index} to a sequence");
            return Err(cx.raise(PyTypeError::new_err(text)));
        }
        let items = cx.unpack_all(pair)?;
        if ordered && items.len() != 2 {
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, ORDERED_OF_OTHERS));
        }
        let [key, value] = items[..] else {
            let len = items.len();
            let text = format!("dictionary update sequence element #{index} has length {len}; 2 is required");
            return Err(cx.raise(PyValueError::new_err(text)));
        };
        index += 1;
        let key = HashKey::of(cx, key)?;
        take(cx, key, value)
    })
}
