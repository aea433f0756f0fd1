//! The policy: the treatment of values that differ from call to call, and when a trace, a loop or a code object gets no
//! more translations. The decisions are functions of what earlier calls have shown, and read the thresholds below,
//! each of which stands there with its reason.
//!
//! A value that differed in earlier calls is handled in this order:
//!
//! 1. specialised on, with one translation for each value, while these are few ([`specialises_on`]),
//! 2. left open, if it is a size or number that a graph can take as an input ([`SizePolicy`], [`opens_integer`],
//!    [`opens_float`]),
//! 3. recomputed by the new code, if nothing in the trace needs its value ([`recomputes`]),
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
    /// Specialises on each value, because a break would be an error: the function must become one graph.
    SpecializeAlways,
}

/// Class of a value that differs from call to call; each has its own maximum number of specialisations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueClass {
    /// An `int`.
    Integer,
    /// A `float`.
    Float,
    /// A `str` or `bytes`.
    Text,
    /// A number or array of another library.
    Other,
}

/// Returns whether a trace specialises on a value that was another one in `times_differed` translations. Otherwise the
/// instruction that needs the value runs natively. `is_resumed`: the value is needed behind a graph break.
pub fn specialises_on(class: ValueClass, times_differed: usize, policy: ValuePolicy, is_resumed: bool) -> bool {
    times_differed < assumed_at_most(class, policy, is_resumed)
}

/// Maximum number of specialisations on one value. Behind a graph break the limit for numbers is one, because a number
/// that differs there is usually a loop counter.
fn assumed_at_most(class: ValueClass, policy: ValuePolicy, is_resumed: bool) -> usize {
    let generalizes = policy == ValuePolicy::Generalize;
    match class {
        _ if policy == ValuePolicy::SpecializeAlways => usize::MAX,
        ValueClass::Text if !generalizes => MAX_TEXTS,
        _ if is_resumed || generalizes => 1,
        ValueClass::Float => MAX_FLOATS,
        ValueClass::Integer => MAX_INTEGERS,
        // A text here is one under `Generalize`, for which the arm above decides.
        ValueClass::Text | ValueClass::Other => MAX_OTHERS,
    }
}

/// Returns whether new code recomputes what depends on a number or text from outside, instead of the trace
/// specialising on it at the first look. `times_differed` is the number of translations for which the value was
/// another one, if that has ever happened. Any number behind a break may be a loop counter.
pub fn recomputes(is_text: bool, times_differed: Option<usize>, is_resumed: bool) -> bool {
    match times_differed {
        Some(times) => !is_text || is_resumed || times >= MAX_TEXTS,
        None => is_resumed && !is_text,
    }
}

/// Returns whether an integer is an input of the graph. `opens_after` is the answer of [`opens_after`] for the
/// function, or zero for a number computed from open sizes. `early`: it is the operand of an operator behind a break.
/// There one other value is enough, as the trace does not specialise on a second one ([`specialises_on`]).
pub fn opens_integer(times_differed: usize, opens_after: Option<usize>, early: bool) -> bool {
    let enough = opens_after.map(|enough| if early { enough.min(1) } else { enough });
    enough.is_some_and(|enough| times_differed >= enough)
}

/// Returns whether a `float` is an input of the graph. A `float` that has differed once may be one of many that are
/// computed from it, and each would be specialised on in turn.
pub fn opens_float(times_differed: usize, opens_after: Option<usize>) -> bool {
    opens_after.is_some_and(|enough| times_differed >= enough.min(1))
}

/// Number of translations for which an integer must have had another value before it is left open; `None`: it never
/// is. `asked` is the setting of the function; without one, `SOT_ALLOW_DYNAMIC_SHAPE` decides, which is read at each
/// call. The default is two, because a program may alternate between two values, and specialised translations are
/// faster.
pub fn opens_after(asked: Option<bool>) -> Option<usize> {
    match asked.or_else(|| env::is_on("SOT_ALLOW_DYNAMIC_SHAPE")) {
        None => Some(2),
        Some(true) => Some(0),
        Some(false) => None,
    }
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

/// How sizes of tensors that differ from call to call are treated in the translations of one function.
#[derive(Clone, Copy, Debug)]
pub enum SizePolicy {
    /// Every size that has differed is left open, because the user asked for that.
    AllOpen,
    /// A size is left open after it has differed `early` times. If the graph breaks in that translation, the size is
    /// specialised on until it has differed `often` times.
    OpenAfter {
        /// Number of translations for which a size must have been another one.
        early: usize,
        /// Like `early`, if an early opening has led to a graph break.
        often: usize,
    },
    /// No size is left open.
    NoneOpen,
}

/// Treatment of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeTreatment {
    /// The trace specialises on it.
    Specialize,
    /// It is left open although it has not differed often.
    OpenEarly,
    /// It is left open.
    Open,
}

