//! Sizes of tensors' dimensions that a trace leaves open, so that one translation serves all of them. Where one matters all the
//! same, the trace is thrown away, and made anew with that size assumed, from then on for good.

use std::collections::HashSet;

use pyo3::prelude::*;

use super::OpcodeExecutor;
use crate::backend::TensorMeta;
use crate::env;
use crate::error::Unwind;
use crate::tracker::TrackerId;

/// Whether sizes that have differed between calls are left open (`SOT_ALLOW_DYNAMIC_SHAPE`). Asked each time, as tests switch it.
pub fn may_differ() -> bool {
    env::is_on("SOT_ALLOW_DYNAMIC_SHAPE").unwrap_or(false)
}

/// The least size that is left open (`SOT_SPECIALIZED_DIM_NUMBERS`): to what is empty, or is repeated where it meets more,
/// operations often do something else.
fn least_open() -> i64 {
    match std::env::var("SOT_SPECIALIZED_DIM_NUMBERS").as_deref() {
        Ok("0") => 1,
        Ok("no" | "NO" | "No") => 0,
        _ => 2,
    }
}

/// What is known of sizes when a trace begins, and what it makes of them. A size is named by the text of its tracker.
pub struct Sizes {
    wanted: HashSet<String>,
    closed: HashSet<String>,
    least: i64,
    left_open: Vec<String>,
    settled: Vec<String>,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes::new(HashSet::new(), HashSet::new())
    }
}

impl Sizes {
    /// Those that are to be left open, and those that must not be.
    pub fn new(wanted: HashSet<String>, closed: HashSet<String>) -> Self {
        Sizes { wanted, closed, least: least_open(), left_open: Vec::new(), settled: Vec::new() }
    }

    /// The least size that is left open.
    #[must_use]
    pub fn least(&self) -> i64 {
        self.least
    }

    /// Those that the trace has found to matter.
    #[must_use]
    pub fn take_settled(&mut self) -> Vec<String> {
        std::mem::take(&mut self.settled)
    }
}

/// The name of a tensor's size, by the text of the tensor's tracker.
pub(crate) fn name(tensor: &str, axis: usize) -> String {
    format!("{tensor}.shape[{axis}]")
}

impl OpcodeExecutor<'_> {
    /// Takes the sizes out of the meta of a tensor from outside that are to be left open.
    pub fn leave_sizes_open(&mut self, tensor: &Bound<'_, PyAny>, tracker: TrackerId, meta: &mut TensorMeta) {
        if !self.trackers.is_sourced(tracker) || self.runtime.backend.is_parameter(tensor) {
            return;
        }
        let marked = self.runtime.backend.open_dimensions(tensor);
        if self.sizes.wanted.is_empty() && marked.is_empty() {
            return;
        }
        let text = self.trackers.text(self.py, tracker);
        for (axis, size) in meta.shape.iter_mut().enumerate() {
            let name = name(&text, axis);
            let wanted = self.sizes.wanted.contains(&name) || marked.contains(&axis);
            if wanted && !self.sizes.closed.contains(&name) && size.is_some_and(|size| size >= self.sizes.least) {
                *size = None;
                self.sizes.left_open.push(name);
            }
        }
    }

    /// What is to be done where a size matters: another attempt, if any was left open, else what `otherwise` says.
    pub fn settle_sizes(&mut self, otherwise: Unwind) -> Unwind {
        if self.sizes.left_open.is_empty() {
            return otherwise;
        }
        self.sizes.settled.append(&mut self.sizes.left_open);
        Unwind::Restart(None)
    }
}
