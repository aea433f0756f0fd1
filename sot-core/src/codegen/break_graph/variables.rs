//! Puts the variables of the breaking frame into their own slots while the breaking instruction runs, because a
//! traceback may keep the frame and show them.

use std::ops::Range;

use pyo3::exceptions::PyBaseException;
use pyo3::types::PyType;

use super::BreakCodeGen;
use crate::bytecode::{Label, Op};
use crate::cpython;
use crate::error::Flow;
use crate::machine::opcode::{self, Access};
use crate::machine::variable::{Rebuild, VarId};
use crate::tracker::Tracker;

impl BreakCodeGen<'_, '_> {
    /// Stores the value of each variable into its own slot, and unbinds the slots of unbound variables. Variables in
    /// cells are in place already. If the slot of an argument changes, the argument is moved to another slot first,
    /// and values found through it are loaded from there.
    pub(super) fn show_variables(&mut self) -> Flow<()> {
        let arguments = self.cg.root.code.total_args();
        let mut changing = self.variables();
        changing.retain(|(slot, value)| match value {
            Some(value) => !self.is_there(*value, *slot),
            None => *slot < arguments,
        });
        for (slot, _) in &changing {
            let slot = *slot as u32;
            if (slot as usize) < arguments && !self.cg.slots.has_moved(slot) {
                let temp = self.cg.emitter.new_local(&format!("___a{slot}"));
                self.cg.op(Op::LOAD_FAST, slot)?;
                self.cg.op(Op::STORE_FAST, temp)?;
                self.cg.slots.move_argument(slot, temp);
            }
        }
        for (slot, value) in changing {
            match value {
                Some(value) => {
                    self.cg.load(value)?;
                    self.cg.op(Op::STORE_FAST, slot as u32)?;
                }
                None => self.cg.emitter.unset(vec![slot])?,
            }
        }
        Ok(())
    }

    /// Clears slots before the frame continues in a resume function with an exception whose traceback keeps the new
    /// code's frame. The frame keeps the function's variables, except for exceptions, whose traceback may lead back to
    /// this frame, and except for values with an observable destruction inside that the rest of the function may drop.
    pub(super) fn keep_shown(&mut self) -> Flow<()> {
        let keeps = |slot: usize, value: VarId| {
            let may_die = self.cg.trace.holds_observable(value) && self.may_be_written(slot);
            !may_die && !self.is_exception(value)
        };
        let variables = self.variables().into_iter();
        let gone: Vec<usize> = variables
            .filter(|(slot, value)| !value.is_some_and(|value| keeps(*slot, value)))
            .map(|(slot, _)| slot)
            .collect();
        self.cg.emitter.unset(gone)?;
        let others = self.other_slots();
        self.cg.emitter.unset(others)
    }

    /// True if the function may bind or delete the variable in this slot behind the breaking instruction.
    fn may_be_written(&self, slot: usize) -> bool {
        let frame = self.at.root();
        let instructions = &frame.unit.code.instructions;
        let mut first = frame.at.index();
        // Jumps may lead back to where a loop begins. Handlers come behind what they handle.
        while let Some(back) = instructions[first..].iter().filter_map(|one| one.target).map(Label::index).min() {
            if back >= first {
                break;
            }
            first = back;
        }
        let writes = |(access, at)| access != Access::Load && at as usize == slot;
        instructions[first..].iter().any(|one| opcode::describe(one.opcode).accesses(one.arg).any(writes))
    }

    fn is_exception(&self, value: VarId) -> bool {
        let ty = self.cg.trace.vars.get(value).python_type(self.cg.trace);
        ty.cast::<PyType>().is_ok_and(|ty| cpython::is_subtype(ty, &self.cg.trace.py.get_type::<PyBaseException>()))
    }

    /// Keeps values that the program has just dropped, if their destruction is observable, until earlier writes have
    /// been replayed. Returns the slots they are in.
    pub(super) fn keep_dropped(&mut self, dropped: &[VarId]) -> Flow<Vec<usize>> {
        let mut slots = Vec::new();
        for &value in dropped {
            let tracker = self.cg.trace.vars.tracker(value);
            let is_argument = matches!(self.cg.trace.trackers.get(tracker), Tracker::Local { .. });
            if is_argument || !self.cg.trace.trackers.is_sourced(tracker) || self.cg.slots.hold(value) {
                continue;
            }
            self.cg.load(value)?;
            slots.push(self.cg.emitter.store_new()? as usize);
        }
        Ok(slots)
    }

    /// Slots that are no variables of the function: values of the new code, and values given to a resume function.
    pub(super) fn other_slots(&self) -> Range<usize> {
        self.sources[0].unit.code.varnames.len()..self.cg.emitter.locals()
    }

    /// Slots of the variables that are in no cell, with their values.
    fn variables(&self) -> Vec<(usize, Option<VarId>)> {
        let (code, frame) = (&self.cg.root.code, self.at.root());
        let slots =
            (0..self.sources[0].unit.code.varnames.len()).filter(|slot| !code.cellvars.contains(&code.varnames[*slot]));
        let value =
            |slot: usize| frame.locals.get(slot).copied().flatten().filter(|value| *value != self.cg.trace.null());
        slots.map(|slot| (slot, value(slot))).collect()
    }

    /// True if the value is the argument in this slot.
    fn is_there(&self, value: VarId, slot: usize) -> bool {
        match self.cg.trace.trackers.get(self.cg.trace.vars.tracker(value)) {
            Tracker::Local { slot: own, .. } => {
                *own as usize == slot && !self.cg.slots.hold(value) && !self.cg.slots.has_moved(*own)
            }
            _ => false,
        }
    }
}
