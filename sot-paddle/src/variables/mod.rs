//! Kinds of variables that Paddle adds: layers, shapes, and callables that `to_static` has converted already.

mod assign;
mod distribution;
mod gradient;
pub mod layer;
mod psdb;
mod size;
mod static_function;
mod tracer;
