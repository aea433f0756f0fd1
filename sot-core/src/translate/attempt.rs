//! The translation of one frame: attempts at simulating it until one succeeds, and the entry made from that.

use std::rc::Rc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use rustc_hash::FxHashSet;

use crate::bytecode::flags::SUSPENDS;
use crate::cache::{self, CacheEntry, CodeCache, ShortLived};
use crate::codegen::{CodeGen, NewCode};
use crate::cpython::{self, FreshFrame};
use crate::error::{Extent, Flow, Forbidden, PlannedBreak, Reason, ReasonId, Unwind};
use crate::guard::GuardProgram;
use crate::log::{self, Channel};
use crate::machine::executor::{
    names, BreakPoint, CodeUnit, Effort, Exit, Frame, Handover, History, Learnt, OpcodeExecutor, Trace, ValuePolicy,
};
use crate::machine::observer::{self, TranslationOutcome};
use crate::machine::opcode::OpcodeSet;
use crate::machine::runtime::Runtime;
use crate::machine::variable::VarId;
use crate::open_sizes::Sizes;
use crate::policy;
use crate::progress;
use crate::report::{next_id, now, AbandonedReport, AttemptReport, PhaseSeconds, StackEntry, TranslationReport};
use crate::stats;
use crate::trace;
use crate::tracker::Tracker;

use super::always_compiles;
use super::blind_plugins;
use super::collect::collect;
use super::left_loop;
use super::report::{self, place_of, report, TranslationFacts};
use super::turn::TranslatingHere;
use crate::resume::ResumeSource;

pub(super) fn translate_to_the_end(
    py: Python<'_>,
    runtime: &'static Runtime,
    cache: &CodeCache,
    frame: &FreshFrame<'_, '_>,
    policy: ValuePolicy,
) -> PyResult<Translation> {
    let id = next_id();
    let _here = TranslatingHere::of(id);
    let watched = progress::begin(&place_of(&frame.code()).function);
    let mut attempts = Vec::new();
    let (mut planned, mut learnt, mut closed) = (None, Learnt::default(), FxHashSet::default());
    for _ in 0..policy::MAX_RESTARTS {
        let start = Instant::now();
        let refusals = std::mem::take(&mut learnt.refusals);
        let (history, sizes) = history_of(cache, frame, policy);
        let sizes = match policy {
            ValuePolicy::Specialize | ValuePolicy::SpecializeAlways => sizes,
            ValuePolicy::Generalize => sizes.breaking(closed.clone()),
        };
        let handover = Handover { sizes, planned: planned.take(), refusals };
        let attempt = translate(py, runtime, cache, frame, (history, handover), &mut learnt);
        learnt.keep_notes(py);
        closed.extend(learnt.closed.iter().cloned());
        cache.sizes.lock().close(std::mem::take(&mut learnt.closed));
        let attempt = attempt?;
        let why = learnt.why_abandoned.take();
        attempts.push(attempt.report(start.elapsed(), why));
        match attempt {
            Attempt::Done(mut translation) => {
                if let Some(watched) = watched {
                    watched.end(py);
                }
                translation.collected.id = id;
                translation.collected.attempts = attempts;
                return Ok(*translation);
            }
            Attempt::Again(plan) => planned = plan.map(|plan| *plan),
        }
    }
    let last = attempts.pop().and_then(|attempt| attempt.abandoned).map_or_else(String::new, |last| last.text);
    let count = policy::MAX_RESTARTS;
    let text = format!("{count} attempts to translate the function were abandoned, the last one because of: {last}");
    Err(pyo3::exceptions::PyRuntimeError::new_err(text))
}

/// The result of one simulation.
enum Attempt {
    Done(Box<Translation>),
    Again(Option<Box<PlannedBreak>>),
}

impl Attempt {
    /// Returns what a report says of the attempt. `why` is the reason for which it was abandoned, unless that is the
    /// reason of a planned break.
    fn report(&self, taken: Duration, why: Option<AbandonedReport>) -> AttemptReport {
        let planned = |plan: &PlannedBreak| AbandonedReport {
            text: plan.reason.text.clone(),
            stack: plan.reason.stack.iter().map(StackEntry::from).collect(),
            ..AbandonedReport::default()
        };
        let abandoned = match self {
            Attempt::Done(_) => None,
            Attempt::Again(plan) => why.or_else(|| plan.as_deref().map(planned)),
        };
        AttemptReport { seconds: taken.as_secs_f64(), stood: matches!(self, Attempt::Done(_)), abandoned }
    }
}

