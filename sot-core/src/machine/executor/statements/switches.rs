//! Global state of the framework that the program changes inside the trace (`no_grad`, `auto_cast`). The state is
//! changed for real while the simulation lasts, because the backend builds statements and answers questions under it,
//! and is always restored.

use std::rc::Rc;

use pyo3::prelude::*;

use crate::backend::StateTest;
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::executor::{folding, warnings, CallArgs, OpcodeExecutor};
use crate::machine::variable::VarId;
use crate::side_effects::Effect;
use crate::tracker;

/// Restores a state that does not belong to the framework.
type RestoreState = Box<dyn FnOnce(Python<'_>) -> PyResult<()>>;

/// The framework's state before each switch of the trace, and how other states are restored.
pub struct Switches<'py> {
    py: Python<'py>,
    before: Vec<Box<dyn StateTest>>,
    others: Vec<RestoreState>,
}

impl<'py> Switches<'py> {
    pub(in crate::machine::executor) fn new(py: Python<'py>) -> Self {
        Switches { py, before: Vec::new(), others: Vec::new() }
    }

    /// True if the trace has switched anything.
    pub fn any(&self) -> bool {
        !self.before.is_empty()
    }

    /// Restores the state that was in force when the frame was entered, in which its graph will run.
    pub(crate) fn undo(&mut self) -> PyResult<()> {
        while let Some(put_back) = self.others.pop() {
            put_back(self.py)?;
        }
        match std::mem::take(&mut self.before).first() {
            Some(entered) => entered.restore(self.py),
            None => Ok(()),
        }
    }
}

impl Switches<'_> {
    /// Notes how to restore a state that does not belong to the framework, and that the trace is about to switch.
    pub fn put_back_later(&mut self, put_back: RestoreState) {
        self.others.push(put_back);
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
    /// Calls a function that switches global state, now and again in the new code.
    pub fn switch(&mut self, callable: VarId, function: &Bound<'py, PyAny>, args: &CallArgs) -> Flow<VarId> {
        let Some((positional, keywords)) = self.materialize_args(args)? else {
            let name = tracker::name(function);
            return Err(Unwind::break_graph(
                ReasonId::UnsupportedCall,
                format!("{name} of values not known while tracing"),
            ));
        };
        let before = self.runtime.ask_backend(|backend| backend.state_test(self.py))?;
        let result = warnings::unwarned(self.py, || function.call(positional, Some(&keywords)))?;
        let result = folding::outcome(self, result);
        if !before.check(self.py) {
            self.switches.before.push(before);
            let (args, keywords) = (args.positional.clone(), args.keywords.clone());
            self.trace.effects.record(Effect::Call { callable, args, keywords });
        }
        result
    }

    /// Enters a context manager that changes global state, now and again in the new code by its method `enter`.
    /// Returns the state before and the result of `__enter__`. The manager itself is left at once, so that the order
    /// in which managers are left or destroyed does not affect the state of the trace.
    pub fn enter_state(&mut self, manager: &Bound<'py, PyAny>, enter: VarId) -> Flow<(Rc<dyn StateTest>, VarId)> {
        let before = self.runtime.ask_backend(|backend| backend.state_test(self.py))?;
        let result = warnings::unwarned(self.py, || manager.call_method0("__enter__"))?;
        let result = folding::outcome(self, result)?;
        let entered = self.runtime.ask_backend(|backend| backend.state_test(self.py))?;
        manager.call_method1("__exit__", (self.py.None(), self.py.None(), self.py.None()))?;
        self.switches.before.push(self.runtime.ask_backend(|backend| backend.state_test(self.py))?);
        entered.restore(self.py)?;
        self.trace.effects.record(Effect::Call { callable: enter, args: Vec::new(), keywords: Vec::new() });
        Ok((Rc::from(before), result))
    }

    /// Leaves a manager entered by [`OpcodeExecutor::enter_state`], and again in the new code by its method `exit`.
    pub fn leave_state(&mut self, before: &dyn StateTest, exit: VarId) -> Flow<()> {
        before.restore(self.py)?;
        let args = vec![self.trace.none(), self.trace.none(), self.trace.none()];
        self.trace.effects.record(Effect::Call { callable: exit, args, keywords: Vec::new() });
        Ok(())
    }
}
