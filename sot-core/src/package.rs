//! Name of the Python package that the tracer works for, which messages and loggers begin with: `sot`, or the package
//! of another backend.

use std::sync::OnceLock;

static NAME: OnceLock<String> = OnceLock::new();

/// Returns the package's name; `sot` if no package has started the tracer.
pub fn name() -> &'static str {
    NAME.get().map_or("sot", |name| name)
}

/// Sets the package's name. Only the first call has an effect.
pub(crate) fn is_named(name: &str) {
    NAME.set(name.to_owned()).ok();
}
