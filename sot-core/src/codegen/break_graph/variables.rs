//! The variables of the frame that breaks lie in their own slots while the breaking instruction runs, as a traceback may keep the frame.

use pyo3::exceptions::PyBaseException;
use pyo3::types::PyType;

use super::super::CodeGen;
use crate::cpython;
use crate::error::Flow;
use crate::executor::Checkpoint;
use crate::bytecode::Op;
use crate::tracker::Tracker;
use crate::variable::VarId;

impl CodeGen<'_, '_> {
    /// Each variable of the frame has its value in its own slot, one without a value has none. Variables in cells are there already.
    /// An argument whose slot changes moves to another first, from where all that is found by way of it is loaded.
    pub(super) fn show_variables(&mut self, frame: &Checkpoint) -> Flow<()> {
        let arguments = self.root.code.total_args();
        let mut changing = self.variables(frame);
        changing.retain(|(slot, value)| match value {
            Some(value) => !self.is_there(*value, *slot),
            None => *slot < arguments,
        });
        for (slot, _) in &changing {
            let slot = *slot as u32;
            if (slot as usize) < arguments && !self.moved.contains_key(&slot) {
                let temp = self.emitter.new_local(&format!("___a{slot}"));
                self.op(Op::LOAD_FAST, slot)?;
                self.op(Op::STORE_FAST, temp)?;
                self.moved.insert(slot, Some(temp));
            }
        }
        for (slot, value) in changing {
            match value {
                Some(value) => {
                    self.load(value)?;
                    self.op(Op::STORE_FAST, slot as u32)?;
                }
                None => self.unset(vec![slot])?,
            }
        }
        Ok(())
    }

    /// The frame goes on in a resume function with an exception whose traceback keeps the frame of the new code. It has the function's
    /// variables still, but for those with which something goes that shows it, and exceptions, which may have led here.
    pub(in crate::codegen) fn keep_shown(&mut self, frame: &Checkpoint) -> Flow<()> {
        let keeps = |value: &VarId| !self.cx.shows_inside(*value) && !self.is_exception(*value);
        let variables = self.variables(frame).into_iter();
        let gone = variables.filter(|(_, value)| !value.as_ref().is_some_and(keeps)).map(|(slot, _)| slot).collect();
        self.unset(gone)?;
        self.unset(self.value_slots().collect())
    }

    fn is_exception(&self, value: VarId) -> bool {
        let ty = self.cx.vars.get(value).python_type(self.cx);
        ty.cast::<PyType>().is_ok_and(|ty| cpython::is_subtype(ty, &self.cx.py.get_type::<PyBaseException>()))
    }

    /// The slots of the variables that are in no cell, with what they have.
    fn variables(&self, frame: &Checkpoint) -> Vec<(usize, Option<VarId>)> {
        let code = &self.root.code;
        let slots = (0..code.varnames.len()).filter(|slot| !code.cellvars.contains(&code.varnames[*slot]));
        let value = |slot: usize| frame.locals.get(slot).copied().flatten().filter(|value| *value != self.cx.null());
        slots.map(|slot| (slot, value(slot))).collect()
    }

    /// Whether the value is the argument that is in the slot.
    fn is_there(&self, value: VarId, slot: usize) -> bool {
        match self.cx.trackers.get(self.cx.vars.tracker(value)) {
            Tracker::Local { slot: own, .. } => {
                *own as usize == slot && !self.temps.contains_key(&value) && !self.moved.contains_key(own)
            }
            _ => false,
        }
    }
}
