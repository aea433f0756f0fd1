//! Which sizes of tensors a trace leaves open, by what earlier traces have found.

use std::collections::HashSet;

use crate::env;
use crate::error::Unwind;
use crate::place::Place;

/// An integer that was another one in so many translations is left open, and so is a size where something tells against
/// it: the two that a program may well alternate between keep translations of their own, which are faster.
const OTHERS: usize = 2;

/// The same for a size where nothing does.
const OTHER_SIZES: usize = 1;

/// In how many translations a size or integer must have been another one to be left open, if it ever is
/// (`SOT_ALLOW_DYNAMIC_SHAPE`). Asked each time, as tests switch it.
pub fn opens_after() -> Option<usize> {
    match env::is_on("SOT_ALLOW_DYNAMIC_SHAPE") {
        None => Some(OTHERS),
        Some(true) => Some(0),
        Some(false) => None,
    }
}

/// In how many translations a size must have been another one to be left open, if nothing tells against it.
pub fn sizes_open_after() -> Option<usize> {
    opens_after().map(|enough| enough.min(OTHER_SIZES))
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

/// What an attempt at a trace found to matter: the next one assumes it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Matters {
    /// The value at a place: a size, or another number.
    Value(Place),
    /// That the parameter at a place is changed in place: it is an input at each call.
    Written(Place),
    /// That several are, as they are in loops: not one more attempt for each.
    AllWritten,
}

/// What is known of sizes when a trace begins, and what it makes of them.
pub struct Sizes {
    pub(crate) wanted: HashSet<Place>,
    closed: HashSet<Matters>,
    pub(crate) least: i64,
    pub(crate) left_open: Vec<Place>,
    settled: Vec<Matters>,
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
    pub fn new(wanted: HashSet<Place>, closed: HashSet<Matters>) -> Self {
        Sizes {
            wanted,
            closed,
            least: least_open(),
            left_open: Vec::new(),
            settled: Vec::new(),
            are_early: false,
            opens_after: opens_after(),
            floats_are_taken: false,
            floats_are_checked: false,
        }
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

    /// Whether an earlier attempt has found that the value at a place matters.
    #[must_use]
    pub(crate) fn is_closed(&self, place: Place) -> bool {
        self.closed.contains(&Matters::Value(place))
    }

    /// Whether an earlier attempt has found that a parameter is changed in place.
    #[must_use]
    pub(crate) fn is_written(&self, parameter: Place) -> bool {
        self.closed.contains(&Matters::AllWritten) || self.closed.contains(&Matters::Written(parameter))
    }

    /// Notes for the next attempt that a parameter is changed in place.
    pub(crate) fn note_written(&mut self, parameter: Place) -> Unwind {
        let several = self.closed.iter().any(|known| matches!(known, Matters::Written(_) | Matters::AllWritten));
        self.settled.push(if several { Matters::AllWritten } else { Matters::Written(parameter) });
        Unwind::Restart(None)
    }

    /// Notes for the next attempt that what was left open matters.
    pub(crate) fn close_all(&mut self) -> Unwind {
        self.settled.extend(self.left_open.drain(..).map(Matters::Value));
        Unwind::Restart(None)
    }

    /// What the trace has found to matter.
    #[must_use]
    pub fn take_settled(&mut self) -> Vec<Matters> {
        std::mem::take(&mut self.settled)
    }
}
