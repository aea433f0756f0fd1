//! Tensors that share memory, and the operations that write to it.

pub(crate) mod in_place;
pub(crate) mod saved;
pub(crate) mod views;
pub(crate) mod write_back;
pub(crate) mod write_histories;
