//! The stores of one trace: what a simulation has recorded so far, without the machine that simulates. Code generation
//! and the texts of values read only these. [Why](../../../../../docs/decisions/41-stores-of-a-trace.md).

use std::rc::Rc;

use pyo3::prelude::*;

use super::rollback::{Marks, Reversible};
use crate::compiler;
use crate::error::Flow;
use crate::graph::FunctionGraph;
use crate::guard::Guards;
use crate::machine::executor::lifetimes::observable_drops::ObservableDrops;
use crate::machine::executor::{History, IdentityMap, Raised};
use crate::machine::runtime::Runtime;
use crate::machine::variable::{VarId, Variables};
use crate::side_effects::SideEffects;
use crate::tracker::{Tracker, Trackers};

/// The stores of one trace: its values, where they come from, and what is assumed, computed and written.
pub struct Trace<'py> {
    /// The interpreter.
    pub py: Python<'py>,
    /// The frozen registries.
    pub runtime: &'static Runtime,
    /// Facts from earlier calls.
    pub(crate) history: Rc<History>,
    /// The variables.
    pub vars: Variables,
    /// Where the variables' values come from.
    pub trackers: Trackers,
    /// The variable of each object.
    pub identities: IdentityMap,
    /// The assumptions about the values.
    pub guards: Guards,
    /// The tensor operations.
    pub graph: FunctionGraph<'py>,
    /// The writes and calls that new code replays.
    pub effects: SideEffects,
    /// The exceptions that the trace has raised.
    pub raised: Raised,
    pub(in crate::machine::executor) observable_drops: ObservableDrops,
    null: VarId,
}

impl<'py> Trace<'py> {
    /// Begins a trace. It assumes the framework's present state.
    pub(in crate::machine::executor) fn new(
        py: Python<'py>,
        runtime: &'static Runtime,
        history: Rc<History>,
    ) -> Flow<Self> {
        let mut vars = Variables::default();
        let mut trackers = Trackers::default();
        let produced = trackers.add(Tracker::Produced);
        let null = vars.add((runtime.factories.null)(), produced);
        let mut guards = Guards::default();
        guards.add_state(runtime.ask_backend(|backend| backend.state_test(py))?);
        if let Some(test) = compiler::test(py) {
            guards.add_state(test);
        }
        Ok(Trace {
            py,
            runtime,
            history,
            vars,
            trackers,
            identities: IdentityMap::default(),
            guards,
            graph: FunctionGraph::new(py, runtime.backend()),
            effects: SideEffects::default(),
            raised: Raised::default(),
            observable_drops: ObservableDrops::default(),
            null,
        })
    }

    /// The NULL that calls have on the value stack.
    pub fn null(&self) -> VarId {
        self.null
    }

    /// The text of a value, for logs.
    pub fn text(&self, id: VarId) -> String {
        self.vars.get(id).text(self)
    }

    /// Marks the present state of all stores that can be rolled back.
    pub(in crate::machine::executor) fn marks(&self) -> Marks {
        Marks {
            vars: Reversible::mark(&self.vars),
            effects: Reversible::mark(&self.effects),
            graph: Reversible::mark(&self.graph),
            identities: Reversible::mark(&self.identities),
            raised: Reversible::mark(&self.raised),
            observable_drops: Reversible::mark(&self.observable_drops),
        }
    }

    /// Rolls these stores back. Guards remain: what the trace has looked at, it assumes.
    pub(in crate::machine::executor) fn go_back(&mut self, marks: Marks) {
        let Marks { vars, effects, graph, identities, raised, observable_drops } = marks;
        let first_gone = vars.next_id();
        self.vars.go_back(vars, first_gone);
        self.effects.go_back(effects, first_gone);
        self.graph.go_back(graph, first_gone);
        self.identities.go_back(identities, first_gone);
        self.raised.go_back(raised, first_gone);
        self.observable_drops.go_back(observable_drops, first_gone);
    }
}
