//! What the trace has recorded: the stores of a [`Trace`](trace::Trace), the rollback of all of them, and what a
//! translation gets from earlier calls and leaves for later ones. No file here simulates. Read `trace.rs` first.

pub(super) mod dependencies;
pub(super) mod history;
pub(super) mod identities;
pub(super) mod rollback;
pub(super) mod source_record;
pub(super) mod trace;
