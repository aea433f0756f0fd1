//! Which sizes of tensors a trace leaves open, by what earlier traces have found.

use std::collections::HashSet;

use crate::env;
use crate::error::Unwind;

/// An integer that was another one in so many translations is left open, and so is a size where something tells against
/// it: the two that a program may well alternate between keep translations of their own, which are faster.
const OTHERS: usize = 2;

/// The same for a size where nothing does.
const OTHER_SIZES: usize = 1;

/// In how many translations a size or integer must have been another one to be left open, if it ever is: as was asked
/// for the function, else by `SOT_ALLOW_DYNAMIC_SHAPE`, which is asked each time, as tests switch it.
pub fn opens_after(asked: Option<bool>) -> Option<usize> {
    match asked.or_else(|| env::is_on("SOT_ALLOW_DYNAMIC_SHAPE")) {
        None => Some(OTHERS),
        Some(true) => Some(0),
        Some(false) => None,
    }
}

/// In how many translations a size must have been another one to be left open, if nothing tells against it.
pub fn sizes_open_after(asked: Option<bool>) -> Option<usize> {
    opens_after(asked).map(|enough| enough.min(OTHER_SIZES))
}

/// The least size that is left open (`SOT_SPECIALIZED_DIM_NUMBERS`): to what is empty, or is repeated where it meets
/// more, operations often do something else.
fn least_open() -> i64 {
    match std::env::var("SOT_SPECIALIZED_DIM_NUMBERS").as_deref() {
        Ok("0") => 1,
        Ok("no" | "NO" | "No") => 0,
        _ => 2,
    }
}

/// The sizes that the first translation leaves open already. Where one of many matters, which one cannot be told: fewer
/// are left open in the next attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OpenAtFirst {
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

/// What is known of sizes when a trace begins, and what it makes of them. A size is named by the text of its tracker.
pub struct Sizes {
    pub(crate) wanted: HashSet<String>,
    pub(crate) closed: HashSet<String>,
    pub(crate) least: i64,
    pub(crate) at_first: OpenAtFirst,
    /// What is to be open at first from here on, if too many were.
    pub(crate) fewer: Option<OpenAtFirst>,
    pub(crate) left_open: Vec<String>,
    pub(crate) settled: Vec<String>,
    /// Whether some were to be left open early: a break of the graph tells against it.
    pub(crate) are_early: bool,
    /// In how many translations an integer must have been another one to be left open, too.
    pub(crate) opens_after: Option<usize>,
    /// Whether it takes a `float` that is one.
    pub(crate) floats_are_taken: bool,
    /// Whether it may refuse such a `float` that is not finite, or too large.
    pub(crate) floats_are_checked: bool,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes::new(HashSet::new(), HashSet::new())
    }
}

impl Sizes {
    /// Those that are to be left open, and those that must not be.
    pub fn new(wanted: HashSet<String>, closed: HashSet<String>) -> Self {
        Sizes {
            wanted,
            closed,
            least: least_open(),
            at_first: OpenAtFirst::Marked,
            fewer: None,
            left_open: Vec::new(),
            settled: Vec::new(),
            are_early: false,
            opens_after: opens_after(None),
            floats_are_taken: false,
            floats_are_checked: false,
        }
    }

    /// What was asked for the function counts.
    #[must_use]
    pub(crate) fn asked(self, asked: Option<bool>, at_first: OpenAtFirst) -> Self {
        let at_first = if asked == Some(true) { at_first } else { OpenAtFirst::Marked };
        Sizes { opens_after: opens_after(asked), at_first, ..self }
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

    /// Whether an earlier attempt has found that it matters.
    #[must_use]
    pub(crate) fn is_closed(&self, name: &str) -> bool {
        self.closed.contains(name)
    }

    /// All that earlier attempts have found to matter.
    pub(crate) fn closed(&self) -> impl Iterator<Item = &str> {
        self.closed.iter().map(String::as_str)
    }

    /// Notes for the next attempt what matters.
    pub(crate) fn close(&mut self, name: String) -> Unwind {
        self.settled.push(name);
        Unwind::Restart(None)
    }

    /// Those that the trace has found to matter.
    #[must_use]
    pub fn take_settled(&mut self) -> Vec<String> {
        std::mem::take(&mut self.settled)
    }
}
