//! Calls of objects for which the program has registered a meaning: a break, a pure function, a constant result, a
//! substitute, or one statement of the graph. Read `calling.rs` first; the other files look for what such a function
//! reads and changes besides its arguments.

mod assigned_outside;
pub(super) mod calling;
mod hidden_tensors;
mod kept_contents;
