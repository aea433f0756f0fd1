//! What holds a value of the trace: the frames, and the writes that leave it in objects which outlive the frame. What
//! was found is kept as chains, which are cheap to check again at each instruction.

use std::cell::Cell;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::reachable;
use crate::machine::executor::{Frame, Name, OpcodeExecutor, Trace};
use crate::machine::variable::VarId;
use crate::side_effects::Effect;
use crate::stats;
use crate::tracker::TrackerId;

/// The chains that hold the watched values. Many values are held by one chain.
#[derive(Default)]
pub(super) struct Chains {
    pub(super) all: Vec<Chain>,
    /// For each chain, the local variable in which its first value was found last.
    locals: Vec<Cell<LocalPlace>>,
    places: FxHashMap<Chain, usize>,
    /// The place of each watched value's chain. `None` if no chain is known to hold it.
    pub(super) of: Vec<Option<usize>>,
    /// Number of watched values that have a place.
    pub(super) placed: usize,
}

/// A local variable: the numbers of its frame and of its slot.
#[derive(Clone, Copy, Default)]
struct LocalPlace {
    frame: usize,
    slot: usize,
}

/// What holds a value: each value of the chain holds the next one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Chain {
    values: Vec<VarId>,
    held_by: HeldBy,
}

/// What holds the first value of a chain.
#[derive(Clone, PartialEq, Eq, Hash)]
enum HeldBy {
    /// A frame, or an exception that is being handled.
    Frame,
    /// An object that outlives the frame, by a write. It is the first value of the chain.
    Write,
    /// A global that the trace has bound to the value.
    Global(TrackerId, Name),
    /// A call that is made again, by its place among the effects.
    Call(usize),
}

impl Chains {
    /// Adds the chain of the next watched value, if one is known.
    pub(super) fn add(&mut self, chain: Option<Chain>) {
        let Some(chain) = chain else { return self.of.push(None) };
        let next = self.all.len();
        let place = *self.places.entry(chain.clone()).or_insert(next);
        if place == next {
            self.all.push(chain);
            self.locals.push(Cell::default());
        }
        self.of.push(Some(place));
        self.placed += 1;
    }

    /// For each chain, whether it still holds its last value.
    pub(super) fn still_hold<'a>(&'a self, cx: &'a OpcodeExecutor<'_>) -> impl Iterator<Item = bool> + 'a {
        let mut held = HeldValues::default();
        self.all.iter().zip(&self.locals).map(move |(chain, local)| still_holds(cx, chain, local, &mut held))
    }
}

/// The values that each holder holds, and those that it keeps alive, found once for all chains. One list may hold many
/// watched values.
#[derive(Default)]
struct HeldValues {
    held: FxHashMap<VarId, FxHashSet<VarId>>,
    kept: FxHashMap<VarId, FxHashSet<VarId>>,
}

impl HeldValues {
    fn is_held(&mut self, trace: &Trace<'_>, holder: VarId, value: VarId) -> bool {
        self.held.entry(holder).or_insert_with(|| held_by(trace, holder).into_iter().collect()).contains(&value)
    }

    fn is_kept(&mut self, trace: &Trace<'_>, holder: VarId, value: VarId) -> bool {
        self.kept.entry(holder).or_insert_with(|| kept_by(trace, holder).into_iter().collect()).contains(&value)
    }
}

fn still_holds(cx: &OpcodeExecutor<'_>, chain: &Chain, local: &Cell<LocalPlace>, held: &mut HeldValues) -> bool {
    let first = chain.values[0];
    let begins = match &chain.held_by {
        HeldBy::Frame => is_in_local(cx, first, local) || is_in_a_frame(cx, first),
        HeldBy::Write => reachable::outlives(&cx.trace, first),
        HeldBy::Global(globals, name) => is_global(&cx.trace, *globals, name, first),
        HeldBy::Call(place) => matches!(cx.trace.effects.log().get(*place), Some(Effect::Call { .. })),
    };
    begins
        && chain.values.windows(2).enumerate().all(|(place, pair)| match chain.held_by {
            HeldBy::Write if place == 0 => held.is_held(&cx.trace, pair[0], pair[1]),
            HeldBy::Frame => held.is_held(&cx.trace, pair[0], pair[1]),
            _ => held.is_kept(&cx.trace, pair[0], pair[1]),
        })
}

/// True if a local variable of a frame holds the value. The variable where it was found last is looked at first, and
/// is remembered in `local`.
fn is_in_local(cx: &OpcodeExecutor<'_>, value: VarId, local: &Cell<LocalPlace>) -> bool {
    let LocalPlace { frame, slot } = local.get();
    if cx.stack.get(frame).is_some_and(|frame| frame.locals.get(slot) == Some(&Some(value))) {
        return true;
    }
    let slot_in = |frame: &Frame| frame.locals.iter().position(|local| *local == Some(value));
    let found =
        cx.stack.iter().enumerate().find_map(|(at, frame)| Some(LocalPlace { frame: at, slot: slot_in(frame)? }));
    found.map(|found| local.set(found)).is_some()
}

/// True if a frame or an exception that is being handled holds the value itself.
fn is_in_a_frame(cx: &OpcodeExecutor<'_>, value: VarId) -> bool {
    let directly = |frame: &Frame| {
        frame.locals.contains(&Some(value))
            || frame.stack.contains(&value)
            || frame.cells.contains(&value)
            || frame.handled.iter().any(|handled| handled.exception == value)
    };
    cx.stack.iter().any(directly)
}

/// The values that a value holds.
fn held_by(trace: &Trace<'_>, holder: VarId) -> Vec<VarId> {
    let mut held = trace.vars.get(holder).holds();
    held.extend(trace.effects.attributes_of(holder).into_iter().map(|(_, value)| value));
    stats::work(held.len());
    held
}

