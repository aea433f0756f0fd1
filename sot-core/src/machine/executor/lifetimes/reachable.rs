//! The values of a trace that live on: those reachable from given ones, and those that writes leave in objects which
//! outlive the frame.

use std::rc::Rc;

use rustc_hash::FxHashSet;

use crate::machine::executor::Trace;
use crate::machine::variable::VarId;
use crate::side_effects::Effect;
use crate::stats;

/// Returns all reachable variables, each once, in the order in which they are found.
pub(crate) fn reachable(trace: &Trace<'_>, mut pending: Vec<VarId>) -> Vec<VarId> {
    let (mut seen, mut found) = (FxHashSet::default(), Vec::new());
    stats::work(pending.len());
    while let Some(variable) = pending.pop() {
        if !seen.insert(variable) {
            continue;
        }
        found.push(variable);
        pending.extend(next_of(trace, variable));
    }
    found
}

/// Returns the variables that a variable needs in order to exist.
pub(crate) fn next_of(trace: &Trace<'_>, variable: VarId) -> Vec<VarId> {
    let (payload, tracker) = (trace.vars.get(variable), trace.vars.tracker(variable));
    let mut next = Vec::new();
    // A loadable object brings its contents along; writes to it are effects.
    if payload.constant().is_none() {
        next.extend(trace.trackers.made_with(tracker));
    }
    if !trace.trackers.is_loadable(tracker) {
        next.extend(payload.children());
        next.extend(trace.effects.attributes_of(variable).into_iter().map(|(_, value)| value));
    }
    next
}

/// Returns the effects, but only the first one for the contents of each container or cell. New code restores only its
/// final contents.
pub(crate) fn changed_once<'e>(effects: impl Iterator<Item = &'e Effect>) -> impl Iterator<Item = &'e Effect> {
    let mut changed = FxHashSet::default();
    effects.filter(move |effect| match effect {
        Effect::Contents { container: written } | Effect::Cell { cell: written } => changed.insert(*written),
        _ => true,
    })
}

/// Returns the values that remain, after all writes, in objects that outlive the frame.
pub(crate) fn values_left_outside(trace: &Trace<'_>) -> Vec<VarId> {
    let mut last = FxHashSet::default();
    let log = trace.effects.log().iter().rev();
    let lasting = log.filter(|effect| match effect {
        Effect::Attribute { object, name, .. } => last.insert((Some(*object), None, Rc::clone(name))),
        Effect::Global { globals, name, .. } => last.insert((None, Some(*globals), Rc::clone(name))),
        _ => true,
    });
    let left_by = |effect: &Effect| match effect {
        Effect::Contents { container } if outlives(trace, *container) => trace.vars.get(*container).holds(),
        _ => values_of(trace, effect),
    };
    changed_once(lasting).flat_map(left_by).collect()
}

/// Returns the values that one effect hands to objects which outlive the frame.
pub(crate) fn values_of(trace: &Trace<'_>, effect: &Effect) -> Vec<VarId> {
    match effect {
        Effect::Attribute { object, value, .. } => value.filter(|_| outlives(trace, *object)).into_iter().collect(),
        Effect::Global { value, .. } => value.iter().copied().collect(),
        Effect::Contents { container: changed } | Effect::Cell { cell: changed } => {
            if outlives(trace, *changed) {
                trace.vars.get(*changed).children()
            } else {
                Vec::new()
            }
        }
        Effect::Call { callable, args, keywords } => {
            let keywords = keywords.iter().map(|(_, value)| value);
            [callable].into_iter().chain(args).chain(keywords).copied().collect()
        }
    }
}

/// True if the object existed before the frame ran, or if something that existed holds it. Writes to other objects
/// are part of making them.
pub(crate) fn outlives(trace: &Trace<'_>, object: VarId) -> bool {
    trace.trackers.is_loadable(trace.vars.tracker(object)) || trace.vars.get(object).is_held_outside()
}
