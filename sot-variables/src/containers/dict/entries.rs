//! Entries of dicts, and the errors for missing keys.

use std::rc::Rc;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;

use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{Name, OpcodeExecutor, Trace};
use sot_core::variable::VarId;

use crate::classes::exception;
use crate::containers::hash_key::HashKey;
use crate::containers::key_index::KeyIndex;

/// An entry of a dict.
#[derive(Clone)]
pub struct Entry {
    /// The key.
    pub key: Rc<HashKey>,
    /// The value.
    pub value: VarId,
}

/// Returns the position of a key among entries.
pub(crate) fn find(cx: &mut OpcodeExecutor<'_>, entries: &[Entry], key: &HashKey) -> Flow<Option<usize>> {
    for (at, entry) in entries.iter().enumerate() {
        if !entry.key.is_apart(key) && entry.key.same(cx, key)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Sets a value among entries. A known key keeps its position.
pub(crate) fn put(cx: &mut OpcodeExecutor<'_>, entries: &mut Vec<Entry>, key: Rc<HashKey>, value: VarId) -> Flow<()> {
    match find(cx, entries, &key)? {
        Some(at) => entries[at].value = value,
        None => entries.push(Entry { key, value }),
    }
    Ok(())
}

/// Entries with an index of their keys, for adding many entries.
pub(crate) struct IndexedEntries {
    entries: Vec<Entry>,
    index: KeyIndex,
}

impl IndexedEntries {
    /// Starts from these entries.
    pub(crate) fn of(trace: &Trace<'_>, entries: Vec<Entry>) -> Self {
        let index = KeyIndex::of(trace, entries.iter().map(|entry| &entry.key));
        IndexedEntries { entries, index }
    }

    /// Returns the position of a key.
    pub(crate) fn find(&self, cx: &mut OpcodeExecutor<'_>, key: &HashKey) -> Flow<Option<usize>> {
        self.index.find(cx, key, |at| &self.entries[at].key)
    }

    /// Sets a value. A known key keeps its position.
    pub(crate) fn put(&mut self, cx: &mut OpcodeExecutor<'_>, key: Rc<HashKey>, value: VarId) -> Flow<()> {
        if let Some(at) = self.find(cx, &key)? {
            self.entries[at].value = value;
        } else {
            self.index.push(&cx.trace, &key);
            self.entries.push(Entry { key, value });
        }
        Ok(())
    }

    /// Sets values by keyword names.
    pub(crate) fn put_keywords(&mut self, cx: &mut OpcodeExecutor<'_>, keywords: &[(Name, VarId)]) -> Flow<()> {
        for (name, value) in keywords {
            let key = cx.trace.string(name);
            let key = HashKey::of(cx, key)?;
            self.put(cx, key, *value)?;
        }
        Ok(())
    }

    /// Returns all entries.
    pub(crate) fn finish(self) -> Vec<Entry> {
        self.entries
    }
}

/// Returns an entry as a tuple, as `items()` gives it.
pub(crate) fn pair(cx: &mut OpcodeExecutor<'_>, entry: &Entry) -> VarId {
    cx.trace.tuple(vec![entry.key.variable, entry.value])
}

/// Makes a `KeyError(key)`.
pub(crate) fn key_error(cx: &mut OpcodeExecutor<'_>, key: &HashKey) -> Unwind {
    let class = cx.py.get_type::<PyKeyError>().into_any();
    exception::make(cx, &class, vec![key.variable]).map_or_else(|unwind| unwind, Unwind::Raise)
}

/// Makes a `KeyError(text)`.
pub(crate) fn empty_error(cx: &mut OpcodeExecutor<'_>, text: &str) -> Unwind {
    cx.raise(PyKeyError::new_err(text.to_owned()))
}

/// Breaks the graph at a dict from outside with a key that the dict does not find any more, or that has become equal to
/// another key: the `__hash__` and `__eq__` of the program depend on an attribute that was written since the insertion.
pub(super) fn refuse_changed_keys(
    cx: &mut OpcodeExecutor<'_>,
    dict: &Bound<'_, PyDict>,
    entries: &[Entry],
) -> Flow<()> {
    if !entries.iter().any(|entry| entry.key.asks_program()) {
        return Ok(());
    }
    let mut by_hash: FxHashMap<isize, Vec<&Rc<HashKey>>> = FxHashMap::default();
    for entry in entries {
        by_hash.entry(entry.key.hash()).or_default().push(&entry.key);
    }
    for keys in by_hash.values() {
        let mut is_lost = false;
        if let [key] = keys[..] {
            // No other key has this hash, so the dict compares this one by identity.
            let real = cx.trace.vars.get(key.variable).object().map(|object| object.bind(cx.py).clone());
            // A tuple that holds an identity has another hash in the trace than in CPython.
            let real = real.filter(|_| key.asks_program() && key.stands_for_hash(cx.py));
            is_lost = real.is_some_and(|real| !cpython::is_kept_under(dict, &real, key.hash()));
        }
        for (at, key) in keys.iter().enumerate() {
            for other in &keys[..at] {
                if key.asks_program() || other.asks_program() {
                    is_lost |= match key.same(cx, other) {
                        Err(Unwind::Raise(_)) => true,
                        is_same => is_same?,
                    };
                }
            }
        }
        if is_lost {
            let text = "a dict with a key that has changed since it was inserted";
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
        }
    }
    Ok(())
}
