//! Iterators of C types from outside, such as that of a loop behind a graph break. Nothing is assumed about their
//! position except that the traced steps find an item or the end. The first traces of a resume function take all
//! steps up to the next break. If these differ from call to call, a trace takes a single step, so that one
//! translation serves all loop iterations.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rustc_hash::FxHashSet;

use sot_core::bytecode::Op;
use sot_core::cpython::{iterated, iterator_types, upcoming, Upcoming};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{OpcodeExecutor, Trace};
use sot_core::guard::Test;
use sot_core::side_effects::Effect;
use sot_core::tracker::{Tracker, TrackerId};
use sot_core::variable::{Argument, Rebuild};
use sot_core::variable::{VarId, Variable};

use super::{emit_call, rebuild};

sot_core::variable_kind! {
    "outside_iterator",
    types: |py| Ok(iterator_types(py)?.iter().map(|ty| ty.clone_ref(py).into_any()).collect()),
    wrap: OutsideIterator::wrap
}

/// Maximum number of steps in a trace; further ones are left to another trace.
const MAX_STEPS: usize = 10_000;

/// An iterator from outside.
pub struct OutsideIterator {
    object: Py<PyAny>,
    /// Number of steps that the trace has taken.
    steps: usize,
    /// True if the last step found the iterator exhausted.
    ended: bool,
}

impl OutsideIterator {
    #[allow(clippy::unnecessary_wraps, reason = "the registry's signature")]
    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        Ok(Rc::new(OutsideIterator { object: object.clone().unbind(), steps: 0, ended: false }))
    }
}

fn cannot_tell() -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, "a step of an iterator that was made outside the graph")
}

/// An object that the upcoming items of an iterator depend on: the iterator itself, its inner iterators, and the
/// iterated container.
type Part<'py> = (Bound<'py, PyAny>, TrackerId);

/// Collects the objects that the upcoming items of an iterator depend on.
fn parts<'py>(cx: &mut OpcodeExecutor<'py>, iterator: &Bound<'py, PyAny>, of: TrackerId, found: &mut Vec<Part<'py>>) {
    found.push((iterator.clone(), of));
    for (index, inner) in iterated(iterator).unwrap_or_default().into_iter().enumerate() {
        let tracker = cx.trace.trackers.add(Tracker::Iterated { of, index });
        parts(cx, &inner, tracker, found);
    }
}

/// True if the iterator makes the upcoming item, a tuple, anew for the step (as `zip` does).
fn makes_tuple(iterator: &Bound<'_, PyAny>, after: usize, item: &Bound<'_, PyAny>) -> bool {
    let is_another = |again| !matches!(again, Some(Upcoming::Item(again)) if item.is(&again));
    item.is_exact_instance_of::<PyTuple>() && is_another(upcoming(iterator, after))
}

/// Breaks the graph if the trace has changed an object that the upcoming items depend on, except by steps of the
/// iterator. Guards that changed containers are different objects.
fn assume_unchanged<'py>(
    cx: &mut OpcodeExecutor<'py>,
    this: VarId,
    iterator: &Bound<'py, PyAny>,
    of: TrackerId,
) -> Flow<()> {
    let mut own = Vec::new();
    parts(cx, iterator, of, &mut own);
    let twice = |(at, (part, _)): (usize, &Part<'py>)| own[..at].iter().any(|(other, _)| other.is(part));
    if own.iter().enumerate().any(twice) {
        return Err(cannot_tell());
    }
    let contents = |effect: &Effect| match effect {
        Effect::Contents { container } if *container != this => Some(*container),
        _ => None,
    };
    let changed: FxHashSet<VarId> = cx.trace.effects.log().iter().filter_map(contents).collect();
    // The iterated dict may be the `__dict__` of an object or the globals of a module.
    let keyed = own.iter().any(|(part, _)| part.is_instance_of::<PyDict>());
    let binds = |effect: &Effect| matches!(effect, Effect::Attribute { .. } | Effect::Global { .. });
    if keyed && cx.trace.effects.log().iter().any(binds) {
        return Err(cannot_tell());
    }
    for container in changed {
        let Some(object) = cx.trace.vars.get(container).object().map(|object| object.bind(cx.py).clone()) else {
            continue;
        };
        let mut others = Vec::new();
        let tracker = cx.trace.vars.tracker(container);
        parts(cx, &object, tracker, &mut others);
        for (other, tracker) in others {
            if own.iter().any(|(part, _)| part.is(&other)) {
                return Err(cannot_tell());
            }
            if cx.trace.trackers.is_sourced(tracker) {
                for (_, part) in own.iter().filter(|(part, _)| part.get_type().is(other.get_type())) {
                    cx.trace.guards.add(*part, Test::DiffersFrom(tracker));
                }
            }
        }
    }
    Ok(())
}

impl Variable for OutsideIterator {
    fn kind(&self) -> &'static str {
        "outside_iterator"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.object.bind(trace.py).get_type().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("OutsideIterator({})", self.object.bind(trace.py).get_type())
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn iter(&self, _: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        Ok(this)
    }

    fn truth(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        Ok(true)
    }

    fn next(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<VarId>> {
        let of = cx.trace.vars.tracker(this);
        if self.ended {
            return Ok(None);
        }
        let enough = cx.stack.begins_with_item(cx.py) || cx.ends_with_round(self.steps > 0);
        if enough || self.steps > MAX_STEPS || !cx.trace.trackers.is_sourced(of) {
            return Err(cannot_tell());
        }
        let object = self.object.bind(cx.py).clone();
        let after = self.steps;
        let next = upcoming(&object, after).ok_or_else(cannot_tell)?;
        assume_unchanged(cx, this, &object, of)?;
        let item = match next {
            Upcoming::Item(item) => {
                let is_new = makes_tuple(&object, after, &item);
                let tracker = cx.trace.trackers.add(Tracker::Upcoming { of, after, is_new });
                cx.trace.guards.require(tracker);
                Some(cx.trace.wrap(&item, tracker))
            }
            Upcoming::End => {
                cx.trace.guards.add(of, Test::Exhausted { after });
                None
            }
        };
        cx.trace
            .vars
            .set(this, Rc::new(OutsideIterator { object: object.unbind(), steps: after + 1, ended: item.is_none() }));
        cx.trace.effects.record(Effect::Contents { container: this });
        Ok(item)
    }

    fn restore_contents(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let steps = Argument::int(cg.py(), self.steps)?;
        emit_call(cg, rebuild::skipping, [this.into(), steps])?;
        cg.op(Op::POP_TOP, 0)
    }
}
