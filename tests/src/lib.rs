//! What the tests share: a toy framework as the backend, and a harness that runs Python functions with the tracer on.

pub mod harness;
mod steering;
pub mod strided;
pub mod suite;
pub mod toy;

// Linked for their registrations.
use sot_opcodes_py312 as _;
use sot_opcodes_py38 as _;
use sot_variables as _;
