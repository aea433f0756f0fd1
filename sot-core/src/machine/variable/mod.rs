//! Variables: what the simulation knows of Python values. A variable is an index into the arena of the translation,
//! which holds an immutable payload of a registered kind. A write replaces the payload and logs the old one, so that
//! a rollback replays the log backwards.

mod form;
mod kind;
mod rebuild;
mod value;

use std::any::Any;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::entity::TrackerId;

pub use crate::entity::VarId;
pub use form::Form;

pub use kind::{
    Factories, KindOverride, KindTable, OverriddenKind, OverridingWrap, VariableKind, Wrap, WrappedObjects,
};
pub use rebuild::{Argument, Rebuild};
pub use value::{Death, GraphArgument, Variable};

struct VariableSlot {
    payload: Rc<dyn Variable>,
    tracker: TrackerId,
    looked_at: bool,
}

/// The variables of one translation.
#[derive(Default)]
pub struct Variables {
    slots: Vec<VariableSlot>,
    undo: Vec<(VarId, Rc<dyn Variable>)>,
    /// The variables that have a storage, by the storage. A rollback leaves entries behind.
    owners: FxHashMap<VarId, VarId>,
}

/// A state of the arena that can be rolled back to.
#[derive(Clone, Copy, Debug, Default)]
pub struct VariablesMark {
    slots: usize,
    undo: usize,
}

impl VariablesMark {
    /// The variable that was made first after the mark.
    pub fn next_id(self) -> VarId {
        VarId(self.slots as u32)
    }
}

impl Variables {
    /// Adds a variable.
    pub fn add(&mut self, payload: Rc<dyn Variable>, tracker: TrackerId) -> VarId {
        let id = self.next_id();
        self.note_storage(id, &*payload);
        self.slots.push(VariableSlot { payload, tracker, looked_at: false });
        id
    }

    fn note_storage(&mut self, owner: VarId, payload: &dyn Variable) {
        if let Some(storage) = payload.storage() {
            self.owners.insert(storage, owner);
        }
    }

    /// Returns the variable whose storage this is, if it is one.
    pub fn owner_of_storage(&self, storage: VarId) -> Option<VarId> {
        let owner = *self.owners.get(&storage)?;
        // The owner may have been rolled back since.
        let slot = self.slots.get(owner.0 as usize)?;
        (slot.payload.storage() == Some(storage)).then_some(owner)
    }

    /// Returns the payload of the variable.
    pub fn get(&self, id: VarId) -> Rc<dyn Variable> {
        Rc::clone(&self.slots[id.0 as usize].payload)
    }

    /// Returns the payload of the variable, if its type is `T`.
    pub fn as_kind<T: Variable>(&self, id: VarId) -> Option<Rc<T>> {
        let payload = &self.slots[id.0 as usize].payload;
        // Most values asked for are of another type, and a reference taken for nothing costs more than the question.
        let any: &dyn Any = &**payload;
        if !any.is::<T>() {
            return None;
        }
        let payload: Rc<dyn Any> = Rc::<dyn Variable>::clone(payload);
        payload.downcast::<T>().ok()
    }

    /// Replaces the payload of the variable.
    pub fn set(&mut self, id: VarId, payload: Rc<dyn Variable>) {
        self.note_storage(id, &*payload);
        let old = std::mem::replace(&mut self.slots[id.0 as usize].payload, payload);
        self.undo.push((id, old));
    }

    /// Returns the tracker of the variable.
    pub fn tracker(&self, id: VarId) -> TrackerId {
        self.slots[id.0 as usize].tracker
    }

    /// True if the payload was ever replaced.
    pub fn is_mutated(&self, id: VarId) -> bool {
        self.undo.iter().any(|(changed, _)| *changed == id)
    }

    /// True if the payload was replaced later than that of `other`.
    pub fn is_changed_after(&self, id: VarId, other: VarId) -> bool {
        let last = |id| self.undo.iter().rposition(|(changed, _)| *changed == id);
        last(id) > last(other)
    }

    /// All variables with their payloads.
    pub fn iter(&self) -> impl Iterator<Item = (VarId, &Rc<dyn Variable>)> {
        self.slots.iter().enumerate().map(|(index, slot)| (VarId(index as u32), &slot.payload))
    }

    /// Marks the variable as looked at. Returns whether it was before.
    pub fn look(&mut self, id: VarId) -> bool {
        std::mem::replace(&mut self.slots[id.0 as usize].looked_at, true)
    }

    /// The id of the next variable to be added.
    pub fn next_id(&self) -> VarId {
        VarId(self.slots.len() as u32)
    }

    /// Returns a mark of the present state.
    pub fn mark(&self) -> VariablesMark {
        VariablesMark { slots: self.slots.len(), undo: self.undo.len() }
    }

    /// Rolls back to an earlier state.
    pub fn roll_back(&mut self, mark: VariablesMark) {
        while self.undo.len() > mark.undo {
            if let Some((id, payload)) = self.undo.pop() {
                self.slots[id.0 as usize].payload = payload;
            }
        }
        self.slots.truncate(mark.slots);
        // A variable that is looked at again adds its guards again, which is harmless: each guard is kept once.
        self.slots.iter_mut().for_each(|slot| slot.looked_at = false);
    }
}
