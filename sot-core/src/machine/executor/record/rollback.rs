//! Rollback: an instruction that cannot be simulated, or was only tried, leaves nothing in any store of the trace.
//! One trait says what a store must do for that; [`super::trace::Trace`] has the stores.
//! [Why](../../../../../docs/decisions/34-one-way-back.md).

use std::hash::Hash;

use rustc_hash::FxHashMap;

use crate::graph::{FunctionGraph, GraphMark};
use crate::machine::executor::lifetimes::observable_drops::ObservableDrops;
use crate::machine::executor::{IdentityMap, Raised};
use crate::machine::variable::{VarId, Variables, VariablesMark};
use crate::side_effects::SideEffects;

/// A store that changes during a trace and can be rolled back to an earlier state.
pub(in crate::machine::executor) trait Reversible {
    /// A mark of a state, as small as possible.
    type Mark: Copy;

    /// Marks the present state.
    fn mark(&self) -> Self::Mark;

    /// Rolls back to an earlier state, in which the variables from `first_gone` on did not exist.
    fn go_back(&mut self, mark: Self::Mark, first_gone: VarId);
}

/// The marks of all stores of a trace that can be rolled back.
#[derive(Clone, Copy, Default)]
pub(in crate::machine::executor) struct Marks {
    pub(super) vars: VariablesMark,
    pub(super) effects: usize,
    pub(in crate::machine::executor) graph: GraphMark,
    pub(super) identities: (),
    pub(super) raised: <Raised as Reversible>::Mark,
    pub(super) observable_drops: <ObservableDrops as Reversible>::Mark,
}

impl Reversible for Variables {
    type Mark = VariablesMark;

    fn mark(&self) -> VariablesMark {
        Variables::mark(self)
    }

    fn go_back(&mut self, mark: VariablesMark, _: VarId) {
        self.roll_back(mark);
    }
}

impl Reversible for SideEffects {
    type Mark = usize;

    fn mark(&self) -> usize {
        self.len()
    }

    fn go_back(&mut self, mark: usize, first_gone: VarId) {
        self.truncate(mark);
        self.forget_owners_from(first_gone);
    }
}

impl Reversible for FunctionGraph<'_> {
    type Mark = GraphMark;

    fn mark(&self) -> GraphMark {
        FunctionGraph::mark(self)
    }

    fn go_back(&mut self, mark: GraphMark, first_gone: VarId) {
        self.roll_back(mark, first_gone);
    }
}

impl Reversible for IdentityMap {
    type Mark = ();

    fn mark(&self) {}

    fn go_back(&mut self, (): (), first_gone: VarId) {
        self.forget_from(first_gone);
    }
}

/// A map that can be rolled back: it keeps the values that changes have replaced.
pub(in crate::machine::executor) struct Journal<K, V> {
    entries: FxHashMap<K, V>,
    replaced: Vec<(K, Option<V>)>,
}

impl<K, V> Default for Journal<K, V> {
    fn default() -> Self {
        Journal { entries: FxHashMap::default(), replaced: Vec::new() }
    }
}

impl<K: Eq + Hash + Copy, V> Journal<K, V> {
    pub(in crate::machine::executor) fn get(&self, key: K) -> Option<&V> {
        self.entries.get(&key)
    }

    pub(in crate::machine::executor) fn insert(&mut self, key: K, value: V) {
        let before = self.entries.insert(key, value);
        self.replaced.push((key, before));
    }

    pub(in crate::machine::executor) fn remove(&mut self, key: K) {
        if let Some(before) = self.entries.remove(&key) {
            self.replaced.push((key, Some(before)));
        }
    }

    /// Number of changes.
    pub(in crate::machine::executor) fn len(&self) -> usize {
        self.replaced.len()
    }

    /// Undoes all changes but the first `len`.
    pub(in crate::machine::executor) fn undo_to(&mut self, len: usize) {
        while self.replaced.len() > len {
            match self.replaced.pop() {
                Some((key, Some(before))) => self.entries.insert(key, before),
                Some((key, None)) => self.entries.remove(&key),
                None => None,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Journal;

    #[test]
    fn a_journal_undoes_changes_in_their_order() {
        let mut journal = Journal::default();
        journal.insert(1, "one");
        let mark = journal.len();
        journal.insert(1, "uno");
        journal.insert(2, "two");
        journal.remove(1);
        journal.insert(1, "eins");
        journal.undo_to(mark);
        assert_eq!((journal.get(1), journal.get(2)), (Some(&"one"), None));
        journal.undo_to(0);
        assert_eq!(journal.get(1), None);
    }
}
