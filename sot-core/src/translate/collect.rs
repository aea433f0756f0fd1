//! Collects what reports show of a translation.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCode;
use rustc_hash::FxHashMap;

use crate::cache::{self, CacheEntry, CodeCache};
use crate::cpython;
use crate::error::ReasonId;
use crate::graph::StatementIR;
use crate::guard::FrameView;
use crate::machine::executor::{CodeUnit, OpcodeExecutor, Trace};
use crate::report::{
    self, CodeReport, CountsUses, FailedGuard, GraphReport, GuardReport, ReasonReport, ResumeReport, TrackerReport,
    TranslationReport,
};
use crate::tracker::{Key, Tracker, TrackerId};

use super::report::TranslationFacts;

/// Returns the guards that do not hold for a frame, if the user asked for details.
pub(super) fn unmet_guards<'py>(cache: &CodeCache, frame: &impl FrameView<'py>) -> Vec<FailedGuard> {
    if report::has_details() {
        cache.entries.failed(frame)
    } else {
        Vec::new()
    }
}

/// Counts the guards that do not hold for a frame, if the user asked for details.
pub(super) fn count_unmet_guards<'py>(cache: &CodeCache, frame: &impl FrameView<'py>) {
    report::misses(&unmet_guards(cache, frame));
}

/// Collects what is known once the frame has been simulated and its new code is written.
pub(super) fn collect(cx: &mut OpcodeExecutor<'_>, facts: &TranslationFacts<'_>) -> TranslationReport {
    let (code, graphs) = (&facts.unit.code, facts.graphs());
    let line = resume_line(cx.py, facts.unit);
    let mut collected = TranslationReport {
        function: code.qualname.clone(),
        file: code.filename.clone(),
        line: line.unwrap_or(code.first_line),
        outcome: if facts.new_code.is_some() { "translated" } else { "fallback" },
        resume: line.map(|line| ResumeReport { line }),
        instructions: cx.limits.steps(),
        statements: graphs.iter().map(StatementIR::operations).sum(),
        graph_count: graphs.len(),
        guard_count: cx.trace.guards.len(),
        earlier: cx.trace.history.translations,
        reason: facts.reason.as_ref().map(ReasonReport::from),
        ..TranslationReport::default()
    };
    if cx.observed.source.is_some() {
        add_details(&mut collected, cx, facts);
    }
    collected
}

/// Stores the report of a translation and returns its id. A report that says only that there was nothing to compile
/// is stored only if the user asked for details.
pub(super) fn keep(mut collected: TranslationReport, failed: Vec<FailedGuard>) -> u64 {
    let id = collected.id;
    let is_noise = collected.reason.as_ref().is_some_and(|reason| reason.id == ReasonId::NothingToCompile.id());
    if report::has_details() || !is_noise {
        collected.recompiled = failed;
        report::add(collected);
    }
    id
}

/// Connects the report of a translation with its entry, so that it shows the number of uses and, if the user asked
/// for details, the times of guards and calls.
pub(super) fn attach<'py>(id: u64, entry: &Arc<CacheEntry>, frame: &impl FrameView<'py>) {
    let Some(code) = entry.code() else { return };
    let guards = report::has_details().then(|| {
        cpython::forget_call_times(code);
        entry.time_guards(frame)
    });
    let entry: Arc<dyn CountsUses> = Arc::clone(entry) as _;
    report::attach(id, Arc::downgrade(&entry), guards);
}

/// The line at which a resume function resumes.
fn resume_line(py: Python<'_>, unit: &CodeUnit) -> Option<u32> {
    let prologue = cache::prologue_of(unit.object.bind(py).cast::<PyCode>().ok()?)?;
    let behind = unit.code.instructions.get((prologue as usize).checked_sub(1)?)?.target?;
    let at = unit.code.instructions.get(behind.index())?;
    at.position.line
}

