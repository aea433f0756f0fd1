//! Overrides of builtin handlers.

use linkme::distributed_slice;

use super::{Builtin, BuiltinHandler};
use crate::error::Flow;
use crate::fault;
use crate::machine::executor::{CallArgs, OpcodeExecutor};
use crate::machine::overriding::Override;
use crate::machine::variable::VarId;
use crate::origin::{Linked, Registered, RegistrationOrigin};

/// The function of an override.
pub type OverridingBuiltin = fn(&mut OpcodeExecutor<'_>, &CallArgs, &OverriddenBuiltin<'_>) -> Flow<VarId>;

/// A registration that is asked before the handler of a builtin.
pub struct BuiltinOverride {
    /// The path, as that of a [`Builtin`].
    pub path: &'static str,
    /// Whether some interpreters lack it.
    pub is_optional: bool,
    /// Higher is asked first.
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
    fn linked(&self) -> Linked {
        Linked { registry: "builtin override", name: self.path, origin: self.origin }
    }
}

impl Override for BuiltinOverride {
    fn priority(&self) -> i32 {
        self.priority
    }
}

/// What an override stands before.
pub struct OverriddenBuiltin<'a> {
    builtin: &'static Builtin,
    rest: &'a [&'static BuiltinOverride],
}

impl OverriddenBuiltin<'_> {
    /// Simulates the call as it would be without this override, with these arguments.
    pub fn call(&self, cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
        match self.rest.split_first() {
            Some((first, rest)) => {
                let next = OverriddenBuiltin { builtin: self.builtin, rest };
                fault::running(*first, || (first.handler)(cx, args, &next))
            }
            None => {
                let handler: BuiltinHandler = self.builtin.handler;
                fault::running(self.builtin, || handler(cx, args))
            }
        }
    }
}

/// The handler of an object, with what overrides it.
pub(super) struct Handlers {
    pub(super) builtin: &'static Builtin,
    /// The first to be asked first.
    pub(super) overrides: Vec<&'static BuiltinOverride>,
}

impl Handlers {
    pub(super) fn call(&self, cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
        OverriddenBuiltin { builtin: self.builtin, rest: &self.overrides }.call(cx, args)
    }
}
