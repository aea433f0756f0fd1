//! Which sizes of tensors a trace leaves open, according to what earlier traces have found.

use rustc_hash::FxHashSet;

use crate::error::Unwind;
use crate::policy;
use crate::value_path::ValuePath;

/// An open value that turned out to matter in an attempt; the next attempt specialises on it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ClosedValue {
    /// The value at the end of a path: a size or another number.
    Value(ValuePath),
    /// The parameter at the end of a path, which is changed in place. The next attempt makes it an input of the
    /// graph.
    Written(ValuePath),
    /// All parameters that are changed in place. A trace with several of them, as in a loop, then needs no attempt
    /// for each.
    AllWritten,
    /// One of the many sizes that were open from the first translation on, but not which one. The next attempt opens
    /// only the sizes of this set.
    AtFirst(OpenAtFirst),
}

/// The sizes that are left open from the first translation on. If one of many sizes matters, the trace cannot tell
/// which; the next attempt leaves fewer open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OpenAtFirst {
    /// Sizes that the user has marked.
    Marked,
    /// Marked sizes, and the first dimension of each tensor, by convention the batch dimension.
    Batch,
    /// All sizes.
    #[default]
    All,
}

impl OpenAtFirst {
    /// True if unmarked sizes of this dimension are left open.
    pub(crate) fn holds(self, axis: usize) -> bool {
        match self {
            OpenAtFirst::Marked => false,
            OpenAtFirst::Batch => axis == 0,
            OpenAtFirst::All => true,
        }
    }

    /// Returns the next smaller set.
    pub(crate) fn fewer(self) -> OpenAtFirst {
        match self {
            OpenAtFirst::All => OpenAtFirst::Batch,
            OpenAtFirst::Batch | OpenAtFirst::Marked => OpenAtFirst::Marked,
        }
    }
}

/// Which sizes a trace is to leave open, which it has left open, and which turned out to matter.
pub(crate) struct Sizes {
    pub(crate) wanted: FxHashSet<ValuePath>,
    closed: FxHashSet<ClosedValue>,
    pub(crate) least: i64,
    pub(crate) at_first: OpenAtFirst,
    pub(crate) left_open: Vec<ValuePath>,
    settled: Vec<ClosedValue>,
    /// True if the graph breaks where an open value matters, because specialising on it again would not be the last
    /// time.
    breaks: bool,
    /// True if some sizes are opened early, after having differed only once. If the graph breaks, the trace is thrown
    /// away, and the next attempt specialises on these sizes.
    pub(crate) are_early: bool,
    /// Number of translations for which an integer must have had another value before it is left open; `None`: never.
    pub(crate) opens_after: Option<usize>,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes::new(FxHashSet::default(), FxHashSet::default())
    }
}

impl Sizes {
    /// `wanted` are to be left open; `closed` matter, so they must not be.
    pub(crate) fn new(wanted: FxHashSet<ValuePath>, closed: FxHashSet<ClosedValue>) -> Self {
        Sizes {
            wanted,
            closed,
            least: policy::least_open(),
            at_first: OpenAtFirst::Marked,
            left_open: Vec::new(),
            settled: Vec::new(),
            breaks: false,
            are_early: false,
            opens_after: policy::opens_after(None),
        }
    }

    /// Applies the dynamic-shape setting of the function, if it has one.
    #[must_use]
    pub(crate) fn asked(self, asked: Option<bool>, at_first: OpenAtFirst) -> Self {
        let at_first = if asked == Some(true) { at_first } else { OpenAtFirst::Marked };
        Sizes { opens_after: policy::opens_after(asked), at_first, ..self }
    }

    /// Marks some of the sizes to be left open as early: they have not differed often.
    #[must_use]
    pub(crate) fn early(self) -> Self {
        Sizes { are_early: true, ..self }
    }

    /// Leaves open what earlier translations have specialised on, except `closed`, and breaks the graph where an open
    /// value matters.
    #[must_use]
    pub(crate) fn breaking(self, closed: FxHashSet<ClosedValue>) -> Self {
        Sizes { closed, breaks: true, are_early: false, ..self }
    }

    /// True if the graph breaks where an open value matters.
    #[must_use]
    pub(crate) fn breaks(&self) -> bool {
        self.breaks
    }

    /// True if the trace has left sizes open early.
    #[must_use]
    pub(crate) fn are_open_early(&self) -> bool {
        self.are_early && self.are_open()
    }

    /// True if the trace has left any size open.
    #[must_use]
    pub(crate) fn are_open(&self) -> bool {
        !self.left_open.is_empty()
    }

    /// True if an earlier attempt has found that the value at the end of a path matters.
    #[must_use]
    pub(crate) fn is_closed(&self, path: ValuePath) -> bool {
        self.closed.contains(&ClosedValue::Value(path))
    }

    /// True if an earlier attempt has found that a parameter is changed in place.
    #[must_use]
    pub(crate) fn is_written(&self, parameter: ValuePath) -> bool {
        self.closed.contains(&ClosedValue::AllWritten) || self.closed.contains(&ClosedValue::Written(parameter))
    }

    /// Notes for the next attempt that a parameter is changed in place, and returns the restart.
    pub(crate) fn note_written(&mut self, parameter: ValuePath) -> Unwind {
        let several =
            self.closed.iter().any(|known| matches!(known, ClosedValue::Written(_) | ClosedValue::AllWritten));
        self.settled.push(if several { ClosedValue::AllWritten } else { ClosedValue::Written(parameter) });
        Unwind::Restart(None)
    }

    /// Notes for the next attempt that the open sizes matter, and returns the restart. Of sizes that were open from
    /// the first translation on, only some are closed.
    pub(crate) fn close_all(&mut self) -> Unwind {
        if self.at_first == OpenAtFirst::Marked {
            self.settled.extend(self.left_open.drain(..).map(ClosedValue::Value));
        } else {
            self.settled.push(ClosedValue::AtFirst(self.at_first.fewer()));
        }
        Unwind::Restart(None)
    }

    /// Returns the values that the trace has found to matter, and forgets them.
    #[must_use]
    pub(crate) fn take_settled(&mut self) -> Vec<ClosedValue> {
        std::mem::take(&mut self.settled)
    }
}
