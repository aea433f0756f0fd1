//! The framework of the tracer: executor, instruction model, registries, trackers, guards, graph, code generation,
//! cache and frame hook. It contains no concrete opcode handler, variable kind or backend: these register themselves
//! from other crates.

pub mod backend;
pub mod bytecode;
pub mod cache;
pub mod codegen;
pub mod compiler;
pub mod cpython;
pub mod emit;
pub mod entity;
mod env;
pub mod error;
pub mod fault;
pub mod foreign;
pub mod forgetting;
pub mod graph;
pub mod guard;
pub mod ir;
pub mod language;
pub mod log;
pub mod machine;
mod open_sizes;
pub mod operators;
pub mod origin;
pub mod package;
pub mod policy;
pub mod prelude;
pub mod progress;
mod readers;
pub mod registered;
pub mod report;
pub mod resume;
mod resume_point;
mod settling;
pub mod side_effects;
pub mod stance;
pub mod stats;
pub mod trace;
pub mod tracker;
pub mod translate;
pub mod value_path;
pub mod version;
mod warning;

pub use machine::{builtin, executor, linked, observer, opcode, registering, runtime, variable};

#[doc(hidden)]
pub use {inventory, linkme, pyo3};
