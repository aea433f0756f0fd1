//! The variables of the frame that breaks lie in their own slots while the breaking instruction runs, as a traceback may keep the frame.

use super::super::CodeGen;
use crate::error::Flow;
use crate::executor::Checkpoint;
use crate::tracker::Tracker;
use crate::variable::VarId;

impl CodeGen<'_, '_> {
    /// Each variable of the frame has its value in its own slot, one without a value has none. Variables in cells are there already.
    pub(super) fn show_variables(&mut self, frame: &Checkpoint, live: &[VarId]) -> Flow<()> {
        let variables = self.variables(frame);
        for &value in live {
            let slot = self.argument_of(value);
            let moves = slot.and_then(|slot| variables.iter().find(|(own, _)| *own == slot));
            if moves.is_some_and(|(_, now)| *now != Some(value)) {
                self.keep(value)?;
                // What is found by way of it, such as its type, is loaded from there, too.
                self.taken.insert(self.cx.vars.tracker(value), self.temps[&value]);
            }
        }
        let arguments = self.root.code.total_args();
        for (slot, value) in variables {
            match value {
                Some(value) if self.argument_of(value) == Some(slot) => {}
                Some(value) => {
                    self.load(value)?;
                    self.op("STORE_FAST", slot as u32)?;
                }
                None if slot < arguments => self.unset(vec![slot])?,
                None => {}
            }
        }
        Ok(())
    }

    /// The slots of the variables that are in no cell, with what they have.
    fn variables(&self, frame: &Checkpoint) -> Vec<(usize, Option<VarId>)> {
        let code = &self.root.code;
        let slots = (0..code.varnames.len()).filter(|slot| !code.cellvars.contains(&code.varnames[*slot]));
        let value = |slot: usize| frame.locals.get(slot).copied().flatten().filter(|value| *value != self.cx.null());
        slots.map(|slot| (slot, value(slot))).collect()
    }

    /// The slot of the argument that a value is loaded from.
    fn argument_of(&self, value: VarId) -> Option<usize> {
        match self.cx.trackers.get(self.cx.vars.tracker(value)) {
            Tracker::Local { slot, .. } if !self.temps.contains_key(&value) => Some(*slot as usize),
            _ => None,
        }
    }
}
