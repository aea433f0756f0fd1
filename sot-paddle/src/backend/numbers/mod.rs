//! Python numbers beside tensors: known numbers, and open numbers, which are values of the graph.

pub(crate) mod diagonals;
pub(crate) mod exact;
pub(crate) mod floats;
pub(crate) mod known_sizes;
pub(crate) mod number_inputs;
pub(crate) mod open_sizes;
pub(crate) mod rounded;
pub(crate) mod scalar;
pub(crate) mod size_probe;
pub(crate) mod sizes;
pub(crate) mod twin;
pub(crate) mod where_op;
