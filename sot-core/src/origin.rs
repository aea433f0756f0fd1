//! Where a registration stands in the source, for errors and for lists of what is linked.

use std::fmt;

use linkme::distributed_slice;

/// Crate, file and line of a registration, made by [`origin!`](crate::origin!).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegistrationOrigin {
    /// The crate.
    pub krate: &'static str,
    /// Version of the crate.
    pub version: &'static str,
    /// Path of the file, as the compiler was given it.
    pub file: &'static str,
    /// The line.
    pub line: u32,
}

impl fmt::Display for RegistrationOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} (crate {} {})", self.file, self.line, self.krate, self.version)
    }
}

/// The tracer's own crates.
const OWN: [&str; 5] = ["sot_core", "sot_variables", "sot_opcodes_py38", "sot_opcodes_py312", "sot_python"];

/// Crates of backends that are built and tested with the tracer. They do not count as plug-ins.
#[distributed_slice]
pub static OWN_BACKENDS: [&'static str];

/// True if a crate, named either way (`sot-core`, `sot_core`), belongs to the tracer and is no plug-in.
pub(crate) fn is_of_the_tracer(krate: &str) -> bool {
    let is_it = |own: &str| own.len() == krate.len() && own.bytes().eq(krate.bytes().map(underscored));
    OWN.iter().chain(OWN_BACKENDS).any(|own| is_it(own))
}

fn underscored(byte: u8) -> u8 {
    if byte == b'-' {
        b'_'
    } else {
        byte
    }
}

/// One registration of a linked crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkedRegistration {
    /// The registry: `opcode`, `kind`, `builtin`, `backend`, an override of one of these, `observer`, or `reason`.
    pub registry: &'static str,
    /// Name in the registry.
    pub name: &'static str,
    /// Where the registration stands.
    pub origin: RegistrationOrigin,
}

impl fmt::Display for LinkedRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} at {}", self.registry, self.name, self.origin)
    }
}

/// A value that knows its registration.
pub trait Registered {
    /// The registration.
    fn linked(&self) -> LinkedRegistration;
}

impl Registered for LinkedRegistration {
    fn linked(&self) -> LinkedRegistration {
        *self
    }
}

/// The [`RegistrationOrigin`] of the place where the macro is used.
#[macro_export]
macro_rules! origin {
    () => {
        $crate::origin::RegistrationOrigin {
            krate: match option_env!("CARGO_PKG_NAME") {
                Some(name) => name,
                None => module_path!(),
            },
            version: match option_env!("CARGO_PKG_VERSION") {
                Some(version) => version,
                None => "?",
            },
            file: file!(),
            line: line!(),
        }
    };
}
