//! Where keys stand among others, found by their hashes: what is looked up as often as there are keys must not be
//! compared with each of them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;

use crate::containers::hash_key::HashKey;

/// The index of a container of the trace, made when it is first asked.
#[derive(Default)]
pub(crate) struct LazyIndex(RefCell<Option<KeyIndex>>);

impl LazyIndex {
    /// The place of a key among `keys`, which the container has.
    pub(crate) fn find<'k>(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        key: &HashKey,
        len: usize,
        at: impl Fn(usize) -> &'k Rc<HashKey>,
    ) -> Flow<Option<usize>> {
        if self.0.borrow().is_none() {
            let index = KeyIndex::of(cx, (0..len).map(&at));
            *self.0.borrow_mut() = Some(index);
        }
        match &*self.0.borrow() {
            Some(index) => index.find(cx, key, at),
            None => Ok(None),
        }
    }

    /// The index after a write, where the `old` keys are still there, in their places, and others behind them. It is
    /// taken, not copied: the old contents are looked at again only if the trace goes back.
    pub(crate) fn after_write<'k>(
        &self,
        cx: &OpcodeExecutor<'_>,
        old: impl ExactSizeIterator<Item = &'k Rc<HashKey>>,
        mut new: impl ExactSizeIterator<Item = &'k Rc<HashKey>>,
    ) -> Self {
        let goes_on = new.len() >= old.len() && old.zip(new.by_ref()).all(|(old, new)| Rc::ptr_eq(old, new));
        // It may be in use: comparing keys may run code of the program's.
        let mut taken = self.0.try_borrow_mut().ok().filter(|_| goes_on).and_then(|mut index| index.take());
        if let Some(index) = &mut taken {
            new.for_each(|key| index.push(cx, key));
        }
        LazyIndex(RefCell::new(taken))
    }
}

/// The places of keys.
#[derive(Default)]
pub(crate) struct KeyIndex {
    by_hash: HashMap<isize, Vec<usize>>,
    /// Keys that a number may be the address of, whatever its hash.
    stand_ins: Vec<usize>,
    /// Numbers that may be addresses.
    addresses: Vec<usize>,
    count: usize,
}

impl KeyIndex {
    /// The index of keys in their order.
    pub(crate) fn of<'k>(cx: &OpcodeExecutor<'_>, keys: impl Iterator<Item = &'k Rc<HashKey>>) -> Self {
        let mut index = KeyIndex::default();
        keys.for_each(|key| index.push(cx, key));
        index
    }

    /// Notes one more key behind the others.
    pub(crate) fn push(&mut self, cx: &OpcodeExecutor<'_>, key: &HashKey) {
        let place = self.count;
        self.count += 1;
        self.by_hash.entry(key.hash()).or_default().push(place);
        if key.is_stand_in() {
            self.stand_ins.push(place);
        } else if key.may_hold_address(cx.py) {
            self.addresses.push(place);
        }
    }

    /// The place of the first key that stands for the same entry; `at` gives the key in a place.
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
        for place in places {
            if at(place).same(cx, key)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }
}
