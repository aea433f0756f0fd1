//! The policy for values that differ from call to call, and every threshold at which a trace or a code object is
//! given up. Each number stands here with its reason; other modules read it.
//!
//! A value that differed in earlier calls is handled in this order:
//!
//! 1. specialised on, with one translation for each value, while these are few ([`assumed_at_most`]),
//! 2. left open, if it is a size or number that a graph can take as an input ([`opens_after`], [`sizes_open_after`]),
//! 3. recomputed by the new code, if nothing in the trace needs its value,
//! 4. read by CPython: the graph breaks before the instruction that needs the value.

use crate::env;

/// How a translation treats values that differ from call to call, at the instructions that need them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ValuePolicy {
    /// Specialises on a limited number of values, each in a translation of its own.
    #[default]
    Specialize,
    /// Does not specialise on yet another value.
    Generalize,
}

/// Class of a value that differs from call to call; each has a limit of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueClass {
    /// An `int`. It has the highest limit, because an integer in a program often alternates between a few values.
    Integer,
    /// A `float`: a learning rate, a temperature.
    Float,
    /// A `str` or `bytes`.
    Text,
    /// A number or array of another library.
    Other,
}

/// Maximum number of specialisations on one value; after that, the instruction that needs the value runs natively.
/// Behind a graph break (`is_resumed`) the limit for numbers is one, because a number that differs there is usually a
/// loop counter.
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

/// Maximum number of specialisations on one text.
pub const TEXTS: usize = 3;

/// Number of translations for which an integer must have had another value before it is left open; `None`: it never
/// is. The same number holds for a size whose early opening has led to a graph break. `asked` is the setting of the
/// function; without one, `SOT_ALLOW_DYNAMIC_SHAPE` decides, which is read at each call. The default is two, because
/// a program may alternate between two values, and specialised translations are faster.
pub fn opens_after(asked: Option<bool>) -> Option<usize> {
    match asked.or_else(|| env::is_on("SOT_ALLOW_DYNAMIC_SHAPE")) {
        None => Some(2),
        Some(true) => Some(0),
        Some(false) => None,
    }
}

/// Like [`opens_after`], for a size that may be opened early, and for a `float`. The limit is at most one for a
/// `float` because a computed `float` takes many values, and each would be specialised on in turn.
pub fn sizes_open_after(asked: Option<bool>) -> Option<usize> {
    opens_after(asked).map(|enough| enough.min(1))
}

/// The smallest size that is left open (`SOT_SPECIALIZED_DIM_NUMBERS`). Operations often treat the sizes 0 (empty)
/// and 1 (broadcast) specially.
pub fn least_open() -> i64 {
    match std::env::var("SOT_SPECIALIZED_DIM_NUMBERS").as_deref() {
        Ok("0") => 1,
        Ok("no" | "NO" | "No") => 0,
        _ => 2,
    }
}

/// A number computed from more operands than this is specialised on, because its guards would compute all operands.
pub const MAX_OPERANDS: usize = 32;
/// Maximum number of paths through the code behind a break that are translated as a whole. After that, the graph
/// breaks at each condition on values that differ.
pub const MAX_PATHS: usize = 8;
/// Number of objects that an argument behind a break must have been before it is expected to be another object at
/// each call.
pub const MAX_OBJECTS: usize = 3;
/// Maximum number of translations of a function that specialise on the tensor which a cached function
/// (`functools.lru_cache`) is called with.
pub const MAX_CACHED_TENSORS: usize = 2;

/// Maximum number of translations that simulate more than one iteration of a loop that was running before the trace.
pub const MAX_UNROLLED: usize = 2;
/// Such a loop is not unrolled at all if the graph breaks in more places than this: consecutive iterations hardly
/// ever break in the same places.
pub const MAX_UNROLLED_PLACES: usize = 3;
/// Minimum number of translations in a loop before the rest of an iteration is left to CPython.
pub const MIN_IN_LOOP: u32 = 6;
/// Minimum number of translations of one resume function before the rest of an iteration is left to CPython: the
/// first iteration may differ from all others.
pub const MIN_OF_PLACE: usize = 2;

