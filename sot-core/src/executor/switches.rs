//! Global state of the framework that the program switches inside the trace (`no_grad`). It is switched for real as long as
//! the simulation lasts, since the backend builds statements and answers questions under it, and always put back.

use pyo3::prelude::*;

use super::{CallArgs, OpcodeExecutor};
use crate::backend::StateTest;
use crate::error::{Flow, ReasonId, Unwind};
use crate::side_effects::Effect;
use crate::tracker;
use crate::variable::VarId;

/// The state as it was before each switch of the trace.
pub struct Switches<'py> {
    py: Python<'py>,
    before: Vec<Box<dyn StateTest>>,
}

impl<'py> Switches<'py> {
    pub(super) fn new(py: Python<'py>) -> Self {
        Switches { py, before: Vec::new() }
    }

    /// Puts the state back to what it was when the frame was entered, where its graph will run.
    pub fn undo(&mut self) -> PyResult<()> {
        match std::mem::take(&mut self.before).first() {
            Some(entered) => entered.restore(self.py),
            None => Ok(()),
        }
    }
}

impl Drop for Switches<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.undo() {
            error.write_unraisable(self.py, None);
        }
    }
}

impl<'py> OpcodeExecutor<'py> {
    /// Calls what switches global state, now and again in the new code.
    pub fn switch(&mut self, callable: VarId, function: &Bound<'py, PyAny>, args: &CallArgs) -> Flow<VarId> {
        let Some((positional, keywords)) = self.materialize_args(args)? else {
            let name = tracker::name(function);
            return Err(Unwind::break_graph(
                ReasonId::UnsupportedCall,
                format!("{name} of values not known while tracing"),
            ));
        };
        let before = self.runtime.backend.state_test(self.py)?;
        let result = self.fold(|_| function.call(positional, Some(&keywords)));
        if !before.check(self.py) {
            self.switches.before.push(before);
            let (args, keywords) = (args.positional.clone(), args.keywords.clone());
            self.effects.record(Effect::Call { callable, args, keywords });
        }
        result
    }
}
