//! Exceptions of the simulated program: raising and matching them, finding their handlers, and their tracebacks.
//! `raised.rs` is the trace's record of the exceptions that it has raised. Read `unwinding.rs` first.

pub(super) mod raised;
pub mod traceback;
pub mod unwinding;
