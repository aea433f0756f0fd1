//! Context managers of the framework that change global state (such as `auto_cast`). The state is changed while
//! tracing the `with` block. New code makes the manager, and enters and leaves it where the program does.

use std::rc::Rc;

use crate::iterators::or_object_type;
use pyo3::prelude::*;
use sot_core::backend::StateTest;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::tracker;
use sot_core::variable::Rebuild;
use sot_core::variable::{VarId, Variable};

sot_core::variable_kind! { "state_manager" }
sot_core::variable_kind! { "state_manager_method" }

/// A manager made in the trace.
pub struct StateManagerVariable {
    made_by: VarId,
    args: CallArgs,
    manager: Py<PyAny>,
    state: ManagerState,
}

#[derive(Clone)]
enum ManagerState {
    NotEntered,
    /// Entered; holds the state before.
    Entered(Rc<dyn StateTest>),
    Exited,
}

impl StateManagerVariable {
    /// Makes a manager by `callable(...)`, for which the backend has answered `CallPolicy::Manager`.
    pub fn make<'py>(
        cx: &mut OpcodeExecutor<'py>,
        made_by: VarId,
        callable: &Bound<'py, PyAny>,
        args: &CallArgs,
    ) -> Flow<VarId> {
        let Some((positional, keywords)) = cx.materialize_args(args)? else {
            let name = tracker::name(callable);
            return Err(Unwind::break_graph(
                ReasonId::UnsupportedCall,
                format!("{name} of values not known while tracing"),
            ));
        };
        let manager = match callable.call(positional, Some(&keywords)) {
            Ok(manager) => manager.unbind(),
            Err(error) => return Err(cx.raise(error)),
        };
        Ok(cx.trace.produce(Rc::new(StateManagerVariable {
            made_by,
            args: args.clone(),
            manager,
            state: ManagerState::NotEntered,
        })))
    }

    fn set(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, state: ManagerState) {
        let (made_by, args, manager) = (self.made_by, self.args.clone(), self.manager.clone_ref(cx.py));
        cx.trace.vars.set(this, Rc::new(StateManagerVariable { made_by, args, manager, state }));
    }
}

impl Variable for StateManagerVariable {
    fn kind(&self) -> &'static str {
        "state_manager"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.manager.bind(trace.py).get_type().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("StateManagerVariable({})", trace.text(self.made_by))
    }

    fn children(&self) -> Vec<VarId> {
        let keywords = self.args.keywords.iter().map(|(_, arg)| *arg);
        std::iter::once(self.made_by).chain(self.args.positional.iter().copied()).chain(keywords).collect()
    }

    fn special(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str) -> Flow<Option<VarId>> {
        let enters = match name {
            "__enter__" => true,
            "__exit__" => false,
            _ => return Ok(None),
        };
        Ok(Some(cx.trace.produce(Rc::new(ManagerMethodVariable { manager: this, enters }))))
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        match self.special(cx, this, name)? {
            Some(method) => Ok(Some(method)),
            None => Err(Unwind::break_graph(
                ReasonId::UnsupportedAttribute,
                format!("attribute '{name}' of a context manager of the framework"),
            )),
        }
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        cg.call_with(self.made_by.into(), &self.args)
    }
}

/// The bound `__enter__` or `__exit__` of a manager.
struct ManagerMethodVariable {
    manager: VarId,
    enters: bool,
}

impl ManagerMethodVariable {
    fn name(&self) -> &'static str {
        if self.enters {
            "__enter__"
        } else {
            "__exit__"
        }
    }
}

impl Variable for ManagerMethodVariable {
    fn kind(&self) -> &'static str {
        "state_manager_method"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        let method = cpython::import(trace.py, "types").and_then(|types| types.getattr("MethodType"));
        or_object_type(trace, method)
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("ManagerMethodVariable({}, {})", self.name(), trace.text(self.manager))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.manager]
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, _: &CallArgs) -> Flow<VarId> {
        let Some(manager) = cx.trace.vars.as_kind::<StateManagerVariable>(self.manager) else {
            return Err(Unwind::break_graph(
                ReasonId::UnsupportedCall,
                "a method of a context manager whose variable has been replaced",
            ));
        };
        match (&manager.state, self.enters) {
            (ManagerState::NotEntered, true) => {
                let object = manager.manager.bind(cx.py).clone();
                let (before, result) = cx.enter_state(&object, this)?;
                manager.set(cx, self.manager, ManagerState::Entered(before));
                Ok(result)
            }
            (ManagerState::Entered(before), false) => {
                cx.leave_state(&**before, this)?;
                manager.set(cx, self.manager, ManagerState::Exited);
                Ok(cx.trace.boolean(false))
            }
            _ => Err(Unwind::break_graph(
                ReasonId::UnsupportedCall,
                format!("{} of a context manager in the wrong order", self.name()),
            )),
        }
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        cg.load(self.manager)?;
        cg.load_attr(self.name())
    }
}
