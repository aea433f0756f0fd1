//! Calls that the backend refuses to take as one statement. The called function is inlined instead, so that the calls
//! in it may become statements. If that breaks the graph, too, the next attempt breaks before the outer call.

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use super::registered::AssumedResults;
use super::{with_location, CallArgs, OpcodeExecutor};
use crate::backend::CallKind;
use crate::error::{Flow, Reason, ReasonId, Unwind};
use crate::machine::variable::VarId;

/// Facts about refused calls from the attempts to translate a frame.
#[derive(Default)]
pub(crate) struct Refusals {
    /// Callables that are inlined at once, with the reason for which they are refused, by address. A refused call of
    /// each has left operations behind.
    known: FxHashMap<usize, (Py<PyAny>, Reason)>,
    /// Functions that become one statement because the graph would break inside them, by address.
    unfollowed: FxHashMap<usize, Py<PyAny>>,
    /// True if a refused call is being inlined.
    is_following: bool,
    /// Results of functions that are assumed to return the same at later calls.
    pub(super) results: AssumedResults,
}

/// A statement that the backend refuses.
pub(crate) struct Refused {
    /// The refusal as a graph break.
    pub(crate) unwind: Unwind,
    /// True if Python code of the callee has asked a graph value for something that only a tensor has.
    pub(crate) by_callee: bool,
    /// True if the refused call has left operations in the program.
    pub(crate) leaves_operations: bool,
}

impl<'py> OpcodeExecutor<'py> {
    /// Appends a statement. If the backend refuses it, `follow` simulates the call instead.
    pub fn call_graph_or_follow(
        &mut self,
        (kind, callee): (CallKind, &Bound<'py, PyAny>),
        name: &str,
        args: &CallArgs,
        follow: impl FnOnce(&mut Self) -> Flow<VarId>,
    ) -> Flow<VarId> {
        let key = callee.as_ptr() as usize;
        if let Some((_, reason)) = self.history.refusals.known.get(&key) {
            let reason = reason.clone();
            return follow_refused(self, reason, follow);
        }
        let refused = match self.statement(kind, callee, name, args)? {
            Ok(result) => return Ok(result),
            Err(refused) => refused,
        };
        match refused.unwind {
            Unwind::BreakGraph(reason) if refused.by_callee => {
                if !refused.leaves_operations {
                    return follow_refused(self, *reason, follow);
                }
                self.note_abandoned(&format!("{name} is to be followed: {}", reason.text));
                self.history.refusals.known.insert(key, (callee.clone().unbind(), *reason));
                Err(Unwind::Restart(None))
            }
            unwind => Err(unwind),
        }
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
        if self.history.refusals.unfollowed.contains_key(&key) {
            return call(self);
        }
        let outcome = follow(self);
        match &outcome {
            Err(Unwind::BreakGraph(reason)) if matches!(reason.id, ReasonId::TensorTruth | ReasonId::TensorValue) => {
                self.note_abandoned(&format!("the call is to be in the graph as a whole: {}", reason.text));
                self.history.refusals.unfollowed.insert(key, function.clone().unbind());
                Err(Unwind::Restart(None))
            }
            _ => outcome,
        }
    }
}

/// Inlines a refused call. If the graph breaks in it, the next attempt breaks before the outermost refused call.
fn follow_refused<'py>(
    cx: &mut OpcodeExecutor<'py>,
    reason: Reason,
    follow: impl FnOnce(&mut OpcodeExecutor<'py>) -> Flow<VarId>,
) -> Flow<VarId> {
    if std::mem::replace(&mut cx.history.refusals.is_following, true) {
        return follow(cx);
    }
    let placed = with_location(cx, Unwind::BreakGraph(Box::new(reason)));
    let step = cx.checkpoints.last_step();
    let outcome = follow(cx);
    cx.history.refusals.is_following = false;
    match (outcome, step, placed) {
        (Err(Unwind::BreakGraph(_) | Unwind::Fallback(_)), Some(step), Unwind::BreakGraph(reason)) => {
            Err(Unwind::Restart(Some(Box::new(cx.checkpoints.stop_at(step, *reason)))))
        }
        (outcome, ..) => outcome,
    }
}
