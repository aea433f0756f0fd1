//! The policy: what becomes of values that differ from call to call, and when a trace or a code object has had enough.
//! The numbers stand here with their reasons; others ask.
//!
//! A value that has been another one in earlier calls is, in this order:
//! 1. assumed, each time in a translation of its own, while there are few ([`assumed_at_most`]),
//! 2. left open, if it is a size or number that a graph can be given ([`opens_after`], [`sizes_open_after`]),
//! 3. computed anew by the new code, if nothing asks for its value,
//! 4. asked for in CPython: the graph breaks at the instruction that needs it.

use crate::env;

/// What becomes of values that differ from call to call, where they are needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ValuePolicy {
    /// Some are assumed, each in a translation of its own.
    #[default]
    Specialize,
    /// None is assumed once more.
    Generalize,
}

/// What is asked about a value that differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueClass {
    /// An `int`: of one, programs have few values more often.
    Integer,
    /// A `float`: a learning rate, a temperature.
    Float,
    /// A `str` or `bytes`.
    Text,
    /// A number or array of another library.
    Other,
}

/// So many values of one thing are assumed before the instruction that asks for it runs natively. Behind a graph break
/// (`is_resumed`) a number that differs is one that a loop counts in, as a rule.
pub fn assumed_at_most(class: ValueClass, policy: ValuePolicy, is_resumed: bool) -> usize {
    let generalizes = policy == ValuePolicy::Generalize;
    match class {
        ValueClass::Text if !generalizes => TEXTS,
        _ if is_resumed || generalizes => 1,
        ValueClass::Float => 4,
        ValueClass::Integer | ValueClass::Text => 8,
        ValueClass::Other => 3,
    }
}

/// So many values of one text are assumed.
pub const TEXTS: usize = 3;

/// In how many translations an integer, or a size where something tells against it, must have been another one to be
/// left open, if it ever is: as was asked for the function, else by `SOT_ALLOW_DYNAMIC_SHAPE`, which is read each time.
/// The two that a program may well alternate between keep translations of their own, which are faster.
pub fn opens_after(asked: Option<bool>) -> Option<usize> {
    match asked.or_else(|| env::is_on("SOT_ALLOW_DYNAMIC_SHAPE")) {
        None => Some(2),
        Some(true) => Some(0),
        Some(false) => None,
    }
}

/// The same for a size where nothing tells against it, and for a `float`, which may be one of many numbers computed
/// from one another: each would be assumed in turn.
pub fn sizes_open_after(asked: Option<bool>) -> Option<usize> {
    opens_after(asked).map(|enough| enough.min(1))
}

/// The least size that is left open (`SOT_SPECIALIZED_DIM_NUMBERS`): to what is empty, or is repeated where it meets
/// more, operations often do something else.
pub fn least_open() -> i64 {
    match std::env::var("SOT_SPECIALIZED_DIM_NUMBERS").as_deref() {
        Ok("0") => 1,
        Ok("no" | "NO" | "No") => 0,
        _ => 2,
    }
}

/// A number computed of more numbers than this is assumed: its guards would compute all of them.
pub const MAX_OPERANDS: usize = 32;
/// So many ways through the code behind a break are translated as a whole; then the graph breaks at each condition.
pub const MAX_PATHS: usize = 8;
/// Behind a break, an argument that has been so many objects is expected to be another one each time.
pub const MAX_OBJECTS: usize = 3;
/// So many translations of a function assume which tensor a cached function is given.
pub const MAX_CACHED_TENSORS: usize = 2;

/// So many translations go round a loop that was running before the trace more than once,
pub const MAX_UNROLLED: usize = 2;
/// and none where the graph breaks in more places than these: the rounds from one to the next are hardly ever the same.
pub const MAX_UNROLLED_PLACES: usize = 3;
/// So many translations in a loop are made before the rest of a round is left to CPython,
pub const MIN_IN_LOOP: u32 = 6;
/// and so many of each place: the first round may be unlike all others.
pub const MIN_OF_PLACE: usize = 2;

/// How many translations are enough for a loop.
pub struct LoopLimits {
    /// Of those that are not the first of their place.
    pub again: u32,
    /// Where a loop has so many, a place that has one has all that it needs.
    pub all: u32,
}

/// Of a loop that breaks in its own body.
pub const IN_LOOP: LoopLimits = LoopLimits { again: 3, all: 7 };
/// Of a loop that breaks in functions that it calls: in a round that is left they are translated on their own, which
/// takes as many as it saves.
pub const IN_CALLS: LoopLimits = LoopLimits { again: 5, all: 9 };

/// More entries than this for one code object are not made; those there are still hit. Asking 64 costs as much as a
/// small graph.
pub const MAX_ENTRIES: usize = 64;
/// After so many translations without tensor work, the code is left alone.
pub const MAX_EMPTY: u32 = 4;
/// So many traces of one code object are given up for signals.
pub const MAX_GIVEN_WAY: u32 = 3;
/// After so many frames that an entry leaves to CPython, the code is left alone.
pub const MAX_LEFT: u32 = 64;
/// Simulations of one frame that may be thrown away: because tracing changed an object, or something left open matters.
pub const MAX_RESTARTS: usize = 16;

/// So many translations of one code object are made in any case; further ones are paid for by calls that were served,
pub const FREE: u64 = 6;
/// and so many of one that was followed in all those of a caller that goes on changing.
pub const FREE_BELOW: u64 = 2;
/// For each of its resume functions, which share its account, so many more.
pub const FREE_BEHIND: u64 = 2;
/// So many of them assume what differs; the last one breaks where it is asked for.
pub const ASSUMING: u64 = 5;
/// Frames left to CPython that count as one that a translation served: what has settled meanwhile is found out some
/// day.
pub const LEFT_PER_HIT: u64 = 1_024;
/// After so many frames that were left, the entries that none has used are not asked any more.
pub const UNUSED_AFTER: u64 = 64;

/// More instructions than this in one trace are left to CPython.
pub const MAX_STEPS: u64 = 2_000_000;
/// So many are followed at first without meeting a tensor, in a function that the user has asked for,
pub const ASKED: Budget = Budget { first: 200_000, least: 12_500 };
/// and in one that nobody has.
pub const UNASKED: Budget = Budget { first: 100_000, least: 1_000 };
/// That is halved each time that so many have been followed in vain: simulation takes a hundred times as long as
/// execution.
pub const HALVED_AFTER: u64 = 50_000;
/// A loop longer than this is not unrolled into one list.
pub const MAX_ITEMS: usize = 100_000;
/// The values that a trace computes take at most so many bytes: it keeps all of them until it ends, and its new code
/// some of them for good.
pub const MAX_BYTES: usize = 64 << 20;

/// Of an object that is given to a function that becomes one statement as it is, so many parts are compared at each
/// call.
pub const MAX_STATE_PARTS: usize = 20_000;

/// How many instructions may be followed without meeting a tensor.
pub struct Budget {
    /// At first.
    pub first: u64,
    /// At least, however many were followed in vain.
    pub least: u64,
}

/// Deeper inlining than this is left to CPython: the simulation uses the native stack.
pub const MAX_DEPTH: usize = 200;
/// Of calls nested more deeply than this, the outer ones alone are taken apart where the graph breaks.
pub const MAX_RESUMABLE: usize = 24;
