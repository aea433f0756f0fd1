//! The Rust part of the command line: lists what is linked into this build, and runs a whole program with the tracer
//! on.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use sot_core::linked::{linked, Linked};
use sot_core::version::PyVersion;
use sot_core::{cpython, translate};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_registrations, module)?)?;
    module.add_function(wrap_pyfunction!(_call_program, module)?)
}

/// A row of the list: registry, name, crate, version of the crate, file and line.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str, u32);

/// Lists every registration that is linked into this build.
#[pyfunction]
fn _registrations() -> Vec<Row> {
    let row = |found: Linked| {
        let Linked { registry, name, origin } = found;
        (registry, name, origin.krate, origin.version, origin.file, origin.line)
    };
    linked(PyVersion::BUILT_FOR).into_iter().map(row).collect()
}

/// Calls `program()`, which is a whole program. Frames of this thread that are given tensors are translated.
#[pyfunction]
fn _call_program<'py>(py: Python<'py>, program: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    translate::translate_what_meets_tensors();
    let _active = cpython::enter(py).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    program.call0()
}