impl SizePolicy {
    /// Returns the policy of a function. `asked`: the user wants sizes that differ left open; `broke_early`: the graph
    /// broke where sizes were opened early; `dynamic` is the dynamic-shape setting.
    pub fn new(asked: bool, broke_early: bool, dynamic: Option<bool>) -> SizePolicy {
        match opens_after(dynamic) {
            _ if asked => SizePolicy::AllOpen,
            Some(often) => SizePolicy::OpenAfter { early: if broke_early { often } else { often.min(1) }, often },
            None => SizePolicy::NoneOpen,
        }
    }

    /// Returns the treatment of a size that was another one in `times_differed` translations.
    pub fn treatment(self, times_differed: usize) -> SizeTreatment {
        match self {
            SizePolicy::OpenAfter { early, .. } if times_differed < early => SizeTreatment::Specialize,
            SizePolicy::OpenAfter { often, .. } if times_differed < often => SizeTreatment::OpenEarly,
            SizePolicy::AllOpen | SizePolicy::OpenAfter { .. } => SizeTreatment::Open,
            SizePolicy::NoneOpen => SizeTreatment::Specialize,
        }
    }
}

/// Returns whether the graph breaks at each condition on values that differ, behind a break of code that has this
/// many translations. Each condition whose answer is guarded doubles the number of paths through the code.
pub fn breaks_at_conditions(translations: usize) -> bool {
    translations >= MAX_PATHS
}

/// Returns whether a trace ends before an iteration of a loop that was running before the trace. `again`: it is not
/// the first iteration in the trace. `unrolled` is the number of translations that simulated more than one iteration;
/// `places` counts the places in the loop where the graph breaks.
pub fn ends_before_iteration(again: bool, unrolled: usize, places: impl FnOnce() -> usize) -> bool {
    unrolled >= MAX_UNROLLED || again && places() > MAX_UNROLLED_PLACES
}

/// Numbers of the translations of resume functions that resume inside one loop.
#[derive(Clone, Copy, Default, Debug)]
pub struct LoopTranslations {
    /// All translations.
    pub all: u32,
    /// Translations that are not the first of their resume function.
    pub again: u32,
    /// True if one of them resumes inside a function that the loop calls.
    pub in_call: bool,
}

/// Returns whether CPython runs the rest of an iteration instead of a further translation of a resume function, which
/// has been translated `of_place` times already.
pub fn leaves_iteration(made: LoopTranslations, of_place: u32) -> bool {
    let limits = if made.in_call { IN_CALLS } else { IN_LOOP };
    let many = of_place >= MIN_OF_PLACE && made.all >= MIN_IN_LOOP && made.again >= limits.again;
    of_place > 0 && (many || made.all >= limits.all)
}

/// Returns whether CPython runs the rest of a function instead of a further translation of a resume function, which has
/// been translated `of_place` times already. This is asked where CPython cannot run the rest of an iteration alone.
pub fn leaves_rest(of_place: u32) -> bool {
    of_place >= MAX_OF_PLACE
}

/// The translations of one code object and the hits that have to pay for them.
#[derive(Clone, Copy, Debug)]
pub struct Balance {
    /// Translations, without those that have been hit, and those that serve objects which last, such as models.
    pub translations: u64,
    /// Translated resume functions. One that begins with other calls counts as another one.
    pub resume_functions: u64,
    /// True if the code was inlined into a caller that has settled.
    pub is_inlined_into_settled: bool,
    /// Frames that ran a translation, since the last translation that had to be paid for.
    pub hits: u64,
    /// Frames left to CPython since then.
    pub frames_left: u64,
}

impl Balance {
    /// Returns whether one more translation is worth it. The price grows fast with the number of translations, because
    /// the hits of other translations do not show that this one will be hit.
    pub fn allows_translation(self) -> bool {
        let free = if self.is_inlined_into_settled { FREE_TRANSLATIONS_INLINED } else { FREE_TRANSLATIONS };
        let free = free + FREE_TRANSLATIONS_PER_RESUME_FUNCTION * self.resume_functions;
        let hits = self.hits + self.frames_left / FRAMES_LEFT_PER_HIT;
        let beyond = u32::try_from(self.translations.saturating_sub(FREE_TRANSLATIONS)).unwrap_or(u32::MAX);
        self.translations < free || hits >= FIRST_PRICE.saturating_mul(PRICE_GROWTH.saturating_pow(beyond))
    }

