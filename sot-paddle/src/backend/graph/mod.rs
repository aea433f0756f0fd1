//! Graphs that are being built, up to the program that is not compiled yet.

pub(crate) mod builder;
pub(crate) mod data;
pub(crate) mod export;
pub(crate) mod gradient;
pub(crate) mod infer_meta;
pub(crate) mod outputs;
pub(crate) mod planned;
pub(crate) mod weight;