/// The entry made for a frame, and the reason for which it does not cover the whole frame.
pub(super) struct Translation {
    pub(super) entry: CacheEntry,
    pub(super) reason: Option<Reason>,
    /// Why the code is left to CPython although it could be translated.
    pub(super) refused: Option<Reason>,
    /// True if the trace met tensors.
    pub(super) met_tensors: bool,
    /// The code objects that were inlined or looked at.
    pub(super) followed: Vec<Rc<CodeUnit>>,
    /// What reports show of the translation.
    pub(super) collected: TranslationReport,
}

/// Makes one attempt, and writes the facts learnt from it into `learnt`, however it ends. An error is a bug of the
/// tracer.
fn translate(
    py: Python<'_>,
    runtime: &'static Runtime,
    cache: &CodeCache,
    frame: &FreshFrame<'_, '_>,
    (history, handover): (History, Handover),
    learnt: &mut Learnt,
) -> PyResult<Attempt> {
    let _quiet = cpython::suspend(py);
    let start = Started { at: Instant::now(), clock: now() };
    let unit = cache::readable_unit_of(frame.code().as_any())?;
    log::write(log::GRAPHS, &format!("[eval_frame_callback] start to translate: {}", unit.code.qualname));
    if log::wants(Channel::Code) {
        log::say(Channel::Code, &format!("OriginCode:\n{}", unit.code.disassemble(py)));
    }
    // An attempt that was given up had work to compile.
    let wanted = cache.directives.is_root() || handover.planned.is_some() || always_compiles();
    let mut cx = match OpcodeExecutor::new(py, runtime, &frame.globals().to_owned(), Rc::new(history), handover) {
        Ok(cx) => cx,
        Err(Unwind::Internal(error)) => return Err(*error),
        Err(Unwind::BreakGraph(reason) | Unwind::Fallback(reason)) => {
            let text = format!("the simulation cannot begin: {}", reason.text);
            return Err(pyo3::exceptions::PyRuntimeError::new_err(text));
        }
        Err(_) => return Err(pyo3::exceptions::PyRuntimeError::new_err("the simulation cannot begin")),
    };
    let attempt = make_entry(&mut cx, cache, frame, &unit, wanted, &start);
    *learnt = cx.take_learnt();
    attempt
}

/// The time at which an attempt began.
struct Started {
    at: Instant,
    /// Wall-clock time, for reports.
    clock: f64,
}

/// Simulates a frame and makes an entry of the result, or asks for another attempt.
fn make_entry<'py>(
    cx: &mut OpcodeExecutor<'py>,
    cache: &CodeCache,
    frame: &FreshFrame<'_, 'py>,
    unit: &Rc<CodeUnit>,
    wanted: bool,
    start: &Started,
) -> PyResult<Attempt> {
    observer::begins(cx, unit);
    let result = simulate(cx, frame, unit);
    if !cx.trace.graph.has_met_tensors() {
        cx.limits.note_steps_without_tensor();
    }
    cx.switches.undo()?;
    if cx.trace.graph.is_stale {
        return Ok(Attempt::Again(None));
    }
    match &result {
        Err(Unwind::BreakGraph(reason) | Unwind::Fallback(reason)) if cx.sizes.are_open_early() => {
            cache.sizes.lock().open_only_if_often();
            cx.note_sizes_abandoned(&format!("the graph breaks with open sizes: {}", reason.text), &reason.stack);
            return Ok(Attempt::Again(None));
        }
        _ => {}
    }
    progress::phase(cx.py, "compile");
    let (simulated, building) = (start.at.elapsed(), cx.trace.graph.building.time());
    let has_no_work = cx.trace.graph.is_empty() && !cx.trace.graph.has_effects();
    let (result, reason) = write_code(cx, unit, result, wanted);
    if let Err(Unwind::Restart(plan)) = result {
        return Ok(Attempt::Again(plan));
    }
    let left = match &reason {
        Some(_) if has_no_work => left_loop::leave_loop(cx, frame, unit),
        _ => Ok(None),
    };
    let result = left.transpose().unwrap_or(result);
    let (new_code, reason) = settle(&cx.trace, result, reason)?;
    let steps = cx.limits.steps();
    let opcodes = if new_code.is_some() { cx.dependencies.opcodes() } else { OpcodeSet::default() };
    cx.learnt.keep_rounds(cx.py);
    cx.trace.assume_distinct();
    let facts = TranslationFacts::new(unit, new_code.as_ref(), reason.as_ref());
    report(&cx.trace, &facts);
    observer::ends(cx, outcome(new_code.as_ref(), reason.as_ref()));
    let mut collected = collect(cx, &facts);
    collected.began = start.clock;
    let mut translation = conclude(cx, frame, new_code, reason)?;
    let seconds = PhaseSeconds {
        simulate: simulated.saturating_sub(building).as_secs_f64(),
        build: building.as_secs_f64(),
        compile: start.at.elapsed().saturating_sub(simulated).as_secs_f64(),
    };
    stats::update(|stats| {
        stats.translations += 1;
        stats.instructions += steps;
        stats.simulated.extend(opcodes);
        for (phase, taken) in seconds.by_name() {
            *stats.seconds.entry(phase).or_default() += taken;
        }
    });
    collected.seconds = seconds;
    collected.guard_steps = translation.entry.guard_steps();
    translation.collected = collected;
    Ok(Attempt::Done(Box::new(translation)))
}

