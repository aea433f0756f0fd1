//! The data of a report. docs/report-schema.json describes its JSON form.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::error::{Location, Reason};

/// The outcome of one translation: of one code object, under one set of guards.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TranslationReport {
    /// Number of the translation in the process.
    pub id: u64,
    /// Qualified name of the function.
    pub function: String,
    /// File of the function.
    pub file: String,
    /// First line of the function; for a resume function, the line where it continues.
    pub line: u32,
    /// `translated`; or `fallback` if the frame was left to CPython.
    pub outcome: &'static str,
    /// Where the original code continues, if the code is a resume function.
    pub resume: Option<ResumeReport>,
    /// Seconds from the start of the first translation of the process to the start of this one.
    pub began: f64,
    /// Seconds by phase, for the final attempt.
    pub seconds: PhaseSeconds,
    /// All attempts; the last one is final.
    pub attempts: Vec<AttemptReport>,
    /// Compilations of its graphs after their first runs: a graph with gradients is compiled when it runs again.
    pub compiled_later: Vec<LaterReport>,
    /// Instructions simulated.
    pub instructions: u64,
    /// Number of operations in its graphs.
    pub statements: usize,
    /// Number of graphs.
    pub graph_count: usize,
    /// Number of guards.
    pub guard_count: usize,
    /// Number of steps of the compiled guards: fetches and tests.
    pub guard_steps: usize,
    /// Why the frame was broken or left to CPython.
    pub reason: Option<ReasonReport>,
    /// Number of calls that ran it; `None` if there is no new code.
    pub hits: Option<u64>,
    /// Time that calls take; `None` if there is no new code, or details are not switched on.
    pub times: Option<TimesReport>,
    /// Number of earlier translations of the code, none of which fitted the call.
    pub earlier: usize,
    /// For each earlier translation of the code, the guard that failed.
    pub recompiled: Vec<FailedGuard>,
    /// Its graphs.
    pub graphs: Vec<GraphReport>,
    /// Trackers of the guards. A tracker comes after the trackers it is derived from.
    pub trackers: Vec<TrackerReport>,
    /// Its guards, in the order in which they are tested.
    pub guards: Vec<GuardReport>,
    /// The simulated functions; the first is the outermost.
    pub functions: Vec<FunctionReport>,
    /// Places of statements.
    pub places: Vec<PlaceReport>,
    /// The original and the new code.
    pub code: Option<CodeReport>,
    /// The registrations of plug-ins and of the program that took part in the translation.
    pub registrations: BTreeSet<String>,
}

/// Time that calls of a translation take.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TimesReport {
    /// Number of timed calls; the call that was translated counts.
    pub calls: u64,
    /// Seconds of these calls, with the functions they call, and without guards.
    pub seconds: f64,
    /// Seconds that one check of the guards takes, measured once.
    pub guards: f64,
}

/// Where a resume function continues.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ResumeReport {
    /// The line.
    pub line: u32,
}

/// Seconds by phase.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct PhaseSeconds {
    /// Simulating the frame.
    pub simulate: f64,
    /// Building statements in the backend, which is part of the simulation.
    pub build: f64,
    /// Compiling: graph, new code, guards.
    pub compile: f64,
}

impl PhaseSeconds {
    /// The phases by name.
    pub fn by_name(self) -> [(&'static str, f64); 3] {
        [("simulate", self.simulate), ("build", self.build), ("compile", self.compile)]
    }
}

/// One attempt: a simulation of the frame.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AttemptReport {
    /// Seconds of all phases together.
    pub seconds: f64,
    /// True for the final attempt. Earlier attempts were abandoned, and the next one used the facts learnt from them.
    pub stood: bool,
    /// Why the attempt was abandoned.
    pub abandoned: Option<AbandonedReport>,
}

/// Why an attempt was abandoned.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AbandonedReport {
    /// What the tracer met.
    pub text: String,
    /// The sizes of tensors that the attempt had left open, and that the next one assumes.
    pub assumes: Vec<String>,
    /// The user's source, innermost call first.
    pub stack: Vec<StackEntry>,
}

/// A graph that was compiled after its first runs.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LaterReport {
    /// Seconds from the start of the first translation of the process to the start of the compilation.
    pub began: f64,
    /// Seconds that it took.
    pub seconds: f64,
}

/// Why a graph ended early, or why the frame was left to CPython.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReasonReport {
    /// The stable id.
    pub id: &'static str,
    /// The kind of break: DDCF, UNSPS, CDBL, UNIMP, or FRAME.
    pub kind: &'static str,
    /// What the tracer met.
    pub text: String,
    /// What a user can do about it.
    pub remedy: &'static str,
    /// Address of a page about the reason, if a plug-in names one.
    pub page: Option<&'static str>,
    /// The user's source, innermost call first.
    pub stack: Vec<StackEntry>,
}

