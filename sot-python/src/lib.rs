//! The Python interface that every backend has: `symbolic_translate`, `explain`, `stats`, `report`, `register`, `psdb`
//! and the other public names of a package. A backend defines its extension module by one macro:
//!
//! ```ignore
//! sot_python::extension! { module = _sot, backend = "toy" }
//! ```
//!
//! The Python part (`python/*.py`) is in the library. Its files are found as modules of the package that the extension
//! module is in, unless the package has a file of that name itself.
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

// These crates are linked for their registrations.
use sot_opcodes_py312 as _;
use sot_opcodes_py38 as _;
use sot_variables as _;

pub use crate::extension::start;
pub use crate::face::{Face, NoFace};

#[doc(hidden)]
pub use pyo3;
