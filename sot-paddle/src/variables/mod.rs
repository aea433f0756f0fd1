//! Variables that Paddle brings: layers, shapes, and callables that are already translated.

pub mod layer;
mod psdb;
mod size;
mod translated;
