//! What is linked into the program and takes part in translations: every registration, with its place.

use crate::machine::builtin::BUILTINS;
use crate::machine::opcode::OpcodeHandler;
use crate::machine::runtime::BackendRegistration;
use crate::machine::variable::VariableKind;
use crate::version::PyVersion;

/// One registration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Linked {
    /// What it registers: `opcode`, `kind`, `builtin` or `backend`.
    pub registry: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// The file of the registration, as the compiler was given it.
    pub file: &'static str,
    /// The line.
    pub line: u32,
}

/// All of them, sorted; of opcodes those that are for `version`.
pub fn linked(version: PyVersion) -> Vec<Linked> {
    let opcodes = inventory::iter::<OpcodeHandler>.into_iter().filter(|opcode| opcode.versions.contains(version));
    let opcodes = opcodes.map(|it| Linked { registry: "opcode", name: it.name, file: it.file, line: it.line });
    let kinds = inventory::iter::<VariableKind>.into_iter();
    let kinds = kinds.map(|it| Linked { registry: "kind", name: it.name, file: it.file, line: it.line });
    let builtins = BUILTINS.iter();
    let builtins = builtins.map(|it| Linked { registry: "builtin", name: it.path, file: it.file, line: it.line });
    let backends = inventory::iter::<BackendRegistration>.into_iter();
    let backends = backends.map(|it| Linked { registry: "backend", name: it.name, file: it.file, line: it.line });
    let mut all: Vec<_> = opcodes.chain(kinds).chain(builtins).chain(backends).collect();
    all.sort();
    all
}
