//! Graphs while they are built, up to the program before it is compiled.

pub(crate) mod arrays;
pub(crate) mod builder;
pub(crate) mod copied_row;
mod cuts;
pub(crate) mod data;
pub(crate) mod distributed;
pub(crate) mod export;
pub(crate) mod gradient;
pub(crate) mod infer_meta;
pub(crate) mod inner_gradients;
pub(crate) mod kernels;
pub(crate) mod may_raise;
mod merging;
pub(crate) mod other_gradients;
pub(crate) mod outputs;
pub(crate) mod overwritten;
pub(crate) mod pieces;
pub(crate) mod planned;
pub(crate) mod program_structure;
pub(crate) mod random_operations;
pub(crate) mod statistics;
pub(crate) mod unknown_sizes;
pub(crate) mod weight;
