//! Functions, methods and generators.

pub mod builtin_function;
pub mod call_policy;
pub mod cell;
pub mod function;
pub mod generator;
pub mod method;
pub mod new_function;
pub(crate) mod rest;
pub mod slots;
pub mod super_;
