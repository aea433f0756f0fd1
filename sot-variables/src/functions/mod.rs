//! Functions, what is bound to them, and generators.

pub mod builtin_function;
pub mod cell;
pub mod function;
pub mod generator;
pub mod method;
pub(crate) mod rest;
pub mod slots;
pub mod super_;
