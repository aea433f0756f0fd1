//! Values on which the trace does not specialise, because they differ from call to call: lazy numbers, which the trace
//! specialises on only where an instruction needs the value, and open numbers, with which new code or the graph
//! computes. Read `lazy_number.rs` first, then `open_number.rs`.

mod derived_size;
pub(super) mod lazy_number;
pub(super) mod lazy_text;
pub(super) mod open_input;
pub(super) mod open_number;
pub(super) mod open_sizes;
