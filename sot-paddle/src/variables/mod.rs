//! Variables that Paddle brings: layers, and callables that are already translated.

pub mod layer;
mod translated;
