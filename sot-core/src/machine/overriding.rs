//! The order of overrides, for opcodes, builtins and kinds alike. The override with the highest priority is called
//! first and is given the rest as `next`. Overrides of one priority are ordered by the name of their crate, then by
//! file and line. The registration without `override` comes last.

use std::cmp::Reverse;

use crate::error::RegistrationError;
use crate::origin::Registered;

/// A registration that overrides another one.
pub(crate) trait Override: Registered {
    /// Overrides with a higher priority are called first; the default is 0.
    fn priority(&self) -> i32;
}

/// Sorts the overrides of one registration, the first to be called first.
pub(crate) fn sort<T: Override>(overrides: &mut [&'static T]) {
    overrides.sort_by_key(|one| (Reverse(one.priority()), one.linked().origin));
}

/// Makes the error of a registration.
pub(crate) fn error(of: &impl Registered, what: impl Into<String>) -> RegistrationError {
    RegistrationError { what: what.into(), origin: of.linked().origin }
}
