//! Variables that Paddle brings: layers, shapes, and callables that are already converted.

mod assign;
mod distribution;
mod gradient;
pub mod layer;
mod psdb;
mod size;
mod static_function;
mod tracer;
