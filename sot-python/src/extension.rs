//! The extension module of a backend, and what is done when it is imported.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sot_core::error::{GraphBreakError, RecompileError};
use sot_core::runtime::Runtime;
use sot_core::{cpython, translate};

use crate::face::{self, Face};
use crate::{command, register, report, sources, steer, translated};

/// Defines the extension module of a crate: `extension! { module = _sot, backend = "toy" }`. The module is part of a
/// package, whose name is found at import. `face` is a `static` of the backend's own [`Face`], `version` is the text
/// of `__version__`.
#[macro_export]
macro_rules! extension {
    (module = $module:ident, backend = $backend:literal $(,)?) => {
        $crate::extension! { module = $module, backend = $backend, face = $crate::NoFace }
    };
    (module = $module:ident, backend = $backend:literal, face = $face:expr $(,)?) => {
        $crate::extension! {
            module = $module, backend = $backend, face = $face, version = env!("CARGO_PKG_VERSION")
        }
    };
    (module = $module:ident, backend = $backend:literal, face = $face:expr, version = $version:expr $(,)?) => {
        /// Starts the tracer with the backend.
        #[::pyo3::pymodule]
        fn $module(module: &::pyo3::Bound<'_, ::pyo3::types::PyModule>) -> ::pyo3::PyResult<()> {
            $crate::start(module, $backend, $version, &$face)
        }
    };
}

/// Fills the extension module and starts the tracer: checks CPython's layouts, freezes the registries, binds to the
/// framework.
pub fn start(
    module: &Bound<'_, PyModule>,
    backend: &'static str,
    version: &str,
    face: &'static dyn Face,
) -> PyResult<()> {
    let py = module.py();
    let package = package_of(module)?;
    // Known even where the rest cannot be used, for instance without the framework.
    cpython::import(py, &package)?.setattr("__version__", version)?;
    // The Python sources come first: they have the code that explains why the rest cannot be used.
    sources::serve(py, &package)?;
    face::uses(&package, face);
    cpython::self_test(py).map_err(|error| PyImportError::new_err(error.to_string()))?;
    Runtime::start_for(py, backend, Some(&package))?;
    // If the module is imported a second time in one process, the evaluator is set already.
    cpython::set_evaluator(&translate::Translator).ok();
    module.add("__version__", version)?;
    module.add("_backend", backend)?;
    module.add("_own_compilers", PyTuple::new(py, face.own_compilers())?)?;
    let errors =
        [("GraphBreakError", py.get_type::<GraphBreakError>()), ("RecompileError", py.get_type::<RecompileError>())];
    for (name, error) in errors {
        error.setattr("__module__", &package)?;
        module.add(name, error)?;
    }
    translated::register(module)?;
    report::register(module)?;
    steer::register(module)?;
    command::register(module)?;
    register::register(module)?;
    face.add_to(module)
}

/// Returns the name of the package that the module is in.
fn package_of(module: &Bound<'_, PyModule>) -> PyResult<String> {
    let name = module.name()?.to_string();
    match name.rsplit_once('.') {
        Some((package, _)) => Ok(package.to_owned()),
        None => Err(PyImportError::new_err(format!(
            "{name} is part of a package, and is imported as a module of its own: import the package"
        ))),
    }
}

/// Adds a class whose `__module__` is the package, because pickle finds the class there.
pub(crate) fn add_class<T: pyo3::PyClass>(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<T>()?;
    module.py().get_type::<T>().setattr("__module__", &face::used()?.package)
}
