//! Variables: what the simulation knows of a Python value. A variable is an index into the translation's arena, which
//! holds an immutable payload of a registered kind. A write replaces the payload and logs the old one, so that
//! simulation is undone by rolling the log back.

mod form;
mod kind;
mod rebuild;
mod value;

use std::any::Any;
use std::rc::Rc;

use crate::entity::TrackerId;

pub use crate::entity::VarId;
pub use form::Form;

pub use kind::{Factories, KindClaim, KindOverride, KindTable, OverriddenKind, OverridingWrap, VariableKind, Wrap};
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
}

/// A point the arena can be rolled back to.
#[derive(Clone, Copy, Debug, Default)]
pub struct VariablesMark {
    slots: usize,
    undo: usize,
}

impl VariablesMark {
    /// The variable that was made next.
    pub fn next_id(self) -> VarId {
        VarId(self.slots as u32)
    }
}

impl Variables {
    /// A new variable.
    pub fn add(&mut self, payload: Rc<dyn Variable>, tracker: TrackerId) -> VarId {
        self.slots.push(VariableSlot { payload, tracker, looked_at: false });
        VarId(self.slots.len() as u32 - 1)
    }

    /// What the variable holds now.
    pub fn get(&self, id: VarId) -> Rc<dyn Variable> {
        Rc::clone(&self.slots[id.0 as usize].payload)
    }

    /// What the variable holds now, if it is of type `T`.
    pub fn as_kind<T: Variable>(&self, id: VarId) -> Option<Rc<T>> {
        let payload: Rc<dyn Any> = self.get(id);
        payload.downcast::<T>().ok()
    }

    /// Replaces what the variable holds.
    pub fn set(&mut self, id: VarId, payload: Rc<dyn Variable>) {
        let old = std::mem::replace(&mut self.slots[id.0 as usize].payload, payload);
        self.undo.push((id, old));
    }

    /// Where the variable comes from.
    pub fn tracker(&self, id: VarId) -> TrackerId {
        self.slots[id.0 as usize].tracker
    }

    /// Whether the payload was ever replaced.
    pub fn is_mutated(&self, id: VarId) -> bool {
        self.undo.iter().any(|(changed, _)| *changed == id)
    }

    /// Whether the payload was replaced since that of another variable was.
    pub fn is_changed_after(&self, id: VarId, other: VarId) -> bool {
        let last = |id| self.undo.iter().rposition(|(changed, _)| *changed == id);
        last(id) > last(other)
    }

    /// All variables, with what they hold now.
    pub fn iter(&self) -> impl Iterator<Item = (VarId, &Rc<dyn Variable>)> {
        self.slots.iter().enumerate().map(|(index, slot)| (VarId(index as u32), &slot.payload))
    }

    /// Marks the variable as looked at; says whether it was before.
    pub fn look(&mut self, id: VarId) -> bool {
        std::mem::replace(&mut self.slots[id.0 as usize].looked_at, true)
    }

    /// The variable that would be made next.
    pub fn next_id(&self) -> VarId {
        VarId(self.slots.len() as u32)
    }

    /// The present state.
    pub fn mark(&self) -> VariablesMark {
        VariablesMark { slots: self.slots.len(), undo: self.undo.len() }
    }

    /// Back to an earlier state.
    pub fn roll_back(&mut self, mark: VariablesMark) {
        while self.undo.len() > mark.undo {
            if let Some((id, payload)) = self.undo.pop() {
                self.slots[id.0 as usize].payload = payload;
            }
        }
        self.slots.truncate(mark.slots);
        // What is looked at again earns its guards again; guards are kept once, so asking twice is harmless.
        self.slots.iter_mut().for_each(|slot| slot.looked_at = false);
    }
}
