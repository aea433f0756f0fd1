//! Indices that name the variables, trackers and tensors of one translation, and the type of attribute and variable
//! names.

use std::rc::Rc;

/// Index of a variable in its translation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct VarId(pub(crate) u32);

/// Index of a tensor of the graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct SymbolId(pub(crate) u32);

/// Index of a tracker in its translation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct TrackerId(pub(crate) u32);

/// The name of an attribute or a variable.
pub type Name = Rc<str>;
