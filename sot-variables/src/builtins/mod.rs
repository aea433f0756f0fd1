//! Builtins whose arguments need not be known: one file per family. What only makes sense on known values has no handler
//! here; such calls are folded.

pub mod basic;
