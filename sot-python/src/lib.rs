//! The face to Python that every backend has: `symbolic_translate`, `explain`, `stats`, `report`, `register`, `psdb`
//! and the rest of a package's public names. A backend's extension module is one macro:
//!
//! ```ignore
//! sot_python::extension! { module = _sot, backend = "toy" }
//! ```
//!
//! The Python part (`python/*.py`) is in the library, and is found as modules of the package that the extension module
//! is in, where the package has no file of that name itself.
#![forbid(unsafe_code)]

mod command;
mod extension;
mod face;
mod page;
mod psdb;
mod register;
mod report;
mod sources;
mod steer;
mod translated;
mod variable;

// Linked for their registrations.
use sot_opcodes_py312 as _;
use sot_opcodes_py38 as _;
use sot_variables as _;

pub use crate::extension::start;
pub use crate::face::{Face, NoFace};

#[doc(hidden)]
pub use pyo3;