fn outcome<'a>(new_code: Option<&NewCode>, reason: Option<&'a Reason>) -> TranslationOutcome<'a> {
    match reason {
        None => TranslationOutcome::Whole,
        Some(reason) if new_code.is_some() => TranslationOutcome::Broken(reason),
        Some(reason) => TranslationOutcome::LeftAlone(reason),
    }
}

/// Returns what earlier calls and translations of the code have shown, with the sizes to be left open.
fn history_of(cache: &CodeCache, frame: &FreshFrame<'_, '_>, policy: ValuePolicy) -> (History, Sizes) {
    let differing = cache.entries.differing(frame);
    let is_resumed = cache.origin().is_some();
    let sizes = cache.open_sizes(cache.dynamic(frame.py()), differing.sizes);
    let history = History {
        changing: differing.numbers,
        translations: cache.entries.len(),
        policy,
        is_resumed,
        short_lived: if is_resumed { cache.short_lived(frame) } else { ShortLived::default() },
        effort: match (always_compiles(), cache.directives.is_root()) {
            (true, _) => Effort::All,
            (false, true) => Effort::Asked,
            (false, false) => Effort::Little,
        },
        gave_way: !cache.usage.gives_way(),
        awaits_filling: cache.usage.awaits_filling(),
    };
    (history, sizes)
}

/// Writes new code for the result of the simulation. Also returns the reason for which the new code does not reach
/// the end of the frame.
fn write_code(
    cx: &mut OpcodeExecutor<'_>,
    unit: &Rc<CodeUnit>,
    result: Flow<(VarId, Frame)>,
    wanted: bool,
) -> (Flow<NewCode>, Option<Reason>) {
    let name = report::next_graph();
    match result {
        Ok((value, left)) => (compile(cx, unit, value, &left, &name), None),
        Err(Unwind::BreakGraph(reason)) => (compile_to_break(cx, &reason, &name, wanted), Some(*reason)),
        Err(Unwind::Raise(exception))
            if cx.trace.graph.has_met_tensors() || cx.learnt.lacks_own_cell || always_compiles() =>
        {
            (Err(cx.checkpoints.plan_to_raise(&cx.trace, exception)), None)
        }
        Err(unwind) => (Err(unwind), None),
    }
}

/// Writes new code up to a break, or plans a break at another place.
fn compile_to_break(cx: &mut OpcodeExecutor<'_>, reason: &Reason, name: &str, wanted: bool) -> Flow<NewCode> {
    if let Some(plan) = cx.replan(reason) {
        return Err(Unwind::Restart(Some(Box::new(plan))));
    }
    let at = cx.take_break_point(reason.clone());
    match compile_break(cx, &at, name, wanted) {
        Err(Unwind::Fallback(why)) if why.id == ReasonId::CannotRestore => match cx.checkpoints.plan_at_root(&at) {
            Some(plan) => {
                log::write(log::GRAPHS, &format!("[BreakGraph]: not in a called function: {why}"));
                Err(Unwind::Restart(Some(Box::new(plan))))
            }
            None => Err(Unwind::Fallback(why)),
        },
        result => result,
    }
}