fn add_details(collected: &mut TranslationReport, cx: &mut OpcodeExecutor<'_>, facts: &TranslationFacts<'_>) {
    let Some(mut source) = cx.observed.source.take() else { return };
    collected.registrations = std::mem::take(&mut source.registrations);
    (collected.functions, collected.places) = source.finish();
    collected.graphs.extend(facts.graphs().first().and_then(|ir| cx.trace.graph.take_drawn(ir)));
    let mut tree = TrackerTree::default();
    let guards = facts.guards(&cx.trace).iter().map(|(text, tracker)| GuardReport {
        text: text.clone(),
        tracker: tracker.map(|tracker| tree.add(&cx.trace, tracker)),
    });
    collected.guards = guards.collect();
    collected.guard_count = collected.guards.len();
    name_inputs(&cx.trace, &mut tree, &mut collected.graphs);
    collected.trackers = tree.trackers;
    collected.code = Some(codes(cx.py, facts));
}

/// Notes where the inputs and parameters of the graphs come from.
fn name_inputs(trace: &Trace<'_>, tree: &mut TrackerTree, graphs: &mut [GraphReport]) {
    for (variable, symbol) in trace.graph.inputs.entered() {
        let (name, tracker) = (trace.graph.name(symbol), trace.vars.tracker(variable));
        let values = graphs.iter_mut().flat_map(|graph| &mut graph.values).filter(|value| value.name == name);
        for value in values {
            value.from = Some(trace.trackers.text(trace.py, tracker));
            let index = tree.add(trace, tracker);
            tree.trackers[index as usize].symbol = Some(name.to_owned());
        }
    }
}

/// The trackers that guards and inputs refer to, with their parents.
#[derive(Default)]
struct TrackerTree {
    trackers: Vec<TrackerReport>,
    ids: FxHashMap<TrackerId, u32>,
}

impl TrackerTree {
    fn add(&mut self, trace: &Trace<'_>, id: TrackerId) -> u32 {
        if let Some(&known) = self.ids.get(&id) {
            return known;
        }
        let tracker = trace.trackers.share(id);
        let parents: Vec<TrackerId> = match &*tracker {
            Tracker::Computed { of, .. } => of.clone(),
            tracker => tracker.parent().into_iter().collect(),
        };
        let parents = parents.into_iter().map(|parent| self.add(trace, parent)).collect();
        let text = trace.trackers.text(trace.py, id);
        let index = self.trackers.len() as u32;
        self.trackers.push(TrackerReport { step: step(trace, &tracker, &text), text, parents, symbol: None });
        self.ids.insert(id, index);
        index
    }
}

/// The text of the last step of a tracker's path.
fn step(trace: &Trace<'_>, tracker: &Tracker, text: &str) -> String {
    match tracker {
        Tracker::Local { name, .. } | Tracker::FreeCell { name, .. } => name.to_string(),
        Tracker::Globals => "global variables".to_owned(),
        Tracker::Builtins => "builtins".to_owned(),
        Tracker::Attribute { name, .. } | Tracker::Getattr { name, .. } => format!(".{name}"),
        Tracker::Lookup { name, .. } => format!(".{name} by the class"),
        Tracker::Type { .. } => "type".to_owned(),
        Tracker::Item { key: Key::Str(key), .. } => format!("['{key}']"),
        Tracker::Item { key, .. } => format!("[{}]", key.text(trace.py)),
        Tracker::CellContents { .. } => "contents of the cell".to_owned(),
        Tracker::Part { part, .. } => format!(".{}", part.attribute()),
        Tracker::Length { .. } => "length".to_owned(),
        Tracker::AsBuiltinBase { .. } => "storage".to_owned(),
        _ => text.to_owned(),
    }
}

/// Returns the listings of the old and the new code, and the ids of the resume functions that the new code calls.
fn codes(py: Python<'_>, facts: &TranslationFacts<'_>) -> CodeReport {
    let resumes = facts.new_code.map(|new| &new.resumes[..]).unwrap_or_default();
    CodeReport {
        id: format!("{:x}", facts.unit.object.as_ptr() as usize),
        old: facts.unit.code.disassemble(py),
        new: facts.listing(py).map(str::to_owned),
        resumes: resumes.iter().map(|code| format!("{code:x}")).collect(),
    }
}
