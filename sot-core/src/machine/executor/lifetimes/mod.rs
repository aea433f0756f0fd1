//! Which values live on, and which values die where the program would notice: objects with a `__del__`, weak
//! references with a callback, generators that run code when they are closed. The graph breaks where such a value is
//! destroyed. Read `observable_drops.rs` first; `destruction_search.rs` and `holders.rs` serve it.

mod destruction_search;
pub(super) mod generator_closing;
mod holders;
pub(super) mod observable_drops;
pub(crate) mod reachable;
