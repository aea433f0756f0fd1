//! Tensors that share memory, and what writes to them.

pub(crate) mod in_place;
pub(crate) mod views;
pub(crate) mod write_back;
