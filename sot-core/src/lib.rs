//! The framework of the tracer: executor, instruction model, registries, trackers, guards, graph, code generation, cache
//! and frame hook. It knows no concrete opcode, variable kind or backend: those register themselves from other crates.

pub mod backend;
pub mod bytecode;
pub mod cpython;
pub mod error;
pub mod version;
