//! Iterations ("rounds") of loops that began before the trace, as behind a graph break in a loop. The first
//! translations run on to the next break, through several iterations. If such translations do not hold for later
//! iterations, a trace ends at the head of the loop, and the translation of one iteration serves all, however many
//! lie between two breaks.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyCode;
use rustc_hash::FxHashSet;

use crate::bytecode::{Instruction, Label};
use crate::cache;
use crate::error::{Extent, Reason, ReasonId, Unwind};
use crate::machine::executor::{Frame, Learnt, OpcodeExecutor};
use crate::machine::opcode::{self, AtBreak};
use crate::policy;
use crate::tracker::{Tracker, TrackerId};

/// The loops that a trace has run through.
#[derive(Default)]
pub(crate) struct Rounds {
    /// Loops of which the trace has simulated more than one iteration, by the address of their code and their head.
    again: FxHashSet<(usize, Label)>,
    codes: Vec<Py<PyCode>>,
    /// Loops without an iterator of which the trace has begun an iteration, by the address of their code unit and
    /// their head.
    begun: FxHashSet<(usize, Label)>,
}

impl Rounds {
    /// Notes in the profiles, for later translations, which loops this one has unrolled.
    fn keep(&self, py: Python<'_>) {
        for code in &self.codes {
            let Some(cache) = cache::cache_of(code.bind(py)) else { continue };
            let address = code.as_ptr() as usize;
            let of_code = self.again.iter().filter(|(of, _)| *of == address);
            of_code.for_each(|(_, head)| cache.profile.lock().note_unrolled(*head));
        }
    }
}

impl Learnt {
    /// Notes in the profiles, for later translations, which loops this one has unrolled.
    pub(crate) fn keep_rounds(&mut self, py: Python<'_>) {
        std::mem::take(&mut self.rounds).keep(py);
    }
}

impl OpcodeExecutor<'_> {
    /// True if the trace is to end where the present instruction begins an iteration of a loop that was running
    /// before the trace. `again`: this is not the first iteration that begins in the trace.
    pub fn ends_with_round(&mut self, again: bool) -> bool {
        let frame = self.stack.frame();
        ends_before(self, frame.at, again)
    }
}

fn ends_before(cx: &mut OpcodeExecutor<'_>, head: Label, again: bool) -> bool {
    let code = cx.stack.frame().code.object.bind(cx.py).cast::<PyCode>().ok().cloned();
    let Some((code, head)) = code.and_then(|code| cache::in_original(&code, head)) else { return false };
    let Some(cache) = cache::cache_of(&code) else { return false };
    let unrolled = cache.profile.lock().unrolled(head);
    if policy::ends_before_iteration(again, unrolled, || cache.resumes.places_behind(head)) {
        return true;
    }
    if again && cx.learnt.rounds.again.insert((code.as_ptr() as usize, head)) {
        cx.learnt.rounds.codes.push(code.unbind());
    }
    false
}

/// Returns the break before the next iteration of a loop without an iterator, if the trace is to end there. The
/// innermost frame is about to jump back to the loop's head.
pub(in crate::machine::executor) fn round_begins(cx: &mut OpcodeExecutor<'_>, head: Label) -> Option<Unwind> {
    let frame = cx.stack.frame();
    let steps = |instruction: &Instruction| opcode::describe(instruction.opcode).at_break == AtBreak::Advance;
    if head > frame.at || frame.code.code.instructions.get(head.index()).is_some_and(steps) {
        return None;
    }
    if !is_in_loop(cx.py, frame, head) {
        return None;
    }
    let begun = !cx.learnt.rounds.begun.insert((Rc::as_ptr(&cx.stack.frame().code) as usize, head));
    if !ends_before(cx, head, begun) {
        return None;
    }
    let reason = Reason::new(ReasonId::UnsupportedCall, "an iteration of a loop whose iterations differ");
    Some(Unwind::BreakGraph(Box::new(Reason { extent: Extent::Nothing, ..reason })))
}

/// True if the present instruction, one of the outermost frame, has needed a value that differs from call to call in
/// some translation. No other resume function then specialises on such a value at that instruction.
pub(in crate::machine::executor) fn differs_here(cx: &OpcodeExecutor<'_>) -> bool {
    let Some((code, at)) = root_place(cx) else { return false };
    cache::cache_of(&code).is_some_and(|cache| cache.profile.lock().differs(at))
}

/// True if the program's variable that a tracker names holds a container whose contents differ from call to call.
pub(in crate::machine::executor) fn holds_changing(cx: &OpcodeExecutor<'_>, tracker: TrackerId) -> bool {
    let place = resumed_variable(cx, tracker);
    let cache = place.as_ref().and_then(|(code, _)| cache::cache_of(code));
    place.as_ref().zip(cache).is_some_and(|((_, name), cache)| cache.profile.lock().holds_changing(name))
}

/// Returns the original code and the name of a local variable, if the outermost frame is that of a resume function.
pub(in crate::machine::executor) fn resumed_variable<'py>(
    cx: &OpcodeExecutor<'py>,
    tracker: TrackerId,
) -> Option<(Bound<'py, PyCode>, Rc<str>)> {
    let Tracker::Local { slot, name } = cx.trace.trackers.get(tracker) else { return None };
    let running = cx.stack.first()?.code.object.bind(cx.py).cast::<PyCode>().ok()?;
    let (code, _) = cache::in_original(running, Label(cache::prologue_of(running)?))?;
    // Other arguments of a resume function are not variables of the program.
    let locals: u32 = code.getattr("co_nlocals").ok()?.extract().ok()?;
    (*slot < locals).then(|| (code, Rc::clone(name)))
}

/// True if the code has so many conditions on values which differ that the graph breaks at each.
pub(in crate::machine::executor) fn branches_much(cx: &OpcodeExecutor<'_>) -> bool {
    let place = root_place(cx).and_then(|(code, _)| cache::cache_of(&code));
    place.is_some_and(|cache| cache.profile.lock().branches_much())
}

pub(in crate::machine::executor) fn root_place<'py>(cx: &OpcodeExecutor<'py>) -> Option<(Bound<'py, PyCode>, Label)> {
    let [frame] = &cx.stack[..] else { return None };
    cache::in_original(frame.code.object.bind(cx.py).cast::<PyCode>().ok()?, frame.at)
}

/// True if the frame is that of a resume function that begins inside the loop.
fn is_in_loop(py: Python<'_>, frame: &Frame, head: Label) -> bool {
    let code = frame.code.object.bind(py).cast::<PyCode>().ok();
    let Some(prologue) = code.and_then(cache::prologue_of) else { return false };
    let entry = frame.code.code.instructions[prologue as usize - 1].target;
    entry.is_some_and(|entry| head <= entry && entry <= frame.at) && frame.code.code.is_loop(py, head, frame.at)
}
