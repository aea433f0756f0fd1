//! Tests plug-ins: runs Python programs by CPython and with the tracer, and compares their effects. The tracer uses a
//! toy framework (module `toy` in Python), or any other backend that is linked.
//!
//! ```no_run
//! sot_harness::with_tracer(|py| {
//!     let source = "import toy\ndef f(x, n):\n    return toy.relu(x) * n";
//!     sot_harness::assert_one_graph(py, source, &["(toy.arange(3), 2)"]);
//! });
//! ```
//!
//! A test binary embeds the interpreter, whose shared library it must find. `build.rs` of the plug-in template sets
//! its path; `LD_LIBRARY_PATH` works as well.

mod compare;
mod harness;
pub mod properties;
mod steering;
pub mod suite;
pub mod toy;

// Linked for their registrations.
use sot_opcodes_py312 as _;
use sot_opcodes_py38 as _;
use sot_variables as _;

pub use compare::{assert_one_graph, assert_settles, run_both};
pub use harness::{
    call, counts, load_module, mark, observe, recorded, reset, support, translated, was_simulated, with_backend,
    with_tracer, Counts, Translated,
};

#[doc(hidden)]
pub use inventory;

/// Compiles the examples of the page on plug-ins, in a crate of their own.
#[cfg(doctest)]
#[doc = include_str!("../../docs/plugins.md")]
struct Page;
