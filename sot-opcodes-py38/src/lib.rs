//! Handlers of the opcodes that exist in CPython 3.8 to 3.10, one file per family. Many live on to 3.13: the range on
//! each registration says until when. What is new or means something else since 3.11 is in the crate of the next delta.

pub mod attribute;
pub mod binary;
pub mod call;
pub mod class;
pub mod compare;
pub mod container;
pub mod context_manager;
pub mod exception;
pub mod format;
pub mod function;
pub mod generator;
mod import;
pub mod iteration;
pub mod jump;
pub mod load_store;
pub mod pattern;
mod stack;
mod unary;

use sot_core::error::Unwind;

/// Bytecode that no compiler writes, or a stack that a handler left in disorder.
pub fn bug(what: &str) -> Unwind {
    pyo3::exceptions::PyRuntimeError::new_err(what.to_owned()).into()
}
