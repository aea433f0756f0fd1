//! Reports of a translation: counters, log lines and the records that `explain` shows.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyCode;

use crate::bytecode::Code;
use crate::cache::CodeCache;
use crate::codegen::NewCode;
use crate::error::{Location, Reason, ReasonId};
use crate::graph::StatementIR;
use crate::guard::FrameView;
use crate::log::{self, Channel};
use crate::machine::executor::{CodeUnit, Trace};
use crate::report::{self, FailedGuard, ReasonReport, TranslationReport};
use crate::stats::{self, Record};
use crate::tracker::TrackerId;

static GRAPHS: AtomicU64 = AtomicU64::new(0);

/// Returns the name of the next graph.
pub(super) fn next_graph() -> String {
    format!("SIR_{}", GRAPHS.load(Ordering::Relaxed))
}

/// The facts about a translation that counters, logs, `explain` and reports show. Costly ones are computed when they
/// are first read.
pub(super) struct TranslationFacts<'a> {
    pub(super) unit: &'a CodeUnit,
    pub(super) new_code: Option<&'a NewCode>,
    /// Why the frame was broken or left to CPython. Its stack is not empty.
    pub(super) reason: Option<Reason>,
    guards: OnceCell<Vec<(String, Option<TrackerId>)>>,
    listing: OnceCell<Option<String>>,
}

impl<'a> TranslationFacts<'a> {
    pub(super) fn new(unit: &'a CodeUnit, new_code: Option<&'a NewCode>, reason: Option<&Reason>) -> Self {
        let reason = reason.cloned().map(|mut reason| {
            if reason.stack.is_empty() {
                reason.stack = vec![unit.place()];
            }
            reason
        });
        TranslationFacts { unit, new_code, reason, guards: OnceCell::new(), listing: OnceCell::new() }
    }

    pub(super) fn graphs(&self) -> &'a [StatementIR] {
        self.new_code.map(|new| &new.graphs[..]).unwrap_or_default()
    }

    /// The texts of the guards, with the trackers that they are about.
    pub(super) fn guards(&self, trace: &Trace<'_>) -> &[(String, Option<TrackerId>)] {
        self.guards.get_or_init(|| trace.guards.described(trace.py, &trace.trackers))
    }

    fn guard_texts(&self, trace: &Trace<'_>) -> Vec<String> {
        self.guards(trace).iter().map(|(text, _)| text.clone()).collect()
    }

    /// The listing of the new code, with the names of graphs and resume functions.
    pub(super) fn listing(&self, py: Python<'_>) -> Option<&str> {
        self.listing.get_or_init(|| self.new_code.and_then(|new| listing(py, new))).as_deref()
    }
}

/// Counts, logs and records the outcome of a translation.
pub(super) fn report(trace: &Trace<'_>, facts: &TranslationFacts<'_>) {
    let py = trace.py;
    let (graphs, name) = (facts.graphs(), &facts.unit.code.qualname);
    GRAPHS.fetch_add(graphs.len() as u64, Ordering::Relaxed);
    stats::update(|stats| {
        stats.graphs += graphs.len() as u64;
        stats.replayed += graphs.iter().filter(|graph| graph.replayed.is_some()).count() as u64;
    });
    if let Some(reason) = &facts.reason {
        if facts.new_code.is_some() {
            log::say(Channel::Breaks, &format!("[BreakGraph]: {name}: {reason}"));
            count_break(reason);
        } else if is_ours(reason) {
            log::say(Channel::Breaks, &format!("[Fallback]: {name}: {reason}"));
            count_fallback(reason);
        } else {
            log::write(log::GRAPHS, &format!("[Fallback]: {name}: {reason}"));
        }
    }
    for graph in graphs {
        log::say(Channel::Graphs, &graph.to_string());
    }
    if log::wants(Channel::Guards) {
        log::say(Channel::Guards, &format!("[Guard]: {}", facts.guard_texts(trace).join(" and ")));
    }
    if log::wants(Channel::Code) {
        if let Some(code) = facts.listing(py) {
            log::say(Channel::Code, &format!("NewCode:\n{code}"));
        }
    }
    if stats::is_recording() {
        let code = &facts.unit.code;
        stats::record(Record {
            name: code.qualname.clone(),
            filename: code.filename.clone(),
            line: code.first_line,
            graphs: graphs.to_vec(),
            guards: facts.guard_texts(trace),
            code: facts.listing(py).map(str::to_owned),
            reason: facts.reason.clone(),
            fallback: facts.new_code.is_none(),
        });
    }
}

