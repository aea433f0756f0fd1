//! The order of overrides, which is the same for opcodes, builtins and kinds: the one with the highest priority is
//! asked first and is given all the others as `next`; of two with the same priority the order is that of the names of
//! their crates, then of file and line. What was registered without `override` comes last.

use std::cmp::Reverse;

use crate::error::RegistrationError;
use crate::origin::Registered;

/// What is put before a registration.
pub(crate) trait Override: Registered {
    /// Higher is asked first; 0 unless it says something else.
    fn priority(&self) -> i32;
}

/// Sorts overrides of one thing, the first to be asked first.
pub(crate) fn sort<T: Override>(overrides: &mut [&'static T]) {
    overrides.sort_by_key(|one| (Reverse(one.priority()), one.linked().origin));
}

/// The error of a registration.
pub(crate) fn error(of: &impl Registered, what: impl Into<String>) -> RegistrationError {
    RegistrationError { what: what.into(), origin: of.linked().origin }
}
