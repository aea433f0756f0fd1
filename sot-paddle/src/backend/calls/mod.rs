//! What Paddle's functions, methods and layers mean to a trace: which calls become statements, are followed, folded,
//! or end the graph.

pub(crate) mod api;
pub(crate) mod argument_types;
pub(crate) mod attributes;
pub(crate) mod empty_tensors;
pub(crate) mod float_counts;
pub(crate) mod foundation;
pub(crate) mod given_back;
pub(crate) mod hints;
pub(crate) mod ignored_arguments;
pub(crate) mod index_masks;
pub(crate) mod items;
pub(crate) mod kept_operands;
pub(crate) mod layer;
pub(crate) mod layout;
pub(crate) mod marks;
pub(crate) mod names;
pub(crate) mod origin;
pub(crate) mod originals;
pub(crate) mod stand_in;
pub(crate) mod tensors_for_numbers;
