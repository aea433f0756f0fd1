//! The package of Python's that the tracer works for, for texts and loggers: `sot`, or that of another backend.

use std::sync::OnceLock;

static NAME: OnceLock<String> = OnceLock::new();

/// Its name; `sot` where no package has started the tracer.
pub fn name() -> &'static str {
    NAME.get().map_or("sot", |name| name)
}

/// Says which one it is; the first call counts.
pub(crate) fn is_named(name: &str) {
    NAME.set(name.to_owned()).ok();
}