    /// Returns whether the next translation should serve all values instead of specialising on the present ones.
    pub fn should_generalize(self) -> bool {
        self.translations >= SPECIALISING_TRANSLATIONS && self.hits < self.translations * self.translations
    }
}

/// Maximum number of specialisations on one text.
const MAX_TEXTS: usize = 3;
/// Maximum number of specialisations on one `int`: the highest, because an integer in a program often alternates
/// between a few values, such as the stages of a schedule.
const MAX_INTEGERS: usize = 8;
/// Maximum number of specialisations on one `float`. Those of a program either differ at each step, such as a learning
/// rate, or alternate between two or three.
const MAX_FLOATS: usize = 4;
/// Maximum number of specialisations on one number or array of another library, which most often differs at each call.
const MAX_OTHERS: usize = 3;
/// A number computed from more operands than this is specialised on, because its guards would compute all operands.
pub const MAX_OPERANDS: usize = 32;
/// Maximum number of paths through the code behind a break that are translated as a whole. After that, the graph
/// breaks at each condition on values that differ.
const MAX_PATHS: usize = 8;
/// Number of objects that an argument behind a break must have been before it is expected to be another object at
/// each call.
pub const MAX_OBJECTS: usize = 3;
/// Maximum number of translations of a function that specialise on the tensor which a cached function
/// (`functools.lru_cache`) is called with.
pub const MAX_CACHED_TENSORS: usize = 2;

/// Maximum number of translations that simulate more than one iteration of a loop that was running before the trace.
const MAX_UNROLLED: usize = 2;
/// Such a loop is not unrolled at all if the graph breaks in more places than this: consecutive iterations hardly
/// ever break in the same places.
const MAX_UNROLLED_PLACES: usize = 3;
/// Minimum number of translations in a loop before the rest of an iteration is left to CPython.
const MIN_IN_LOOP: u32 = 6;
/// Minimum number of translations of one resume function before the rest of an iteration is left to CPython: the
/// first iteration may differ from all others.
const MIN_OF_PLACE: u32 = 2;
/// Maximum number of translations of one resume function in a loop where the rest of an iteration cannot be left to
/// CPython, for example because the loop may leave a variable unbound.
const MAX_OF_PLACE: u32 = 6;

/// Numbers of translations of resume functions at which a loop gets no more.
struct LoopLimits {
    /// Maximum number of translations that are not the first of their resume function.
    again: u32,
    /// Once the loop has this many translations, a resume function that has a translation gets no other one.
    all: u32,
}

/// Limits of a loop whose graph breaks are in its own body.
const IN_LOOP: LoopLimits = LoopLimits { again: 3, all: 7 };
/// Limits of a loop whose graph breaks are in functions that it calls. They are higher because in an iteration that
/// is left to CPython these functions are translated on their own, which takes as many translations as the limit
/// saves.
const IN_CALLS: LoopLimits = LoopLimits { again: 5, all: 9 };

/// Maximum number of entries of one code object. Those that exist are still used. Testing the guards of 64 entries
/// costs as much as running a small graph.
pub const MAX_ENTRIES: usize = 64;
/// Number of translations without tensor work after which the code is left alone.
pub const MAX_EMPTY: u32 = 4;
/// Number of calls in which graphs of one code object raise though the program does not, after which its translations
/// are dropped and nothing is left open. One may be a program that catches the error of one batch.
pub const MAX_GRAPH_ERRORS: u32 = 2;
/// Maximum number of traces of one code object that are given up because a signal waits.
pub const MAX_GIVEN_WAY: u32 = 3;
/// Maximum number of calls of a function that are left to CPython so that they fill the caches of cached functions
/// (`functools.lru_cache`). After that, the graph breaks where a cached function has no result for its arguments.
pub const MAX_FILLING: u32 = 4;
/// Number of hits after which a translation that has met no tensor is given back to CPython, if none of its resume
/// functions has met one. Until then it may still come to them in another branch.
pub const HITS_WITHOUT_TENSORS: u64 = 64;
/// Number of frames left to CPython by entries without new code after which the code is left alone.
pub const MAX_FRAMES_LEFT: u32 = 64;
/// Maximum number of simulations of one frame. A simulation is repeated when tracing has changed an object, or when a
/// value that was left open matters.
pub const MAX_RESTARTS: usize = 16;

