//! The values of a trace that live on: those reachable from the results of a frame and from its writes.

use rustc_hash::FxHashSet;

use crate::error::Flow;
use crate::graph::SymbolId;
use crate::language::LANGUAGE;
use crate::machine::executor::reachable::{changed_once, next_of, outlives, reachable, values_of};
use crate::machine::executor::{BreakPoint, OpcodeExecutor, Trace};
use crate::machine::variable::{Form, VarId};
use crate::resume::{layout, Item, ResumeSource, Value};
use crate::side_effects::Effect;
use crate::tracker::Tracker;

/// Prepares the values that new code may have to make: those reachable from `results` and from the writes.
pub(super) fn prepare(cx: &mut OpcodeExecutor<'_>, results: &[VarId]) -> Flow<()> {
    let mut pending = starts(&cx.trace, results);
    let mut seen = FxHashSet::default();
    while let Some(variable) = pending.pop() {
        if !seen.insert(variable) {
            continue;
        }
        let is_loadable = cx.trace.trackers.is_loadable(cx.trace.vars.tracker(variable));
        if !is_loadable && cx.trace.vars.get(variable).constant().is_none() {
            // Only lazy variables are looked at, because to look at an open number is to specialise on it.
            if cx.trace.vars.get(variable).form() == Form::Lazy {
                cx.see(variable)?;
            }
            cx.trace.vars.get(variable).prepare(cx, variable)?;
        }
        pending.extend(next_of(&cx.trace, variable));
    }
    Ok(())
}

/// Returns the values that are reachable from `results` and from the writes.
pub(super) fn all_reached(trace: &Trace<'_>, results: &[VarId]) -> Vec<VarId> {
    reachable(trace, starts(trace, results))
}

/// Returns `results` and the values that writes hand to objects which outlive the frame, with these objects.
fn starts(trace: &Trace<'_>, results: &[VarId]) -> Vec<VarId> {
    let mut starts = effect_values(trace);
    starts.extend(written_objects(trace));
    starts.extend(results);
    starts
}

/// Returns the graph's tensors that are reachable from `results` and from the writes.
pub(super) fn escaping_tensors(trace: &Trace<'_>, results: &[VarId]) -> Vec<(SymbolId, VarId)> {
    let mut log: Vec<&Effect> = changed_once(trace.effects.log().iter().rev()).collect();
    log.reverse();
    let mut pending: Vec<VarId> = log.into_iter().flat_map(|effect| values_of(trace, effect)).collect();
    pending.extend(results.iter().rev());
    let symbol = |variable: &VarId| Some((trace.vars.get(*variable).symbol()?, *variable));
    reachable(trace, pending).iter().filter_map(symbol).collect()
}

/// Returns the values that live on at a graph break: the stacks and locals of all frames, the contents of the
/// outermost frame's own cells, and the cells of the other frames.
pub(super) fn live_values(trace: &Trace<'_>, at: &BreakPoint, sources: &[ResumeSource<'_>]) -> Vec<VarId> {
    let value = |item| match item {
        Item::Value(Value::Known(value)) | Item::Handling(Value::Known(value)) => Some(value),
        _ => None,
    };
    let mut live: Vec<VarId> = Vec::new();
    let last = at.frames.len() - 1;
    for (level, frame) in at.frames.iter().enumerate() {
        // The operands of a call live on only if the caller's stack holds them until the call returns. It never holds
        // the values that a resume function gives to that of its callee.
        let gives_operands =
            level < last && (!LANGUAGE.calls_hold_arguments || sources[level].finish_at(frame.at).is_some());
        let taken = if gives_operands {
            layout::consumed(trace, &frame.unit.code.instructions[frame.at.index()], frame)
        } else {
            0
        };
        live.extend(layout::of_stack(trace, frame, frame.stack.len() - taken).into_iter().filter_map(value));
        live.extend(frame.locals.iter().flatten());
    }
    for frame in &at.frames[1..] {
        live.extend(frame.cells.iter().filter(|cell| **cell != trace.null()));
        let below = frame.claim.iter().flat_map(|claim| &claim.below);
        live.extend(below.filter_map(|below| value(layout::item_of(trace, frame, *below))));
    }
    let root = at.root();
    for cell in root.cells.iter().take(root.unit.code.cellvars.len()).filter(|cell| **cell != trace.null()) {
        live.extend(trace.vars.get(*cell).children());
    }
    // A cell of a comprehension may stand in the place of a cell that the resume function was given. Both live on,
    // and the latter also if it was given on the stack of the comprehension.
    let is_free = |cell| matches!(trace.trackers.get(trace.vars.tracker(cell)), Tracker::FreeCell { .. });
    let own = |cell: &&VarId| **cell != trace.null() && !is_free(**cell);
    live.extend(root.cells.iter().filter(own));
    live.sort_unstable();
    live.dedup();
    live
}

/// Returns the values that writes hand to objects which outlive the frame, also those that a later write replaces.
fn effect_values(trace: &Trace<'_>) -> Vec<VarId> {
    changed_once(trace.effects.log().iter()).flat_map(|effect| values_of(trace, effect)).collect()
}

/// Returns the values that the replay of the writes loads.
pub(crate) fn replayed_values(trace: &Trace<'_>) -> Vec<VarId> {
    let loaded_by = |effect: &Effect| match effect {
        Effect::Contents { container: changed } | Effect::Cell { cell: changed } if outlives(trace, *changed) => {
            trace.vars.get(*changed).restored(trace, *changed)
        }
        _ => values_of(trace, effect),
    };
    changed_once(trace.effects.log().iter()).flat_map(loaded_by).collect()
}

/// Returns the written objects that outlive the frame.
pub(crate) fn written_objects(trace: &Trace<'_>) -> Vec<VarId> {
    trace.effects.written().filter(|object| outlives(trace, *object)).collect()
}
