//! Iterators of C code that were there before the trace, as behind a graph break in a loop. Of where they stand nothing is
//! assumed but whether there is a next item, and one step is all that a trace takes: so each round of a loop is a translation
//! for all rounds, from one break to the next.

use std::rc::Rc;

use pyo3::prelude::*;

use sot_core::codegen::CodeGen;
use sot_core::cpython::{iterated, iterator_types, upcoming, Upcoming};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::guard::Test;
use sot_core::side_effects::Effect;
use sot_core::tracker::{Tracker, TrackerId};
use sot_core::variable::{VarId, Variable};

use super::{emit_call, library};

sot_core::variable_kind! {
    "outside_iterator",
    types: |py| Ok(iterator_types(py)?.iter().map(|ty| ty.clone_ref(py).into_any()).collect()),
    wrap: OutsideIterator::wrap
}

/// An iterator.
pub struct OutsideIterator {
    object: Py<PyAny>,
    /// Whether the trace has taken a step.
    moved: bool,
}

impl OutsideIterator {
    #[allow(clippy::unnecessary_wraps, reason = "the registry's signature")]
    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        Ok(Rc::new(OutsideIterator { object: object.clone().unbind(), moved: false }))
    }
}

fn cannot_tell() -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, "more than one step of an iterator that was made outside the graph")
}

/// What the iterator goes over has not changed in the trace, and is nothing that has.
fn assume_unchanged(cx: &mut OpcodeExecutor<'_>, iterator: &Bound<'_, PyAny>, of: TrackerId) -> Flow<()> {
    let contents = |effect: &Effect| match effect {
        Effect::Contents { container } => Some(*container),
        _ => None,
    };
    let changed: Vec<VarId> = cx.effects.log().iter().filter_map(contents).collect();
    for (index, inner) in iterated(iterator).unwrap_or_default().into_iter().enumerate() {
        let inner = inner.unbind().into_bound(cx.py);
        let tracker = cx.trackers.add(Tracker::Iterated { of, index });
        let is_inner = |changed: &VarId| cx.vars.get(*changed).object().is_some_and(|object| object.is(&inner));
        if changed.iter().any(is_inner) {
            return Err(cannot_tell());
        }
        for other in changed.iter().map(|changed| cx.vars.tracker(*changed)) {
            if cx.trackers.is_sourced(other) {
                cx.guards.add(tracker, Test::DiffersFrom(other));
            }
        }
        assume_unchanged(cx, &inner, tracker)?;
    }
    Ok(())
}

impl Variable for OutsideIterator {
    fn kind(&self) -> &'static str {
        "outside_iterator"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        self.object.bind(cx.py).get_type().into_any()
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        format!("OutsideIterator({})", self.object.bind(cx.py).get_type())
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
        let of = cx.vars.tracker(this);
        // A trace of a round is one for all rounds, those of two rounds would be for each pair of items.
        if self.moved || cx.begins_with_item() || !cx.trackers.is_sourced(of) {
            return Err(cannot_tell());
        }
        let object = self.object.bind(cx.py).clone();
        let next = upcoming(&object).ok_or_else(cannot_tell)?;
        assume_unchanged(cx, &object, of)?;
        let item = match next {
            Upcoming::Item(item) => {
                let tracker = cx.trackers.add(Tracker::Upcoming { of });
                cx.guards.require(tracker);
                Some(cx.wrap(&item, tracker))
            }
            Upcoming::End => {
                cx.guards.add(of, Test::Exhausted);
                None
            }
        };
        cx.vars.set(this, Rc::new(OutsideIterator { object: object.unbind(), moved: true }));
        cx.effects.record(Effect::Contents { container: this });
        Ok(item)
    }

    fn restore_contents(&self, cg: &mut CodeGen<'_, '_>, this: VarId) -> Flow<()> {
        let none = cg.cx.none();
        emit_call(cg, |py| library(py, "builtins", "next"), &[this, none])?;
        cg.op("POP_TOP", 0)
    }
}
