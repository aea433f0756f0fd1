//! Where keys stand among others, found by their hashes: what is looked up as often as there are keys must not be compared with
//! each of them.

use std::collections::HashMap;
use std::rc::Rc;

use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;

use crate::containers::hash_key::HashKey;

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