/// Number of translations of one code object that need not be paid for by the hits of earlier ones.
pub const FREE_TRANSLATIONS: u64 = 6;
/// [`FREE_TRANSLATIONS`] for code that was inlined into a caller that has settled.
const FREE_TRANSLATIONS_INLINED: u64 = 2;
/// Added to [`FREE_TRANSLATIONS`] or [`FREE_TRANSLATIONS_INLINED`] for each resume function of the code, which shares
/// the account of translations.
const FREE_TRANSLATIONS_PER_RESUME_FUNCTION: u64 = 2;
/// Number of hits that pay for the first translation beyond the free ones.
const FIRST_PRICE: u64 = 18;
/// Each further translation costs this many times the hits of the one before.
const PRICE_GROWTH: u64 = 4;
/// Maximum number of translations that are exempt from the account because they have been hit: their values occur
/// again. Testing the guards of more entries at each call takes longer than running a small graph saves.
pub const MAX_RECURRING: usize = 32;
/// Number of translations that specialise on values that differ. The next one, which is the last free one, does not:
/// its graph breaks where such a value is needed.
const SPECIALISING_TRANSLATIONS: u64 = 5;
/// Number of frames left to CPython that count as one hit, so that code that has stopped changing is translated again
/// at some time.
const FRAMES_LEFT_PER_HIT: u64 = 1_024;
/// Number of frames left to CPython after which entries that have never been hit are dropped.
pub const DROP_UNUSED_AFTER: u64 = 64;

/// Maximum number of instructions in one trace.
pub const MAX_STEPS: u64 = 2_000_000;
/// Number of instructions that a trace may take without meeting a tensor, in a function that the user has asked for.
pub const BUDGET_WHEN_ASKED_FOR: Budget = Budget { first: 100_000, least: 12_500 };
/// [`BUDGET_WHEN_ASKED_FOR`] for a function that the user has not asked for.
pub const BUDGET_WHEN_NOT_ASKED_FOR: Budget = Budget { first: 50_000, least: 1_000 };
/// The budget is halved each time this many instructions have been simulated without meeting a tensor, because
/// simulation takes a hundred times as long as execution.
pub const HALVED_AFTER: u64 = 50_000;
/// Maximum number of items that are made at once, as when an iterator is unrolled into a list.
pub const MAX_ITEMS: usize = 100_000;
/// Maximum number of bytes of the values that a trace computes. The trace keeps all of them until it ends, and the
/// new code keeps some of them for good.
pub const MAX_BYTES: usize = 64 << 20;

/// Number of items that are copied in the time of one instruction.
pub const ITEMS_PER_STEP: u64 = 16;
/// Values up to this number of bytes are not counted, because there are at most as many as instructions.
pub const MAX_UNCOUNTED_BYTES: usize = 256;
/// Number of instructions between checks for a signal.
pub const SIGNAL_STEPS: u64 = 1_024;
/// Number of instructions between reports of progress.
pub const PROGRESS_STEPS: u64 = 64;
/// Maximum number of instructions for which a signal's handler waits.
pub const MAX_WAITING_STEPS: u64 = 32 * SIGNAL_STEPS;

/// Maximum number of parts of an object that are compared at each call. This concerns objects that are passed to a
/// function that becomes one statement as a whole.
pub const MAX_STATE_PARTS: usize = 20_000;
/// Maximum number of bytes of the arrays among these parts. Reading and comparing so many takes some ten microseconds.
pub const MAX_STATE_BYTES: usize = 1 << 20;

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
/// Maximum number of calls simulated within one another, of any kind, because each takes space on the native stack.
pub const MAX_NESTED: usize = 256;
/// Maximum number of times that a generator may yield while it is closed.
pub const MAX_YIELDS: usize = 4;
/// Maximum number of objects that one trace looks at for values whose destruction is observable.
pub const MAX_LOOKED_AT: usize = 10_000;
/// Maximum number of values in one object that are looked at for the same reason.
pub const MAX_LOOKED_THROUGH: usize = 1_000;
/// Maximum number of pairs of objects that have a guard each that they are not the same object; more pairs share one
/// guard.
pub const MAX_PAIRS: usize = 64;
/// Maximum number of accounts of translations that are kept by source text. Beyond it all of them are forgotten.
pub const MAX_ACCOUNTS_BY_SOURCE: usize = 4_096;