impl From<&Reason> for ReasonReport {
    fn from(reason: &Reason) -> Self {
        ReasonReport {
            id: reason.id.id(),
            kind: reason.id.kind().name(),
            text: reason.text.clone(),
            remedy: reason.hint(),
            page: reason.id.page(),
            stack: reason.stack.iter().map(StackEntry::from).collect(),
        }
    }
}

/// One call on the stack of a break.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StackEntry {
    /// The file.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The function.
    pub function: String,
    /// First and last column of the expression, if known.
    pub columns: Option<(u32, u32)>,
}

impl From<&Location> for StackEntry {
    fn from(at: &Location) -> Self {
        StackEntry { file: at.file.clone(), line: at.line, function: at.function.clone(), columns: at.columns }
    }
}

/// A guard that failed, so that an earlier translation was not used.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FailedGuard {
    /// Number of the translation that the guard belongs to.
    pub translation: u64,
    /// Text of the guard.
    pub guard: String,
    /// The expected value.
    pub expected: Option<String>,
    /// The value that the call had.
    pub seen: Option<String>,
}

impl fmt::Display for FailedGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.guard)?;
        self.seen.iter().try_for_each(|seen| write!(f, "; seen: {seen}"))
    }
}

/// One graph.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GraphReport {
    /// Its name.
    pub name: String,
    /// Why its statements are called one by one, if they are.
    pub replayed: Option<&'static str>,
    /// Symbols given at each call.
    pub inputs: Vec<String>,
    /// Symbols returned.
    pub outputs: Vec<String>,
    /// Inputs, parameters and results.
    pub values: Vec<ValueReport>,
    /// The operations in order, with those of called `StatementIR`s.
    pub statements: Vec<StatementReport>,
    /// The `StatementIR` as text, if it calls others.
    pub folded: Option<String>,
}

/// A value of a graph.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ValueReport {
    /// Its symbol.
    pub name: String,
    /// `input`, `parameter` or `result`.
    pub role: &'static str,
    /// The sizes; `None` for an open size.
    pub shape: Option<Vec<Option<i64>>>,
    /// The element type.
    pub dtype: Option<String>,
    /// Where the value comes from.
    pub from: Option<String>,
}

/// One operation.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StatementReport {
    /// The line of the StatementIR.
    pub text: String,
    /// Name of the callee.
    pub callee: String,
    /// Symbols it uses.
    pub uses: Vec<String>,
    /// Symbols of its results.
    pub outputs: Vec<String>,
    /// Index in `places` of the place where it was made.
    pub place: u32,
    /// The object of the framework that is called as a whole, as the program names it.
    pub object: Option<String>,
}

/// The tracker of a guarded value.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TrackerReport {
    /// The step from the parent: `.weight`, `['x']`, `type()`.
    pub step: String,
    /// The whole expression.
    pub text: String,
    /// Indices of the trackers it is derived from.
    pub parents: Vec<u32>,
    /// Symbol of the value in the graph, if it enters the graph.
    pub symbol: Option<String>,
}

/// One guard.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GuardReport {
    /// The guard as a Python expression.
    pub text: String,
    /// Index of the tracker it tests; `None` for the framework's global state.
    pub tracker: Option<u32>,
}

/// A function that was simulated.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FunctionReport {
    /// Qualified name.
    pub name: String,
    /// File of the function.
    pub file: String,
    /// First line of the function.
    pub line: u32,
    /// Lines that have instructions.
    pub lines: Vec<u32>,
    /// Lines that were simulated.
    pub simulated: Vec<u32>,
}

/// A place in the simulated program: a line, and the call that the line ran in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct PlaceReport {
    /// Index of the place that called the function; `None` for the outermost function.
    pub parent: Option<u32>,
    /// Index of the function in `functions`.
    pub function: u32,
    /// The line.
    pub line: u32,
    /// The object whose method the function is, as the program names it.
    pub scope: Option<String>,
    /// The class of that object.
    pub class: Option<String>,
}

/// The original and the new code.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CodeReport {
    /// Identifier of the code.
    pub id: String,
    /// Listing of the original code.
    pub old: String,
    /// The listing of the new code, if there is any.
    pub new: Option<String>,
    /// Identifiers of the resume functions' codes that the new code hands over to.
    pub resumes: Vec<String>,
}