/// The values that a value which remains keeps alive: those it needs in order to exist, without those that are only
/// needed to compute it.
fn kept_by(trace: &Trace<'_>, holder: VarId) -> Vec<VarId> {
    let mut kept = reachable::next_of(trace, holder);
    let payload = trace.vars.get(holder);
    let (children, held) = (payload.children(), payload.holds());
    if held.len() < children.len() {
        kept.retain(|value| held.contains(value) || !children.contains(value));
    }
    kept
}

/// What holds each value of the trace at one moment. It is found out at most once for all watched values.
#[derive(Default)]
pub(super) struct Holders {
    /// The holder of each value that a frame holds, or a handled exception, since the thread holds that. A value that
    /// the frame itself holds is its own holder.
    of_frames: Option<FxHashMap<VarId, VarId>>,
    /// The holder of each value that remains, after all writes, in an object that outlives the frame. A value that the
    /// write itself leaves is its own holder.
    lasting: Option<FxHashMap<VarId, VarId>>,
}

impl Holders {
    /// Looks for what holds a value, given by its variable and those of the objects on the path to it. Returns whether
    /// anything does, and the chain, which is `None` if it has to be looked for again each time.
    pub(super) fn find(&mut self, cx: &OpcodeExecutor<'_>, parts: &[VarId]) -> (bool, Option<Chain>) {
        let of_frame = |values| (true, Some(Chain { values, held_by: HeldBy::Frame }));
        if let Some(part) = parts.iter().copied().find(|part| is_in_a_frame(cx, *part)) {
            return of_frame(vec![part]);
        }
        let holders = self.of_frames.get_or_insert_with(|| holders_in_frames(cx));
        if let Some(values) = parts.iter().find_map(|part| chain_to(holders, *part)) {
            return of_frame(values);
        }
        let next_of = |value| kept_by(&cx.trace, value);
        let lasting =
            self.lasting.get_or_insert_with(|| walk(reachable::values_left_outside(&cx.trace).into_iter(), next_of));
        match parts.iter().find_map(|part| chain_to(lasting, *part)) {
            Some(values) => (true, begin_at_writer(&cx.trace, values)),
            None => (false, None),
        }
    }
}

/// True if a frame holds the value, or an exception that is being handled does, since the thread holds that.
pub(super) fn is_held(cx: &OpcodeExecutor<'_>, value: VarId) -> bool {
    is_in_a_frame(cx, value) || holders_in_frames(cx).contains_key(&value)
}

/// The holder of each value that the frames and the handled exceptions hold.
fn holders_in_frames(cx: &OpcodeExecutor<'_>) -> FxHashMap<VarId, VarId> {
    let frames = cx.stack.iter();
    let handled = frames.clone().flat_map(|frame| &frame.handled).map(|handled| handled.exception);
    let variables = |frame: &Frame| {
        let locals = frame.locals.iter().flatten();
        locals.chain(&frame.stack).chain(&frame.cells).copied().collect::<Vec<_>>()
    };
    walk(frames.flat_map(variables).chain(handled), |holder| held_by(&cx.trace, holder))
}

/// Returns the chain from what a write has left the first value in; `None` if there is no such write.
fn begin_at_writer(trace: &Trace<'_>, values: Vec<VarId>) -> Option<Chain> {
    let first = *values.first()?;
    let mut seen = FxHashSet::default();
    for (place, effect) in trace.effects.log().iter().enumerate().rev() {
        let written = match effect {
            Effect::Attribute { object, .. } => *object,
            Effect::Contents { container: written } | Effect::Cell { cell: written } => *written,
            Effect::Global { globals, name, value } => {
                if *value == Some(first) && is_global(trace, *globals, name, first) {
                    return Some(Chain { values, held_by: HeldBy::Global(*globals, Rc::clone(name)) });
                }
                continue;
            }
            Effect::Call { .. } => {
                if reachable::values_of(trace, effect).contains(&first) {
                    return Some(Chain { values, held_by: HeldBy::Call(place) });
                }
                continue;
            }
        };
        if seen.insert(written) && reachable::outlives(trace, written) && held_by(trace, written).contains(&first) {
            return Some(Chain { values: [written].into_iter().chain(values).collect(), held_by: HeldBy::Write });
        }
    }
    None
}

/// True if the trace has bound a global to the value, and to no other one since.
fn is_global(trace: &Trace<'_>, globals: TrackerId, name: &Name, value: VarId) -> bool {
    let dict = trace.effects.globals_dict(globals);
    dict.is_some_and(|dict| trace.effects.global(dict, name) == Some(Some(value)))
}

/// Walks from values to those they hold. Returns the holder of each value; the first ones are their own holders.
fn walk(first: impl Iterator<Item = VarId>, held_by: impl Fn(VarId) -> Vec<VarId>) -> FxHashMap<VarId, VarId> {
    let (mut holders, mut pending) = (FxHashMap::default(), Vec::new());
    for value in first {
        if holders.insert(value, value).is_none() {
            pending.push(value);
        }
    }
    // The last ones are looked at first: the variables of the outermost frame change least.
    pending.reverse();
    while let Some(holder) = pending.pop() {
        stats::work(1);
        for value in held_by(holder) {
            holders.entry(value).or_insert_with(|| {
                pending.push(value);
                holder
            });
        }
    }
    holders
}

/// The values from one that is its own holder to the given one; `None` if nothing holds it.
fn chain_to(holders: &FxHashMap<VarId, VarId>, value: VarId) -> Option<Vec<VarId>> {
    let mut chain = vec![value];
    let mut last = value;
    while let Some(&holder) = holders.get(&last) {
        if holder == last {
            chain.reverse();
            return Some(chain);
        }
        chain.push(holder);
        last = holder;
    }
    None
}
