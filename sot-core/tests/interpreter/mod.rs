//! The interpreter of the test programs.

use pyo3::Python;

/// Attaches this thread to the interpreter, which the first call starts, and calls `work`.
///
/// `pyo3` starts one by itself with its feature `auto-initialize`. The tests do without: with another set of features
/// all crates would be compiled a second time, after the extension.
pub(crate) fn with_python<R>(work: impl for<'py> FnOnce(Python<'py>) -> R) -> R {
    Python::initialize();
    Python::attach(work)
}
