//! All registrations that are linked into the program, with the places of their source code.

use crate::error::LinkedReason;
use crate::machine::builtin::{BUILTINS, BUILTIN_OVERRIDES};
use crate::machine::observer::ObserverRegistration;
use crate::machine::opcode::{OpcodeHandler, OpcodeOverride};
use crate::machine::runtime::BackendRegistration;
use crate::machine::variable::{KindOverride, VariableKind};
use crate::origin::Registered;
use crate::version::PyVersion;

pub use crate::origin::LinkedRegistration;

/// Returns all registrations, sorted; of opcodes only those for `version`.
pub fn linked(version: PyVersion) -> Vec<LinkedRegistration> {
    let opcodes = inventory::iter::<OpcodeHandler>.into_iter().filter(|opcode| opcode.versions.contains(version));
    let of_opcodes = inventory::iter::<OpcodeOverride>.into_iter().filter(|one| one.versions.contains(version));
    let mut all: Vec<LinkedRegistration> = places(opcodes);
    all.extend(places(of_opcodes));
    all.extend(places(inventory::iter::<VariableKind>));
    all.extend(places(inventory::iter::<KindOverride>));
    all.extend(places(BUILTINS.iter()));
    all.extend(places(BUILTIN_OVERRIDES.iter()));
    all.extend(places(inventory::iter::<BackendRegistration>));
    all.extend(places(inventory::iter::<ObserverRegistration>));
    all.extend(places(inventory::iter::<LinkedReason>));
    all.sort();
    all
}

fn places<R: Registered + 'static>(registered: impl IntoIterator<Item = &'static R>) -> Vec<LinkedRegistration> {
    registered.into_iter().map(Registered::linked).collect()
}
