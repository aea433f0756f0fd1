//! The parts of the package `sot` that are not in the Python interface of every backend (`sot_python::Face`).

use pyo3::prelude::*;
use pyo3::types::PyType;
use sot_python::Face;

use crate::backend::run::second_passes;
use crate::backend::{debug, PaddleBackend};
use crate::verify;

pub(crate) struct PaddleFace;

impl Face for PaddleFace {
    fn entry(&self, object: &Bound<'_, PyAny>) -> Option<&'static str> {
        let backend = PaddleBackend::installed(object.py()).ok()?;
        (backend.is_layer(object) && !object.is_instance_of::<PyType>()).then_some("forward")
    }

    fn also_taken(&self) -> Option<&'static str> {
        Some("a paddle.nn.Layer")
    }

    /// The values of the `backend` argument of `paddle.jit.to_static`, which choose among Paddle's own compilers.
    fn own_compilers(&self) -> &'static [&'static str] {
        &["CINN", "PHI", "INFERENCE"]
    }

    fn reset(&self) {
        second_passes::reset();
    }

    fn add_to(&self, module: &Bound<'_, PyModule>) -> PyResult<()> {
        second_passes::register(module)?;
        verify::register(module)?;
        debug::register(module)
    }
}
