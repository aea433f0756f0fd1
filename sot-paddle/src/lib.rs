//! (being built)
#![forbid(unsafe_code)]

pub mod backend;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
fn _sot(module: &Bound<'_, PyModule>) -> PyResult<()> {
    backend::debug::register(module)
}
