//! Tensor operations on their way into the graph: statements, the calls that the backend refuses as statements,
//! operations that change a tensor in place, and the framework's global state under which statements are built.
//! Read `building.rs` first.

pub(super) mod building;
mod in_place;
mod inputs;
pub(super) mod refused_calls;
mod results;
pub(super) mod switches;
