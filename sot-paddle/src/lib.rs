//! The extension module `sot._sot`: Paddle as the backend, and its layers as variables.
#![forbid(unsafe_code)]
#![deny(unused_crate_dependencies)]

pub mod backend;
mod face;
pub mod variables;
mod verify;

use crate::backend::PaddleBackend;

sot_core::backend! { "paddle", |py| Ok(Box::new(PaddleBackend::installed(py)?.clone())) }

sot_python::extension! {
    module = _sot, backend = "paddle", face = crate::face::PaddleFace, version = env!("SOT_VERSION")
}
