//! Loops behind a break without tensor work. A translation of each iteration would cost more than CPython takes
//! for it, so CPython runs the rest of such a loop, and a resume function begins where the loop is left.

use std::rc::Rc;

use crate::bytecode::Label;
use crate::codegen::NewCode;
use crate::cpython::FreshFrame;
use crate::error::Flow;
use crate::machine::executor::{CodeUnit, OpcodeExecutor};
use crate::resume::{self, ResumeKey, ResumeSource};

use super::called_first::called_first;
use super::left_round::{is_comprehension, original_code_to};

/// Returns code for a trace without tensor work that has begun in a loop and ended there with a break, if such traces
/// have simulated all instructions of the loop. If the loop is in a function that the frame calls, the code ends behind
/// the call, and the loop is left in a frame of its own.
pub(super) fn leave_loop(
    cx: &OpcodeExecutor<'_>,
    frame: &FreshFrame<'_, '_>,
    unit: &Rc<CodeUnit>,
) -> Flow<Option<NewCode>> {
    if !cx.trace.history.is_resumed {
        return Ok(None);
    }
    let py = cx.py;
    let source = ResumeSource::of(py, unit)?;
    let Some(key) = source.key(py).filter(|key| !key.drives_itself) else { return Ok(None) };
    if has_seen_loop(cx, unit, &source, &key) {
        return original_code_to(py, &source, &key, resume::exits(py, &source.unit.code, &key));
    }
    // The frame waits for the call. A comprehension that is a function of its own ends with its loop, so a frame of its
    // own would cost a translation more and save nothing.
    let waits = cx.dependencies.places_in(unit).all(|at| source.is_in_prologue(at));
    match called_first(py, frame, unit, &key)? {
        Some(called)
            if waits
                && !is_comprehension(&called.unit.code)
                && has_seen_loop(cx, &called.unit, &called.source, &called.key) =>
        {
            original_code_to(py, &source, &key, Vec::from_iter(resume::behind_call(&key)))
        }
        _ => Ok(None),
    }
}

/// True if the trace has simulated instructions of the innermost loop only, and all of them together with earlier
/// traces without tensor work. The loop is that around the place where a resume function goes on.
fn has_seen_loop(cx: &OpcodeExecutor<'_>, unit: &Rc<CodeUnit>, source: &ResumeSource<'_>, key: &ResumeKey) -> bool {
    let Some((head, last)) = resume::innermost_loop(cx.py, &source.unit.code, key) else { return false };
    let places: Vec<Label> = cx.dependencies.places_in(unit).filter_map(|at| source.original(at).ok()).collect();
    places.iter().all(|at| (head..=last).contains(at))
        && source.cache().profile.lock().note_without_work((head, last), &places)
}
