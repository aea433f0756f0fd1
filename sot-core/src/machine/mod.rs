//! The machine that simulates frames: the executor, the protocol of the variables that it works on, the registries of
//! opcode handlers, variable kinds and builtins, and the runtime that holds them once they are frozen.
//!
//! The five depend on each other, as an interpreter and its objects do: handlers and variables are given the
//! executor, and the executor calls them. No module below this one knows of it. Modules above call it and are never
//! called by it.

pub mod builtin;
pub mod executor;
pub mod linked;
pub mod observer;
pub mod opcode;
mod overriding;
pub mod registering;
pub mod runtime;
pub mod variable;
