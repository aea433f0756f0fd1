//! The machine that simulates frames: the executor, the protocol of the variables that it works on, the registries of
//! opcode handlers, variable kinds and builtins, and the runtime that holds them once they are frozen.
//!
//! The five need each other by nature, as an interpreter and its objects do: a handler and a variable are given the
//! executor, and the executor asks them. Nothing below this module knows of it, and what is above asks it and is never
//! asked.

pub mod builtin;
pub mod executor;
pub mod linked;
pub mod observer;
pub mod opcode;
mod overriding;
pub mod registering;
pub mod runtime;
pub mod variable;
