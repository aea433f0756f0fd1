//! Which sizes of tensors a trace leaves open, by what earlier traces have found.

use std::collections::HashSet;

use crate::error::Unwind;
use crate::policy;
use crate::value_path::ValuePath;

/// What an attempt at a trace found to matter: the next one assumes it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Matters {
    /// The value at the end of a path: a size, or another number.
    Value(ValuePath),
    /// That the parameter at the end of a path is changed in place: it is an input at each call.
    Written(ValuePath),
    /// That several are, as they are in loops: not one more attempt for each.
    AllWritten,
    /// One of the many sizes that were open at first; so many are in the next attempt.
    AtFirst(OpenAtFirst),
}

/// The sizes that the first translation leaves open already. Where one of many matters, which one cannot be told: fewer
/// are left open in the next attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OpenAtFirst {
    /// Those that are marked.
    Marked,
    /// Those of each tensor's first dimension, too: by convention that of the batch.
    Batch,
    /// All.
    #[default]
    All,
}

impl OpenAtFirst {
    /// Whether sizes of that dimension are.
    pub(crate) fn holds(self, axis: usize) -> bool {
        match self {
            OpenAtFirst::Marked => false,
            OpenAtFirst::Batch => axis == 0,
            OpenAtFirst::All => true,
        }
    }

    /// The next fewer.
    pub(crate) fn fewer(self) -> OpenAtFirst {
        match self {
            OpenAtFirst::All => OpenAtFirst::Batch,
            OpenAtFirst::Batch | OpenAtFirst::Marked => OpenAtFirst::Marked,
        }
    }
}

/// What is known of sizes when a trace begins, and what it makes of them.
pub struct Sizes {
    pub(crate) wanted: HashSet<ValuePath>,
    closed: HashSet<Matters>,
    pub(crate) least: i64,
    pub(crate) at_first: OpenAtFirst,
    pub(crate) left_open: Vec<ValuePath>,
    settled: Vec<Matters>,
    /// Whether some were to be left open early: a break of the graph tells against it.
    pub(crate) are_early: bool,
    /// In how many translations an integer must have been another one to be left open, too.
    pub(crate) opens_after: Option<usize>,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes::new(HashSet::new(), HashSet::new())
    }
}

impl Sizes {
    /// Those that are to be left open, and those that must not be.
    pub fn new(wanted: HashSet<ValuePath>, closed: HashSet<Matters>) -> Self {
        Sizes {
            wanted,
            closed,
            least: policy::least_open(),
            at_first: OpenAtFirst::Marked,
            left_open: Vec::new(),
            settled: Vec::new(),
            are_early: false,
            opens_after: policy::opens_after(None),
        }
    }

    /// What was asked for the function counts.
    #[must_use]
    pub(crate) fn asked(self, asked: Option<bool>, at_first: OpenAtFirst) -> Self {
        let at_first = if asked == Some(true) { at_first } else { OpenAtFirst::Marked };
        Sizes { opens_after: policy::opens_after(asked), at_first, ..self }
    }

    /// Those to be left open have not differed often.
    #[must_use]
    pub fn early(self) -> Self {
        Sizes { are_early: true, ..self }
    }

    /// Whether the trace has left such open.
    #[must_use]
    pub fn are_open_early(&self) -> bool {
        self.are_early && self.are_open()
    }

    /// The least size that is left open.
    #[must_use]
    pub fn least(&self) -> i64 {
        self.least
    }

    /// Whether the trace has left any open.
    #[must_use]
    pub fn are_open(&self) -> bool {
        !self.left_open.is_empty()
    }

    /// Whether an earlier attempt has found that the value at the end of a path matters.
    #[must_use]
    pub(crate) fn is_closed(&self, path: ValuePath) -> bool {
        self.closed.contains(&Matters::Value(path))
    }

    /// Whether an earlier attempt has found that a parameter is changed in place.
    #[must_use]
    pub(crate) fn is_written(&self, parameter: ValuePath) -> bool {
        self.closed.contains(&Matters::AllWritten) || self.closed.contains(&Matters::Written(parameter))
    }

    /// Notes for the next attempt that a parameter is changed in place.
    pub(crate) fn note_written(&mut self, parameter: ValuePath) -> Unwind {
        let several = self.closed.iter().any(|known| matches!(known, Matters::Written(_) | Matters::AllWritten));
        self.settled.push(if several { Matters::AllWritten } else { Matters::Written(parameter) });
        Unwind::Restart(None)
    }

    /// Notes for the next attempt that what was left open matters.
    pub(crate) fn close_all(&mut self) -> Unwind {
        if self.at_first == OpenAtFirst::Marked {
            self.settled.extend(self.left_open.drain(..).map(Matters::Value));
        } else {
            self.settled.push(Matters::AtFirst(self.at_first.fewer()));
        }
        Unwind::Restart(None)
    }

    /// What the trace has found to matter.
    #[must_use]
    pub fn take_settled(&mut self) -> Vec<Matters> {
        std::mem::take(&mut self.settled)
    }
}