/// The listing of new code, with the names of the functions that stand for graphs and resume functions.
fn listing(py: Python<'_>, new: &NewCode) -> Option<String> {
    let code = Code::decode(new.code.bind(py)).ok()?;
    let name_of = |line: &str| {
        let index = line.trim_end().rsplit(' ').next()?;
        let constant = code.consts.get(index.parse::<usize>().ok()?)?.bind(py);
        constant.getattr("__name__").ok()?.extract::<String>().ok()
    };
    let named = code
        .disassemble(py)
        .lines()
        .map(|line| match line.split_once("(<builtin_function_or_method object>)") {
            Some((before, _)) => name_of(before).map_or(line.to_owned(), |name| format!("{before}({name})")),
            None => line.to_owned(),
        })
        .collect::<Vec<_>>();
    Some(named.join("\n"))
}

/// The part of a frame that CPython runs although no simulation ended there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftPart {
    /// A whole frame.
    Frame,
    /// The rest of a frame, behind a graph break.
    Rest,
}

/// Counts, logs and reports that CPython runs code for which there was no simulation. `failed` are the guards that
/// led to that; `more` is appended to the log line.
pub(super) fn tell_left(left: LeftPart, reason: &Reason, failed: Vec<FailedGuard>, more: &str) {
    let Some(place) = reason.stack.first().cloned() else { return };
    let (said, outcome) = match left {
        LeftPart::Frame => {
            count_fallback(reason);
            (format!("[Fallback]: {reason}{more}"), "fallback")
        }
        LeftPart::Rest => {
            count_break(reason);
            (format!("[BreakGraph]: {}: {reason}{more}", place.function), "translated")
        }
    };
    log::say(Channel::Breaks, &said);
    report::add(TranslationReport {
        id: report::next_id(),
        function: place.function,
        file: place.file,
        line: place.line,
        outcome,
        began: report::now(),
        reason: Some(ReasonReport::from(reason)),
        recompiled: failed,
        ..TranslationReport::default()
    });
}

/// Counts a frame that is left to CPython.
pub(super) fn count_fallback(reason: &Reason) {
    if is_ours(reason) {
        stats::update(|stats| *stats.fallbacks.entry(placed(reason)).or_default() += 1);
    }
}

/// True if the fallback counts as a limit of the tracer: not for a frame without tensor work or one that raises.
pub(super) fn is_ours(reason: &Reason) -> bool {
    !matches!(reason.id, ReasonId::NothingToCompile | ReasonId::Raises | ReasonId::CacheNotFilled)
}

/// Counts a graph break.
fn count_break(reason: &Reason) {
    stats::update(|stats| *stats.breaks.entry(placed(reason)).or_default() += 1);
}

fn placed(reason: &Reason) -> String {
    reason.to_string()
}

/// Returns a line for each guard that failed, over all translations that do not fit the frame.
pub(super) fn failed_guards<'py>(cache: &CodeCache, frame: &impl FrameView<'py>) -> String {
    let failed: Vec<String> = cache.entries.failed(frame).iter().map(ToString::to_string).collect();
    let is_first = |at: &usize| !failed[..*at].contains(&failed[*at]);
    let times = |text: &String| match failed.iter().filter(|other| *other == text).count() {
        1 => String::new(),
        times => format!(" (in {times} translations)"),
    };
    let line = |at: usize| format!("\n  guard failed: {}{}", failed[at], times(&failed[at]));
    (0..failed.len()).filter(is_first).map(line).collect()
}

/// Returns the place where a code object begins.
pub(super) fn place_of(code: &Bound<'_, PyCode>) -> Location {
    let text = |name: &str| code.getattr(name).and_then(|value| value.extract::<String>()).unwrap_or_default();
    let line = code.getattr("co_firstlineno").and_then(|line| line.extract()).unwrap_or(0);
    Location::line(text("co_filename"), text("co_name"), line)
}