/// Makes the entry, with the guards that the trace has collected.
fn conclude(
    cx: &mut OpcodeExecutor<'_>,
    frame: &FreshFrame<'_, '_>,
    new_code: Option<NewCode>,
    reason: Option<Reason>,
) -> PyResult<Translation> {
    let (guards, subjects) = std::mem::take(&mut cx.trace.guards).compile(cx.py, &cx.trace.trackers)?;
    let refused = blind_plugins::refuse(&cx.trace, &guards, &subjects, frame)?;
    let (guards, new_code) = match refused {
        // No guards: all calls of the code are left to CPython.
        Some(_) => (GuardProgram::always(), None),
        None => (guards, new_code),
    };
    // Behind a break the new code makes the program's own calls, which are translated.
    let alone = reason.as_ref().is_none_or(|reason| reason.extent == Extent::FrameAndCallees && new_code.is_none());
    let any_number = reason.as_ref().is_some_and(|reason| reason.id == ReasonId::ChangingNumber);
    // An entry made for one size is faster for that size, so it is asked first.
    let comes_last = any_number || cx.sizes.are_open();
    let entry = CacheEntry::new(guards, new_code.map(|new| new.code), alone, comes_last)
        .whole(reason.is_none())
        .having_met(cx.dependencies.take_objects())
        .replacing(comes_last && cx.trace.history.policy == ValuePolicy::Generalize);
    let (met_tensors, followed) = (cx.trace.graph.has_met_tensors(), cx.dependencies.followed());
    Ok(Translation { entry, reason, refused, met_tensors, followed, collected: TranslationReport::default() })
}

/// Sets up the root frame and simulates it to its return. Returns its value and its final state.
fn simulate<'py>(
    cx: &mut OpcodeExecutor<'py>,
    fresh: &FreshFrame<'_, 'py>,
    unit: &Rc<CodeUnit>,
) -> Flow<(VarId, Frame)> {
    if unit.code.flags & SUSPENDS != 0 {
        let reason = Reason::new(ReasonId::UnsupportedFrame, "generators and coroutines run in CPython");
        let forbids = cache::forbids(unit.object.bind(cx.py), Forbidden::Fallback);
        let forbidden_by = forbids.then(|| unit.code.qualname.clone());
        return Err(Unwind::Fallback(Box::new(Reason { stack: vec![unit.place()], forbidden_by, ..reason })));
    }
    let root = root_frame(cx, fresh, unit)?;
    // Only a resume function's frame may own the last reference to an argument; the caller holds those of other
    // frames.
    if cx.trace.history.is_resumed {
        for (slot, value) in root.locals.iter().enumerate() {
            if let (Some(value), Some(object)) = (*value, fresh.arg(slot)) {
                // Before the first instruction there is no place to break at.
                cx.watch_argument(value, &object).map_err(|unwind| match unwind {
                    Unwind::BreakGraph(reason) => Unwind::Fallback(reason),
                    other => other,
                })?;
            }
        }
    }
    match cx.run_frame(root)? {
        (Exit::Return(value), left) => Ok((value, left)),
        (Exit::Yield(_), _) => Err(Unwind::fallback(ReasonId::UnsupportedFrame, "a yield outside a generator")),
    }
}

fn root_frame<'py>(cx: &mut OpcodeExecutor<'py>, fresh: &FreshFrame<'_, 'py>, unit: &Rc<CodeUnit>) -> Flow<Frame> {
    let globals = fresh.globals().to_owned();
    cx.dependencies.object(globals.as_any());
    let globals = names::globals_of(cx, &globals, None)?;
    let mut frame = Frame::new(Rc::clone(unit), globals);
    if let Some(function) = fresh.function() {
        cx.dependencies.object(function.as_any());
        // The tracker is a constant, not the way by which the program may reach the function: what is assumed of the
        // function there is guarded.
        let tracker = cx.trace.trackers.constant(function.clone().unbind().into_any());
        let payload = (cx.runtime.factories.object)(function.unbind().into_any());
        frame.function = Some(cx.trace.vars.add(payload, tracker));
    }
    for slot in 0..unit.code.total_args() {
        if let Some(object) = fresh.arg(slot) {
            let name = Rc::clone(&unit.varnames()[slot]);
            let tracker = cx.trace.trackers.add(Tracker::Local { slot: slot as u32, name });
            frame.locals[slot] = Some(cx.trace.wrap(&object, tracker));
        }
    }
    let mut closure = Vec::new();
    for (index, name) in unit.code.freevars.iter().enumerate() {
        let cell = fresh.closure(index).ok_or_else(|| {
            Unwind::fallback(ReasonId::UnsupportedFrame, format!("the cell of free variable '{name}' is not there"))
        })?;
        let tracker = cx.trace.trackers.add(Tracker::FreeCell { index: index as u32, name: name.as_str().into() });
        closure.push(cx.trace.wrap(&cell, tracker));
    }
    cx.trace.make_cells(&mut frame, &closure);
    Ok(frame)
}

