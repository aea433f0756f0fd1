//! Overrides of builtin handlers.

use linkme::distributed_slice;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::{Builtin, BuiltinHandler};
use crate::cpython;
use crate::error::Flow;
use crate::fault;
use crate::machine::executor::{CallArgs, OpcodeExecutor, Trace};
use crate::machine::overriding::Override;
use crate::machine::variable::VarId;
use crate::origin::{self, LinkedRegistration, Registered, RegistrationOrigin};
use crate::tracker;

/// Simulates one call in the place of a handler, which it may call.
pub type OverridingBuiltin = fn(&mut OpcodeExecutor<'_>, &CallArgs, &OverriddenBuiltin<'_>) -> Flow<VarId>;

/// A registration that is called before the handler of a builtin.
pub struct BuiltinOverride {
    /// Path, as in a [`Builtin`].
    pub path: &'static str,
    /// True if some supported interpreters lack the path.
    pub is_optional: bool,
    /// Overrides with a higher priority are called first.
    pub priority: i32,
    /// The simulation.
    pub handler: OverridingBuiltin,
    /// Where it is registered.
    pub origin: RegistrationOrigin,
}

/// Every override linked into the program.
#[distributed_slice]
pub static BUILTIN_OVERRIDES: [BuiltinOverride];

impl Registered for BuiltinOverride {
    fn linked(&self) -> LinkedRegistration {
        LinkedRegistration { registry: "builtin override", name: self.path, origin: self.origin }
    }
}

impl Override for BuiltinOverride {
    fn priority(&self) -> i32 {
        self.priority
    }
}

/// The overrides and the handler that come after an override.
pub struct OverriddenBuiltin<'a> {
    builtin: &'static Builtin,
    rest: &'a [&'static BuiltinOverride],
}

impl OverriddenBuiltin<'_> {
    /// Simulates the call with these arguments as it would be without this override.
    pub fn call(&self, cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
        match self.rest.split_first() {
            Some((first, rest)) => {
                let next = OverriddenBuiltin { builtin: self.builtin, rest };
                cx.run_registered(*first, |cx| (first.handler)(cx, args, &next))
            }
            None => {
                let handler: BuiltinHandler = self.builtin.handler;
                cx.run_registered(self.builtin, |cx| handler(cx, args))
            }
        }
    }
}

/// The handler of an object and its overrides.
pub(super) struct Handlers {
    pub(super) builtin: &'static Builtin,
    /// The type of all results of the builtin, where CPython fixes one.
    pub(super) gives: Option<Py<PyType>>,
    /// The overrides, the first to be called first.
    pub(super) overrides: Vec<&'static BuiltinOverride>,
}

impl Handlers {
    pub(super) fn call(&self, cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
        let result = OverriddenBuiltin { builtin: self.builtin, rest: &self.overrides }.call(cx, args)?;
        let asked = self.overrides.first().map_or_else(|| self.builtin.linked(), |first| first.linked());
        if origin::is_of_the_tracer(asked.origin.krate) {
            return Ok(result);
        }
        fault::running(&asked, || self.refuse_other(&cx.trace, result))
    }

    /// Refuses a result whose type no call of the builtin can have, which only a plug-in's handler returns.
    fn refuse_other(&self, trace: &Trace<'_>, result: VarId) -> Flow<VarId> {
        let said = trace.vars.get(result).python_type(trace);
        let Some(gives) = self.gives.as_ref().map(|gives| gives.bind(trace.py)) else { return Ok(result) };
        if said.cast::<PyType>().is_ok_and(|said| cpython::is_subtype(said, gives)) {
            return Ok(result);
        }
        let (path, gives, said) = (self.builtin.path, tracker::name(gives.as_any()), tracker::name(&said));
        Err(PyTypeError::new_err(format!("{path}() gives a {gives}, and its handler a {said}")).into())
    }
}
