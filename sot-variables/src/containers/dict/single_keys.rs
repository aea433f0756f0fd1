//! What the program asks of single keys. Of a dict from outside, only these keys are guarded, as long as new code can
//! write and remove them without the others.

use std::rc::Rc;

use pyo3::prelude::*;
use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::guard::Test;
use sot_core::tracker::{Key, TrackerId};
use sot_core::variable::{VarId, Variable};

use super::restore::is_removed_alone;
use super::{expect, write, DictVariable, Entry};
use crate::classes::instance_dict::InstanceDictVariable;
use crate::containers::hash_key::{self, HashKey, IteratesOver};

/// Returns the contents of a dict of which only single keys are asked for ([`DictVariable::ask`]); `None` for other
/// values.
pub(crate) fn by_keys(cx: &mut OpcodeExecutor<'_>, dict: VarId) -> Flow<Option<Rc<DictVariable>>> {
    cx.see(dict)?;
    Ok(cx.trace.vars.as_kind::<DictVariable>(dict))
}

/// Breaks the graph if the variable is no dict; looks at no key.
pub(crate) fn see(cx: &mut OpcodeExecutor<'_>, dict: VarId) -> Flow<()> {
    if by_keys(cx, dict)?.is_none() && cx.see_as::<InstanceDictVariable>(dict)?.is_none() {
        expect(cx, dict)?;
    }
    Ok(())
}

/// Returns the value of a key, or `None`, of a variable that must be a dict; breaks the graph for other variables.
pub(crate) fn value_of(cx: &mut OpcodeExecutor<'_>, dict: VarId, key: &HashKey) -> Flow<Option<VarId>> {
    if let Some(attributes) = cx.see_as::<InstanceDictVariable>(dict)? {
        return attributes.value_of(cx, key);
    }
    match by_keys(cx, dict)? {
        Some(payload) => payload.value_of(cx, dict, key),
        None => expect(cx, dict)?.get(cx, key),
    }
}

/// Removes a key of a variable that must be a dict, and returns its value; `None` if the dict lacks the key. Breaks the
/// graph for other variables.
pub(crate) fn remove(cx: &mut OpcodeExecutor<'_>, dict: VarId, key: &HashKey) -> Flow<Option<VarId>> {
    if let Some(attributes) = cx.see_as::<InstanceDictVariable>(dict)? {
        if attributes.value_of(cx, key)?.is_none() {
            return Ok(None);
        }
    }
    match by_keys(cx, dict)? {
        Some(payload) => payload.remove(cx, dict, key),
        None => expect(cx, dict)?.remove(cx, dict, key),
    }
}

impl DictVariable {
    /// Guards all keys of a dict from outside, as they were before the trace.
    pub(super) fn look(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let of = cx.trace.vars.tracker(this);
        let Some(outside) = self.outside.as_ref().filter(|_| cx.trace.trackers.is_sourced(of)) else { return Ok(()) };
        if is_looked_into(cx, of) {
            return Ok(());
        }
        cx.refuse_changing_contents(of, "a dict", false)?;
        let py = cx.py;
        if self.ordered {
            // For the storage of an instance of a subclass, this is the type of the instance.
            let ty = outside.object.bind(py).get_type().into_any();
            let order = IteratesOver::test(py, &ty, &self.python_type(&cx.trace), &outside.keys)?;
            cx.trace.guards.add(of, order);
        }
        let keys = outside.keys.iter().map(|key| Key::of(key.bind(py)));
        cx.trace.guards.add(of, Test::Keys(keys.collect()));
        Ok(())
    }

    /// Guards that a dict from outside has the key, or that it does not. Guards all keys if only code of the program
    /// can tell.
    fn ask(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: &HashKey) -> Flow<()> {
        let of = cx.trace.vars.tracker(this);
        let Some(outside) = self.outside.as_ref().filter(|_| cx.trace.trackers.is_sourced(of)) else { return Ok(()) };
        if is_looked_into(cx, of) || hash_key::guard_presence(cx, of, &outside.object, key) {
            return Ok(());
        }
        self.look(cx, this)
    }

    /// Returns the value of a key, or `None`, and guards nothing else.
    pub(super) fn value_of(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: &HashKey) -> Flow<Option<VarId>> {
        self.ask(cx, this, key)?;
        self.get(cx, key)
    }

    /// Sets the value of a key, and guards nothing else, unless the trace has removed the key before: its new place is
    /// then behind all others.
    pub(crate) fn set(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: Rc<HashKey>, value: VarId) -> Flow<()> {
        self.ask(cx, this, &key)?;
        let at = self.position(cx, &key)?;
        if at.is_none() && self.outside.as_ref().is_some_and(|outside| outside.has(cx.py, &key)) {
            self.look(cx, this)?;
        }
        let mut entries = self.entries.clone();
        match at {
            Some(at) => entries[at].value = value,
            None => entries.push(Entry { key, value }),
        }
        self.put(cx, this, entries)
    }

    /// Removes a key and returns its value; `None` if the dict lacks the key. Guards nothing else, unless new code
    /// cannot remove the key alone.
    pub(super) fn remove(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: &HashKey) -> Flow<Option<VarId>> {
        self.ask(cx, this, key)?;
        let Some(at) = self.position(cx, key)? else { return Ok(None) };
        if !is_removed_alone(self.entries[at].key.bind(cx.py)) {
            self.look(cx, this)?;
        }
        let mut entries = self.entries.clone();
        let removed = entries.remove(at);
        self.put(cx, this, entries)?;
        Ok(Some(removed.value))
    }

    /// Replaces the entries, of which only single ones have been asked for.
    fn put(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, entries: Vec<Entry>) -> Flow<()> {
        if self.outside.is_none() {
            // It may stand for the `__dict__` of an object.
            return write(cx, this, entries);
        }
        self.replace(cx, this, entries);
        Ok(())
    }
}

/// True if all keys of the dict are guarded. A subject has one guard of this kind at most, so its keys do not matter.
fn is_looked_into(cx: &OpcodeExecutor<'_>, of: TrackerId) -> bool {
    cx.trace.guards.has(of, Test::Keys(Vec::new()))
}
