//! Where the graph can be broken: the checkpoints to which a trace is rolled back, the claims of instructions that do
//! nothing but one call, and the heads of loops that began before the trace. The code of a break is written by
//! `codegen`, and the functions that go on behind it by `resume`. Read `checkpoint.rs` first.

pub(super) mod checkpoint;
pub(super) mod claim;
pub(super) mod loop_iterations;
