//! Which local of the new code holds which value.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::emit::Emitter;
use crate::machine::variable::VarId;
use crate::tracker::TrackerId;

/// The locals of the new code besides the arguments, and the arguments that are no longer in their slots.
#[derive(Default)]
pub(super) struct LocalSlots {
    made: FxHashMap<VarId, u32>,
    /// Number of locals that were added for objects of variables.
    added: usize,
    globals: FxHashMap<TrackerId, u32>,
    computed: FxHashMap<TrackerId, u32>,
    /// Arguments that have left their slots, with their present slots; `None` if the frame has dropped the argument.
    moved: FxHashMap<u32, Option<u32>>,
    /// Cell variables of the new code, by the cells that they are.
    pub(super) cells: FxHashMap<VarId, usize>,
}

impl LocalSlots {
    /// The local that holds a variable's object.
    pub(super) fn of(&self, variable: VarId) -> Option<u32> {
        self.made.get(&variable).copied()
    }

    /// True if a local holds the variable's object.
    pub(super) fn hold(&self, variable: VarId) -> bool {
        self.made.contains_key(&variable)
    }

    /// Adds a local for a variable's object.
    pub(super) fn add(&mut self, emitter: &mut Emitter, variable: VarId) -> u32 {
        let slot = emitter.new_local(&format!("___t{}", self.added));
        self.added += 1;
        self.made.insert(variable, slot);
        slot
    }

    /// Removes and returns the locals from `first` on that hold objects of variables which are not `wanted`.
    pub(super) fn remove_unless(&mut self, first: u32, wanted: impl Fn(VarId) -> bool) -> BTreeSet<u32> {
        let removed: Vec<VarId> =
            self.made.iter().filter(|(of, slot)| **slot >= first && !wanted(**of)).map(|(of, _)| *of).collect();
        removed.into_iter().filter_map(|of| self.made.remove(&of)).collect()
    }

    /// The locals that hold objects of variables.
    pub(super) fn all(&self) -> BTreeSet<u32> {
        self.made.values().copied().collect()
    }

    /// The local that holds globals loaded before the writes, which may change the place they are loaded from.
    pub(super) fn of_globals(&self, tracker: TrackerId) -> Option<u32> {
        self.globals.get(&tracker).copied()
    }

    /// Adds a local for globals.
    pub(super) fn add_globals(&mut self, emitter: &mut Emitter, tracker: TrackerId) -> u32 {
        let slot = emitter.new_local(&format!("___g{}", self.globals.len()));
        self.globals.insert(tracker, slot);
        slot
    }

    /// The local that holds a value which would be another object at each load.
    pub(super) fn of_computed(&self, tracker: TrackerId) -> Option<u32> {
        self.computed.get(&tracker).copied()
    }

    /// Adds a local for such a value.
    pub(super) fn add_computed(&mut self, emitter: &mut Emitter, tracker: TrackerId) -> u32 {
        let slot = emitter.new_local(&format!("___n{}", self.computed.len()));
        self.computed.insert(tracker, slot);
        slot
    }

    /// True if an argument is no longer in its slot.
    pub(super) fn has_moved(&self, argument: u32) -> bool {
        self.moved.contains_key(&argument)
    }

    /// The present slot of an argument; `None` if the frame has dropped it.
    pub(super) fn of_argument(&self, argument: u32) -> Option<u32> {
        self.moved.get(&argument).copied().unwrap_or(Some(argument))
    }

    /// Notes that an argument is in another slot from now on.
    pub(super) fn move_argument(&mut self, argument: u32, slot: u32) {
        self.moved.insert(argument, Some(slot));
    }

    /// Notes that the frame has dropped arguments.
    pub(super) fn drop_arguments(&mut self, arguments: impl IntoIterator<Item = u32>) {
        self.moved.extend(arguments.into_iter().map(|argument| (argument, None)));
    }
}
