//! Calls that the backend refuses to take as one statement. The called function is inlined instead, so that the calls
//! in it may become statements. If that breaks the graph, too, the next attempt breaks before the outer call.

use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::backend::CallKind;
use crate::error::{Flow, Reason, ReasonId, Unwind};
use crate::machine::executor::registered_calls::calling::AssumedResults;
use crate::machine::executor::{with_location, CallArgs, OpcodeExecutor};
use crate::machine::variable::{Form, VarId};

/// Facts about refused calls from the attempts to translate a frame.
#[derive(Default)]
pub(crate) struct Refusals {
    /// Callables that are inlined at once. A refused call of each has left operations behind.
    known: FxHashMap<RefusalKey, KnownRefusal>,
    /// Functions that become one statement because the graph would break inside them, by address.
    unfollowed: FxHashMap<usize, Py<PyAny>>,
    /// True while a refused call is inlined.
    is_following: bool,
    /// Results of functions that are assumed to return the same at later calls.
    pub(in crate::machine::executor) results: AssumedResults,
}

/// The address of a callable, and, for a refusal because of sizes, whether some sizes were left open before the call.
/// Such a refusal says nothing about calls for which that is different.
type RefusalKey = (usize, Option<bool>);

/// A callable that the backend has refused in an earlier attempt.
struct KnownRefusal {
    /// Keeps the address taken.
    _callee: Py<PyAny>,
    reason: Reason,
}

/// A statement that the backend refuses.
pub(crate) struct Refused {
    pub(crate) reason: Reason,
    /// True if the statement depends on a size that is open or unknown.
    pub(crate) for_sizes: bool,
    /// True if Python code of the callee has asked a graph value for something that only a tensor has.
    pub(crate) by_callee: bool,
    /// True if the refused call has left operations in the program.
    pub(crate) leaves_operations: bool,
}

impl Refused {
    /// Returns the unwind if the call is not inlined either.
    pub(crate) fn unwind(self, cx: &mut OpcodeExecutor<'_>) -> Unwind {
        let unwind = Unwind::BreakGraph(Box::new(self.reason));
        if self.for_sizes {
            cx.settle_sizes(unwind)
        } else {
            unwind
        }
    }
}

impl<'py> OpcodeExecutor<'py> {
    /// Appends a statement. If the backend refuses it, `follow` simulates the call instead: calls within it may be
    /// statements, or do with sizes what the whole call does not.
    pub fn call_graph_or_follow(
        &mut self,
        (kind, callee): (CallKind, &Bound<'py, PyAny>),
        name: &str,
        args: &CallArgs,
        follow: impl FnOnce(&mut Self) -> Flow<VarId>,
    ) -> Flow<VarId> {
        let key = callee.as_ptr() as usize;
        let open = self.sizes.are_open();
        for with_open_sizes in [None, Some(open)] {
            if let Some(known) = self.learnt.refusals.known.get(&(key, with_open_sizes)) {
                let reason = known.reason.clone();
                return follow_refused(self, (reason, with_open_sizes.is_some()), follow);
            }
        }
        let refused = match self.statement(kind, callee, name, args)? {
            Ok(result) => return Ok(result),
            Err(refused) => refused,
        };
        // Code that is given an open number mostly needs it as a number.
        let follows = refused.by_callee || refused.for_sizes && !holds_open_number(self, args)?;
        if !follows {
            return Err(refused.unwind(self));
        }
        if !refused.leaves_operations {
            return follow_refused(self, (refused.reason, refused.for_sizes), follow);
        }
        self.note_abandoned(&format!("{name} is to be followed: {}", refused.reason.text));
        let known = KnownRefusal { _callee: callee.clone().unbind(), reason: refused.reason };
        self.learnt.refusals.known.insert((key, refused.for_sizes.then_some(open)), known);
        Err(Unwind::Restart(None))
    }

    /// Inlines a function by `follow`. If the graph would break in it at the value of a tensor, the next attempt does
    /// `call` instead.
    pub fn follow_or_call(
        &mut self,
        function: &Bound<'py, PyAny>,
        follow: impl FnOnce(&mut Self) -> Flow<VarId>,
        call: impl FnOnce(&mut Self) -> Flow<VarId>,
    ) -> Flow<VarId> {
        let key = function.as_ptr() as usize;
        if self.learnt.refusals.unfollowed.contains_key(&key) {
            return call(self);
        }
        let outcome = follow(self);
        match &outcome {
            Err(Unwind::BreakGraph(reason)) if matches!(reason.id, ReasonId::TensorTruth | ReasonId::TensorValue) => {
                self.note_abandoned(&format!("the call is to be in the graph as a whole: {}", reason.text));
                self.learnt.refusals.unfollowed.insert(key, function.clone().unbind());
                Err(Unwind::Restart(None))
            }
            _ => outcome,
        }
    }
}

/// Inlines a refused call. If the graph breaks in it, the next attempt breaks before the outermost refused call, or
/// specialises on the sizes for which the call was refused.
fn follow_refused<'py>(
    cx: &mut OpcodeExecutor<'py>,
    (reason, for_sizes): (Reason, bool),
    follow: impl FnOnce(&mut OpcodeExecutor<'py>) -> Flow<VarId>,
) -> Flow<VarId> {
    let breaks = |outcome: &Flow<VarId>| matches!(outcome, Err(Unwind::BreakGraph(_) | Unwind::Fallback(_)));
    if std::mem::replace(&mut cx.learnt.refusals.is_following, true) {
        let outcome = follow(cx);
        return if for_sizes && breaks(&outcome) { outcome.map_err(|unwind| cx.settle_sizes(unwind)) } else { outcome };
    }
    let placed = with_location(cx, Unwind::BreakGraph(Box::new(reason)));
    let step = cx.checkpoints.last_step();
    let outcome = follow(cx);
    cx.learnt.refusals.is_following = false;
    if !breaks(&outcome) {
        return outcome;
    }
    let placed = if for_sizes { cx.settle_sizes(placed) } else { placed };
    match (placed, step) {
        (Unwind::BreakGraph(reason), Some(step)) => {
            Err(Unwind::Restart(Some(Box::new(cx.checkpoints.stop_at(step, *reason)))))
        }
        (Unwind::BreakGraph(_), None) => outcome,
        (settled, _) => Err(settled),
    }
}

/// True if an argument is an open number, or a container that holds one.
fn holds_open_number(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<bool> {
    let (mut left, mut seen) = (args.all().collect::<Vec<_>>(), FxHashSet::default());
    while let Some(value) = left.pop() {
        if cx.is_open_operand(value) {
            return Ok(true);
        }
        let payload = cx.trace.vars.get(value);
        // The items of a tensor are operations, and those of a text are texts.
        let is_container = payload.form() != Form::Tensor && payload.constant().is_none();
        if is_container && seen.insert(value) {
            left.extend(payload.items(cx, value)?.into_iter().flatten());
        }
    }
    Ok(false)
}
