//! A property of every opcode handler of the project (see [`sot_harness::properties`]). The properties are registered
//! in the files beside this one; a handler in the table of the running interpreter without one fails.
//!
//! That a handler's declared stack effect is CPython's own is checked where the table is frozen (`sot_core::opcode`).
//!
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::ExitCode;

mod access;
mod calls;
mod containers;
mod control;
mod exceptions;
mod generators;
mod operators;
mod patterns;

fn main() -> ExitCode {
    sot_harness::properties::run(&["sot-opcodes-py38", "sot-opcodes-py312"])
}