/// Numbers of translations of resume functions at which a loop gets no more.
pub struct LoopLimits {
    /// Maximum number of translations that are not the first of their resume function.
    pub again: u32,
    /// Once the loop has this many translations, a resume function that has a translation gets no other one.
    pub all: u32,
}

/// Limits of a loop whose graph breaks are in its own body.
pub const IN_LOOP: LoopLimits = LoopLimits { again: 3, all: 7 };
/// Limits of a loop whose graph breaks are in functions that it calls. They are higher because in an iteration that
/// is left to CPython these functions are translated on their own, which takes as many translations as the limit
/// saves.
pub const IN_CALLS: LoopLimits = LoopLimits { again: 5, all: 9 };

/// Maximum number of entries of one code object. Those that exist are still used. Testing the guards of 64 entries
/// costs as much as running a small graph.
pub const MAX_ENTRIES: usize = 64;
/// Number of translations without tensor work after which the code is left alone.
pub const MAX_EMPTY: u32 = 4;
/// Maximum number of traces of one code object that are given up because a signal waits.
pub const MAX_GIVEN_WAY: u32 = 3;
/// Number of frames left to CPython by entries without new code after which the code is left alone.
pub const MAX_LEFT: u32 = 64;
/// Maximum number of simulations of one frame. A simulation is repeated when tracing has changed an object, or when a
/// value that was left open matters.
pub const MAX_RESTARTS: usize = 16;

/// Number of translations of one code object that need not be paid for by the hits of earlier ones.
pub const FREE: u64 = 6;
/// [`FREE`] for code that was inlined into a caller that has settled.
pub const FREE_BELOW: u64 = 2;
/// Added to [`FREE`] or [`FREE_BELOW`] for each resume function of the code, which shares the account of
/// translations.
pub const FREE_BEHIND: u64 = 2;
/// Number of translations that specialise on values that differ. The next one, which is the last free one, does not:
/// its graph breaks where such a value is needed.
pub const ASSUMING: u64 = 5;
/// Number of frames left to CPython that count as one hit, so that code that has stopped changing is translated again
/// at some time.
pub const LEFT_PER_HIT: u64 = 1_024;
/// Number of frames left to CPython after which entries that have never been hit are dropped.
pub const UNUSED_AFTER: u64 = 64;

/// Maximum number of instructions in one trace.
pub const MAX_STEPS: u64 = 2_000_000;
/// Number of instructions that a trace may take without meeting a tensor, in a function that the user has asked for.
pub const ASKED: Budget = Budget { first: 200_000, least: 12_500 };
/// [`ASKED`] for a function that the user has not asked for.
pub const UNASKED: Budget = Budget { first: 100_000, least: 1_000 };
/// The budget is halved each time this many instructions have been simulated without meeting a tensor, because
/// simulation takes a hundred times as long as execution.
pub const HALVED_AFTER: u64 = 50_000;
/// Maximum number of items that are made at once, as when an iterator is unrolled into a list.
pub const MAX_ITEMS: usize = 100_000;
/// Maximum number of bytes of the values that a trace computes. The trace keeps all of them until it ends, and the
/// new code keeps some of them for good.
pub const MAX_BYTES: usize = 64 << 20;

/// Maximum number of parts of an object that are compared at each call. This concerns objects that are passed to a
/// function that becomes one statement as a whole.
pub const MAX_STATE_PARTS: usize = 20_000;

/// Number of instructions that a trace may take without meeting a tensor.
pub struct Budget {
    /// The number before any instructions were simulated in vain.
    pub first: u64,
    /// The least number, however many instructions were simulated in vain.
    pub least: u64,
}

/// Maximum depth of inlined calls, because the simulation uses the native stack.
pub const MAX_DEPTH: usize = 200;
/// Maximum depth of nested calls at which a graph break is resumed inside the callee. Below it, the graph breaks at
/// the call in an outer frame.
pub const MAX_RESUMABLE: usize = 24;
