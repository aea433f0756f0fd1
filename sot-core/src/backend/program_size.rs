//! The size from which a graph becomes a program. A smaller graph is called operation by operation, because a run of a
//! program costs more than the calls.

use super::Backend;

/// Minimum weight of a graph that becomes a program. The weight of a graph is the sum of its statements' weights
/// ([`GraphBuilder::weight`](super::GraphBuilder::weight)). By default every graph becomes a program. Users set another
/// minimum with `MIN_GRAPH_SIZE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MinProgramSize {
    /// Minimum of a graph without gradients.
    pub inference: usize,
    /// Minimum of a graph that a backward pass may follow.
    pub training: usize,
    /// Added for each input that is a number, of which a run makes a tensor.
    pub number: usize,
    /// Added for each tensor from outside that a run writes back.
    pub write: usize,
    /// Added for each result after the first.
    pub result: usize,
    /// Added for each open size that is given to a statement, and that the program computes with operations.
    pub size: usize,
}

/// Returns the value of `MIN_GRAPH_SIZE`, if it is set to a number.
pub fn min_size_setting() -> Option<usize> {
    std::env::var("MIN_GRAPH_SIZE").ok().and_then(|size| size.trim().parse().ok())
}

impl MinProgramSize {
    /// Returns the user's minimum for all graphs, or else that of the backend.
    pub(crate) fn now(backend: &dyn Backend) -> MinProgramSize {
        let of_user = |size| MinProgramSize { inference: size, training: size, ..MinProgramSize::default() };
        min_size_setting().map_or_else(|| backend.min_program_size(), of_user)
    }

    /// Returns the minimum weight of a graph with these numbers of tensors written back and of results. `training` is
    /// true if a backward pass may follow.
    pub(crate) fn of(self, training: bool, taken: &TakenNumbers, writes: usize, results: usize) -> usize {
        let least = if training { self.training } else { self.inference };
        least
            + taken.numbers * self.number
            + taken.sizes * self.size
            + writes * self.write
            + results.saturating_sub(1) * self.result
    }
}

/// What a graph takes besides tensors.
pub(crate) struct TakenNumbers {
    /// Number of inputs that are numbers.
    pub(crate) numbers: usize,
    /// Number of arguments of statements that are open sizes.
    pub(crate) sizes: usize,
}
