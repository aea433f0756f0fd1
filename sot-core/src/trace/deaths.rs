//! Values whose destruction runs code of the program. New code must destroy them where CPython does; where that is
//! not possible, the trace is refused.

use std::rc::Rc;

use rustc_hash::FxHashSet;

use crate::error::Flow;
use crate::machine::executor::reachable::{reachable, values_left_outside};
use crate::machine::executor::{Frame, OpcodeExecutor};
use crate::machine::variable::{Death, Form, VarId, Variable};

/// Returns the values that the program drops unless `results` hold them, and whose destruction is observable.
fn dropped(cx: &mut OpcodeExecutor<'_>, results: &[VarId]) -> Vec<VarId> {
    let runs = |(id, payload): (VarId, &Rc<dyn Variable>)| payload.runs_when_dropped(&cx.trace).then_some(id);
    let observable: Vec<VarId> = cx.trace.vars.iter().filter_map(runs).collect();
    if observable.is_empty() {
        return Vec::new();
    }
    let lasting = values_left_outside(&cx.trace).into_iter().chain(results.iter().copied()).collect();
    let living: FxHashSet<VarId> = reachable(&cx.trace, lasting).into_iter().collect();
    let mut deaths: Vec<(VarId, Death)> = Vec::new();
    for id in observable.into_iter().filter(|id| !living.contains(id)) {
        let death = cx.trace.vars.get(id).death(cx, id, &living);
        if death != Death::Silent {
            deaths.push((id, death));
        }
    }
    if deaths.iter().all(|(_, death)| *death == Death::Refused) {
        // No code will ask for the tracebacks of the exceptions that they hold.
        let held = reachable(&cx.trace, deaths.iter().map(|(id, _)| *id).collect());
        for held in held.into_iter().filter(|held| !living.contains(held)) {
            if cx.trace.vars.get(held).form() == Form::Exception {
                cx.trace.raised.forget_step(held);
            }
        }
    }
    deaths.into_iter().map(|(id, _)| id).collect()
}

/// Refuses a trace that has dropped a value whose destruction runs code: the next attempt leaves the making of that
/// value to CPython.
pub(super) fn refuse_dropped(cx: &mut OpcodeExecutor<'_>, live: &[VarId]) -> Flow<()> {
    let dropped = dropped(cx, live);
    dropped.first().map_or(Ok(()), |id| Err(cx.plan_to_make(*id, "runs code when it is destroyed")))
}

/// Returns the values with observable destruction that were handed to the frame, as an argument of which it may own
/// the last reference or in a container from which it took them, and that it does not keep.
fn given_away(cx: &mut OpcodeExecutor<'_>, result: VarId) -> Vec<VarId> {
    let watched: Vec<VarId> = cx.all_taken().collect();
    if watched.is_empty() {
        return watched;
    }
    let lasting = values_left_outside(&cx.trace).into_iter().chain([result]).collect();
    let living: FxHashSet<VarId> = reachable(&cx.trace, lasting).into_iter().collect();
    watched.into_iter().filter(|value| !living.contains(value)).collect()
}

/// Returns the variables of the frame that own the last references to values whose destruction runs code, in the
/// order in which they are cleared. New code keeps these variables to its end, too.
pub(super) fn owners_of_dying_values(cx: &mut OpcodeExecutor<'_>, frame: &Frame, result: VarId) -> Flow<Vec<VarId>> {
    let dropped = dropped(cx, &[result]);
    let given_away = given_away(cx, result);
    let variables = frame.locals.iter().flatten().chain(&frame.cells);
    let (mut dying, mut held): (Vec<VarId>, FxHashSet<VarId>) = Default::default();
    for &variable in variables {
        let reachable = reachable(&cx.trace, vec![variable]);
        let observable = dropped.iter().chain(&given_away);
        let last: Vec<VarId> = observable.filter(|dropped| reachable.contains(dropped)).copied().collect();
        if !last.is_empty() && !dying.contains(&variable) {
            dying.push(variable);
            held.extend(last);
        }
    }
    match dropped.iter().find(|dropped| !held.contains(dropped)) {
        Some(value) => Err(cx.plan_to_make(*value, "runs code when it is destroyed")),
        None => Ok(dying),
    }
}
