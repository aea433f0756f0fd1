//! The extension module `sot._sot`: Paddle as the backend, its layers as variables, and the face to Python.
#![forbid(unsafe_code)]
#![deny(unused_crate_dependencies)]

pub mod backend;
mod command;
mod page;
mod register;
mod report;
mod steer;
mod translated;
pub mod variables;
mod verify;

use pyo3::prelude::*;
use sot_core::runtime::Runtime;
use sot_core::{cpython, translate};
// Linked for their registrations.
use sot_opcodes_py312 as _;
use sot_opcodes_py38 as _;
use sot_variables as _;

use crate::backend::PaddleBackend;

sot_core::backend! { "paddle", |py| Ok(Box::new(PaddleBackend::installed(py)?.clone())) }

/// Starts the tracer: checks CPython's layouts, freezes the registries, binds to Paddle.
#[pymodule]
fn _sot(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    cpython::self_test(py).map_err(|error| pyo3::exceptions::PyImportError::new_err(error.to_string()))?;
    Runtime::start(py, "paddle")?;
    // A second import of the module in one process finds the evaluator in place.
    cpython::set_evaluator(&translate::Translator).ok();
    module.add("__version__", env!("SOT_VERSION"))?;
    module.add("GraphBreakError", py.get_type::<sot_core::error::GraphBreakError>())?;
    translated::register(module)?;
    report::register(module)?;
    steer::register(module)?;
    command::register(module)?;
    verify::register(module)?;
    register::register(module)?;
    backend::run::second_passes::register(module)?;
    backend::debug::register(module)
}
