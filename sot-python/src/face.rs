//! What the face asks of a backend, beside what the tracer asks.

use once_cell::sync::OnceCell;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use sot_core::cpython;

/// A backend's part of the face.
pub trait Face: Sync {
    /// The attribute of an object that a call of it comes to, and that may be replaced on the object itself: `forward`
    /// of a model's. Such objects are translated as a whole.
    fn entry(&self, object: &Bound<'_, PyAny>) -> Option<&'static str> {
        let _ = object;
        None
    }

    /// What else than functions `symbolic_translate` takes, for its error messages.
    fn also_taken(&self) -> Option<&'static str> {
        None
    }

    /// Words for `symbolic_translate(backend=…)` that choose among the framework's own compilers; they are accepted,
    /// and not used.
    fn own_compilers(&self) -> &'static [&'static str] {
        &[]
    }

    /// Forgets what the backend has learnt, when all translations are forgotten.
    fn reset(&self) {}

    /// Adds to the extension module what only this backend has.
    fn add_to(&self, module: &Bound<'_, PyModule>) -> PyResult<()> {
        let _ = module;
        Ok(())
    }
}

/// The face of a backend that adds nothing.
pub struct NoFace;

impl Face for NoFace {}

/// Of this library.
pub(crate) struct Used {
    /// The package that the extension module is in.
    pub(crate) package: String,
    pub(crate) face: &'static dyn Face,
}

static USED: OnceCell<Used> = OnceCell::new();

/// The face in use, which the extension module has named.
pub(crate) fn used() -> PyResult<&'static Used> {
    USED.get().ok_or_else(|| PyRuntimeError::new_err("the tracer has not started"))
}

/// A module of the package.
pub(crate) fn module<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    cpython::import(py, &format!("{}.{name}", used()?.package))
}

/// Says which one it is; the first call counts.
pub(crate) fn uses(package: &str, face: &'static dyn Face) {
    USED.set(Used { package: package.to_owned(), face }).ok();
}
