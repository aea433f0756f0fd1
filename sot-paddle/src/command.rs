//! What the command line asks: what is linked into this build, and a whole program with the tracer on.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use sot_core::linked::linked;
use sot_core::version::PyVersion;
use sot_core::{cpython, translate};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_registrations, module)?)?;
    module.add_function(wrap_pyfunction!(_call_program, module)?)
}

/// Every registration: what it registers, its name, file and line.
#[pyfunction]
fn _registrations() -> Vec<(&'static str, &'static str, &'static str, u32)> {
    let all = linked(PyVersion::BUILT_FOR).into_iter();
    all.map(|found| (found.registry, found.name, found.origin.file, found.origin.line)).collect()
}

/// Calls `program()`, the whole of a program, with the frames of this thread translated that are given tensors.
#[pyfunction]
fn _call_program<'py>(py: Python<'py>, program: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    translate::translate_what_meets_tensors();
    let _active = cpython::enter(py).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    program.call0()
}
