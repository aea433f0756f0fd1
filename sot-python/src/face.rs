//! The trait that a backend implements for the Python interface, in addition to the tracer's `Backend`.

use once_cell::sync::OnceCell;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use sot_core::cpython;

/// A backend's part of the Python interface.
pub trait Face: Sync {
    /// Returns the name of the attribute that a call of `object` runs and that may be replaced on the object itself,
    /// such as `forward` of a model. Such objects are translated as a whole.
    fn entry(&self, object: &Bound<'_, PyAny>) -> Option<&'static str> {
        let _ = object;
        None
    }

    /// Names the objects other than functions that `symbolic_translate` takes, for its error messages.
    fn also_taken(&self) -> Option<&'static str> {
        None
    }

    /// Values of `symbolic_translate(backend=…)` that choose among the framework's own compilers. They are accepted
    /// and ignored.
    fn own_compilers(&self) -> &'static [&'static str] {
        &[]
    }

    /// Forgets facts that the backend has learnt from calls. Called when all translations are forgotten.
    fn reset(&self) {}

    /// Adds functions and classes that only this backend has to the extension module.
    fn add_to(&self, module: &Bound<'_, PyModule>) -> PyResult<()> {
        let _ = module;
        Ok(())
    }
}

/// The face of a backend that adds nothing.
pub struct NoFace;

impl Face for NoFace {}

/// The interface that this library's extension module uses.
pub(crate) struct Used {
    /// The package that the extension module is in.
    pub(crate) package: String,
    pub(crate) face: &'static dyn Face,
}

static USED: OnceCell<Used> = OnceCell::new();

/// Returns the face in use, which the extension module has set.
pub(crate) fn used() -> PyResult<&'static Used> {
    USED.get().ok_or_else(|| PyRuntimeError::new_err("the tracer has not started"))
}

/// Imports a module of the package.
pub(crate) fn module<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    cpython::import(py, &format!("{}.{name}", used()?.package))
}

/// Sets package and face. Only the first call has an effect.
pub(crate) fn uses(package: &str, face: &'static dyn Face) {
    USED.set(Used { package: package.to_owned(), face }).ok();
}
