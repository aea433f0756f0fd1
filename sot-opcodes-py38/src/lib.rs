//! Handlers of the opcodes of CPython 3.8 to 3.10, one file for each family. Many opcodes still exist in 3.13: the
//! version range of each registration says until when. Opcodes that are new or have changed from 3.11 on are in the
//! crate `sot-opcodes-py312`.

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

/// The error for bytecode that no compiler writes, or for a stack that a handler left inconsistent.
pub fn bug(what: &str) -> Unwind {
    pyo3::exceptions::PyRuntimeError::new_err(what.to_owned()).into()
}
