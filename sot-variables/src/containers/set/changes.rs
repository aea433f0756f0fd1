//! Changes of a set by single elements. Of a set from outside only these elements are guarded, and new code repeats the
//! changes.

use std::rc::Rc;

use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::side_effects::Effect;
use sot_core::variable::VarId;

use super::{expect, SetOrder, SetVariable};
use crate::containers::hash_key::HashKey;
use crate::containers::replica::{self, Elements};

/// A method and its argument.
pub(super) type SetChange = (&'static str, Rc<HashKey>);

/// Maximum number of changes that new code repeats one by one.
const MAX_CHANGES: usize = 64;

/// Simulates `set.add(item)`.
pub fn add(cx: &mut OpcodeExecutor<'_>, set: VarId, item: VarId) -> Flow<()> {
    let key = HashKey::of(cx, item)?;
    add_key(cx, set, key)
}

fn add_key(cx: &mut OpcodeExecutor<'_>, set: VarId, key: Rc<HashKey>) -> Flow<()> {
    let old = asked(cx, set, &key)?;
    if old.position(cx, &key)?.is_some() {
        return Ok(());
    }
    let keys = [&old.keys[..], std::slice::from_ref(&key)].concat();
    change(cx, set, keys, ("add", key))
}

/// Simulates `set.discard(key)`. Returns true if the key was present.
pub(crate) fn discard(cx: &mut OpcodeExecutor<'_>, set: VarId, key: &HashKey) -> Flow<bool> {
    let old = asked(cx, set, key)?;
    let Some(at) = old.position(cx, key)? else { return Ok(false) };
    let mut keys = old.keys.clone();
    let gone = keys.remove(at);
    change(cx, set, keys, ("discard", gone))?;
    Ok(true)
}

/// Replaces the elements by `keys`, the result of a method call with a single element.
fn change(cx: &mut OpcodeExecutor<'_>, set: VarId, keys: Vec<Rc<HashKey>>, change: SetChange) -> Flow<()> {
    let old = asked(cx, set, &change.1)?;
    let changes = old.changes.as_ref().filter(|changes| changes.len() < MAX_CHANGES);
    let replica = if changes.is_some() { old.replica(cx.py) } else { replica::of(cx, set)? };
    let (method, key) = &change;
    let order = match replica.filter(|_| key.stands_for_hash(cx.py)) {
        Some(replica) => SetOrder::OfRealSet(replica.after(method, key.bind(cx.py))?),
        None => SetOrder::Unknown,
    };
    let changes = changes.map(|changes| with_change(changes, change));
    put(cx, set, &old, (keys, order), changes);
    Ok(())
}

/// Appends a change. An object made in the trace that was added and removed again is dropped from the changes, as its
/// hash, which differs from call to call, must not influence the order.
fn with_change(changes: &[SetChange], change: SetChange) -> Vec<SetChange> {
    let is_undone = |(_, key): &SetChange| key.is_stand_in() && Rc::ptr_eq(key, &change.1);
    let mut left: Vec<SetChange> = changes.iter().filter(|earlier| !is_undone(earlier)).cloned().collect();
    if left.len() == changes.len() {
        left.push(change);
    }
    left
}

/// Replaces the elements of a set.
pub(crate) fn write(cx: &mut OpcodeExecutor<'_>, set: VarId, elements: Elements) -> Flow<()> {
    let old = expect(cx, set)?;
    put(cx, set, &old, elements, None);
    Ok(())
}

fn put(
    cx: &mut OpcodeExecutor<'_>,
    set: VarId,
    old: &SetVariable,
    (keys, order): Elements,
    changes: Option<Vec<SetChange>>,
) {
    let outside = old.outside.clone();
    cx.limits.charge(keys.len());
    let index = old.index.after_write(&cx.trace, old.keys.iter(), keys.iter());
    cx.trace.vars.set(set, Rc::new(SetVariable { keys, frozen: old.frozen, order, outside, changes, index }));
    cx.trace.effects.record(Effect::Contents { container: set });
}

/// Returns the payload of a variable that must be a set, of which only this element is asked for.
fn asked(cx: &mut OpcodeExecutor<'_>, set: VarId, key: &HashKey) -> Flow<Rc<SetVariable>> {
    cx.see(set)?;
    match cx.trace.vars.as_kind::<SetVariable>(set) {
        Some(payload) => {
            payload.ask(cx, set, key)?;
            Ok(payload)
        }
        None => expect(cx, set),
    }
}
