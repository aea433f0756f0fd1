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

use sot_core::cpython;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::variable::VarId;

/// The error for bytecode that no compiler writes, or for a stack that a handler left inconsistent.
pub fn bug(what: &str) -> Unwind {
    pyo3::exceptions::PyRuntimeError::new_err(what.to_owned()).into()
}

/// Returns the builtin that an opcode stands for: CPython does not look its name up, so that it does not matter what
/// the program has put in its place.
fn original_builtin(cx: &mut OpcodeExecutor<'_>, name: &str) -> Flow<VarId> {
    let function = cpython::builtin(cx.py, name)?;
    let tracker = cx.trackers.constant(function.clone().unbind());
    Ok(cx.wrap(&function, tracker))
}