fn compile(cx: &mut OpcodeExecutor<'_>, unit: &Rc<CodeUnit>, value: VarId, left: &Frame, name: &str) -> Flow<NewCode> {
    if cx.trace.graph.is_empty() && !always_compiles() {
        return Err(nothing_to_compile("no tensor work"));
    }
    let end = trace::end_at_return(cx, value, left, name)?;
    let new_code = CodeGen::new(&end.finished, Rc::clone(unit))?.compile_return(end)?;
    if new_code.graphs.is_empty() && !always_compiles() {
        return Err(nothing_to_compile("no tensor leaves the frame"));
    }
    Ok(new_code)
}

/// Returns the fallback for a frame that was simulated to its end without work to compile. The functions that it
/// calls are left to CPython, too, because they were simulated with it.
fn nothing_to_compile(why: &str) -> Unwind {
    Unwind::Fallback(Box::new(Reason {
        extent: Extent::FrameAndCallees,
        ..Reason::new(ReasonId::NothingToCompile, why)
    }))
}

/// Returns the new code or the reason for which there is none. An error is a bug of the tracer.
fn settle(
    trace: &Trace<'_>,
    result: Flow<NewCode>,
    broke: Option<Reason>,
) -> PyResult<(Option<NewCode>, Option<Reason>)> {
    match result {
        Ok(new_code) => Ok((Some(new_code), broke)),
        Err(Unwind::BreakGraph(reason) | Unwind::Fallback(reason)) => Ok((None, Some(*reason))),
        Err(Unwind::Raise(exception)) => Ok((
            None,
            Some(Reason::new(ReasonId::Raises, format!("the function raises {}", trace.class_name(exception)))),
        )),
        Err(Unwind::Internal(error)) => Err(*error),
        Err(Unwind::Restart(_)) => Err(pyo3::exceptions::PyRuntimeError::new_err("a restart was asked for too late")),
    }
}

/// Writes new code up to the break, if there is anything to compile around it.
fn compile_break(cx: &mut OpcodeExecutor<'_>, at: &BreakPoint, name: &str, wanted: bool) -> Flow<NewCode> {
    if is_the_break_alone(cx, at) {
        let text = format!("nothing but an instruction that runs natively: {}", at.reason.text);
        let reason = Reason { stack: at.reason.stack.clone(), ..Reason::new(ReasonId::NothingToCompile, text) };
        return Err(Unwind::Fallback(Box::new(reason)));
    }
    if !wanted && !cx.trace.graph.has_met_tensors() {
        return Err(Unwind::Fallback(Box::new(at.reason.clone())));
    }
    let sources = at.frames.iter().map(|frame| ResumeSource::of(cx.py, &frame.unit)).collect::<PyResult<Vec<_>>>()?;
    let end = trace::end_at_break(cx, at, &sources, name)?;
    CodeGen::new(&end.finished, Rc::clone(&at.root().unit))?.compile_break(end)
}

/// True if the function only reads the value of a tensor, as `lambda t: t.item()` does: nothing is compiled before the
/// break, and nothing can be behind it. CPython then runs the function, because a hit would cost more than the function
/// itself, unless the user has asked for it.
fn is_the_break_alone(cx: &OpcodeExecutor<'_>, at: &BreakPoint) -> bool {
    at.reason.id == ReasonId::TensorValue
        && cx.trace.history.effort == Effort::Little
        && !cx.trace.history.is_resumed
        && cx.trace.graph.is_empty()
        && !cx.trace.graph.has_effects()
        && !at.is_between()
        && at.reason.forbidden_by.is_none()
        && at.frames.iter().all(|frame| frame.only_returns_afterwards(cx.py))
}
