//! Index from hashes to positions of keys, so that a lookup does not compare a key with all others.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use sot_core::error::Flow;
use sot_core::executor::{OpcodeExecutor, Trace};

use crate::containers::hash_key::HashKey;

/// The index of a container of the trace, built at the first lookup.
#[derive(Default)]
pub(crate) struct LazyIndex(RefCell<Option<KeyIndex>>);

impl LazyIndex {
    /// Returns the position of a key among the container's keys.
    pub(crate) fn find<'k>(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        key: &HashKey,
        len: usize,
        at: impl Fn(usize) -> &'k Rc<HashKey>,
    ) -> Flow<Option<usize>> {
        if self.0.borrow().is_none() {
            let index = KeyIndex::of(&cx.trace, (0..len).map(&at));
            *self.0.borrow_mut() = Some(index);
        }
        match &*self.0.borrow() {
            Some(index) => index.find(cx, key, at),
            None => Ok(None),
        }
    }

    /// Returns the index after a write that appended keys to the `old` ones, or removed one of them. The index is
    /// moved, not copied: the old contents are needed again only after a rollback, which rebuilds it.
    pub(crate) fn after_write<'k>(
        &self,
        trace: &Trace<'_>,
        mut old: impl ExactSizeIterator<Item = &'k Rc<HashKey>> + Clone,
        mut new: impl ExactSizeIterator<Item = &'k Rc<HashKey>> + Clone,
    ) -> Self {
        let (had, has) = (old.len(), new.len());
        let (mut all, from) = (old.clone(), new.clone());
        let other = old.by_ref().zip(new.by_ref()).position(|(old, new)| !Rc::ptr_eq(old, new));
        let appends = has >= had && other.is_none();
        let place = other.unwrap_or(has);
        let removes = has + 1 == had && {
            // `old` is behind the removed key.
            let behind = if other.is_none() { 0 } else { has - place };
            old.len() == behind && old.zip(from.skip(place)).all(|(old, new)| Rc::ptr_eq(old, new))
        };
        // The index may be borrowed, as comparing keys may run code of the program.
        let taken = self.0.try_borrow_mut().ok().filter(|_| appends || removes).and_then(|mut index| index.take());
        LazyIndex(RefCell::new(taken.map(|mut index| {
            match all.nth(place).filter(|_| removes) {
                Some(key) => index.remove(key, place),
                None => new.for_each(|key| index.push(trace, key)),
            }
            index
        })))
    }
}

/// Positions of keys, by hash.
#[derive(Default)]
pub(crate) struct KeyIndex {
    by_hash: FxHashMap<isize, Vec<usize>>,
    /// Positions of stand-ins: an integer of any hash may be the address of one.
    stand_ins: Vec<usize>,
    /// Positions of integers that may be addresses.
    addresses: Vec<usize>,
    /// The position of the next key.
    count: usize,
    /// Number of keys that were removed in front. The positions above count them.
    gone: usize,
}

impl KeyIndex {
    /// Returns the index of keys in their order.
    pub(crate) fn of<'k>(trace: &Trace<'_>, keys: impl Iterator<Item = &'k Rc<HashKey>>) -> Self {
        let mut index = KeyIndex::default();
        keys.for_each(|key| index.push(trace, key));
        index
    }

    /// Appends a key.
    pub(crate) fn push(&mut self, trace: &Trace<'_>, key: &HashKey) {
        let place = self.count;
        self.count += 1;
        self.by_hash.entry(key.hash()).or_default().push(place);
        if key.is_stand_in() {
            self.stand_ins.push(place);
        } else if key.may_hold_address(trace.py) {
            self.addresses.push(place);
        }
    }

    /// Removes a key at its position.
    fn remove(&mut self, key: &HashKey, place: usize) {
        let removed = place + self.gone;
        let with_hash = self.by_hash.get_mut(&key.hash());
        for places in with_hash.into_iter().chain([&mut self.stand_ins, &mut self.addresses]) {
            places.retain(|place| *place != removed);
        }
        if place == 0 {
            self.gone += 1;
            return;
        }
        self.count -= 1;
        if removed < self.count {
            let all = self.by_hash.values_mut().chain([&mut self.stand_ins, &mut self.addresses]);
            all.flatten().filter(|place| **place > removed).for_each(|place| *place -= 1);
        }
    }

    /// Returns the position of the first equal key. `at` returns the key at a position.
    pub(crate) fn find<'k>(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        key: &HashKey,
        at: impl Fn(usize) -> &'k Rc<HashKey>,
    ) -> Flow<Option<usize>> {
        let mut places = self.by_hash.get(&key.hash()).cloned().unwrap_or_default();
        if key.is_stand_in() {
            places.extend(self.stand_ins.iter().chain(&self.addresses));
        } else if !self.stand_ins.is_empty() && key.may_hold_address(cx.py) {
            places.extend(&self.stand_ins);
        }
        places.sort_unstable();
        places.dedup();
        for place in places.into_iter().map(|place| place - self.gone) {
            if at(place).same(cx, key)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }
}
