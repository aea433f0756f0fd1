//! Helpers for kinds and builtins of a plug-in, in addition to `sot_core::prelude`: `use sot_variables::prelude::*`.

pub use crate::builtins::{cannot, known_index, receive, required};
pub use crate::containers::sequence;
pub use crate::iterators::{emit_call, library, or_object_type, produce, IteratorState};
