//! Calls that the backend refuses as one statement. The body of the called function is followed instead, so that its
//! own calls may become statements. If that breaks the graph too, the trace begins again and ends before the call.

use std::collections::HashMap;

use pyo3::prelude::*;

use super::registered::AssumedResults;
use super::{CallArgs, OpcodeExecutor};
use crate::backend::CallKind;
use crate::error::{Flow, Reason, ReasonId, Unwind};
use crate::machine::variable::VarId;

/// What the attempts to translate a frame have learned of refused calls.
#[derive(Default)]
pub(crate) struct Refusals {
    /// What is followed at once, as a refused call of it has left operations behind, and why it is refused. By address.
    known: HashMap<usize, (Py<PyAny>, Reason)>,
    /// Functions that are one statement, as the graph would break in them.
    unfollowed: HashMap<usize, Py<PyAny>>,
    /// Whether a refused call is being followed.
    is_following: bool,
    /// What is assumed of functions whose results are.
    pub(super) results: AssumedResults,
}

/// A statement that the backend refuses.
pub(crate) struct Refused {
    /// Why, as a graph break.
    pub(crate) unwind: Unwind,
    /// Whether Python code of what was called found that a value of the program has not what a tensor has.
    pub(crate) by_callee: bool,
    /// Whether operations are left in the program.
    pub(crate) leaves_operations: bool,
}

impl<'py> OpcodeExecutor<'py> {
    /// Appends a statement; where the backend refuses it, `follow` is what the call does instead.
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
                self.history.refusals.known.insert(key, (callee.clone().unbind(), *reason));
                Err(Unwind::Restart(None))
            }
            unwind => Err(unwind),
        }
    }

    /// Follows a function; where the graph would break in it at a tensor's value, the trace begins again with `call` in
    /// its place.
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
                self.history.refusals.unfollowed.insert(key, function.clone().unbind());
                Err(Unwind::Restart(None))
            }
            _ => outcome,
        }
    }
}

/// Of refused calls within each other the outermost one is where the trace ends, if it must.
fn follow_refused<'py>(
    cx: &mut OpcodeExecutor<'py>,
    reason: Reason,
    follow: impl FnOnce(&mut OpcodeExecutor<'py>) -> Flow<VarId>,
) -> Flow<VarId> {
    if std::mem::replace(&mut cx.history.refusals.is_following, true) {
        return follow(cx);
    }
    let placed = cx.place(Unwind::BreakGraph(Box::new(reason)));
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
