//! The data of a report. docs/report-schema.json describes its JSON.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::error::Reason;

/// What became of one translation: of one code object, for one set of guards.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TranslationReport {
    /// The number of the translation in its process.
    pub id: u64,
    /// Qualified name of the function.
    pub function: String,
    /// Its file.
    pub file: String,
    /// Its first line; of a resume function the line where it goes on.
    pub line: u32,
    /// `translated`, or `fallback` if the frame was left to CPython.
    pub outcome: &'static str,
    /// Where the original code goes on, if the code is that of a resume function.
    pub resume: Option<ResumeReport>,
    /// Seconds from the start of the first translation of the process to the start of this one.
    pub began: f64,
    /// Seconds by phase, of the attempt that stood.
    pub seconds: PhaseSeconds,
    /// All attempts; the last one stood.
    pub attempts: Vec<AttemptReport>,
    /// Instructions simulated.
    pub instructions: u64,
    /// Operations of its graphs.
    pub statements: usize,
    /// How many graphs there are.
    pub graph_count: usize,
    /// How many guards there are.
    pub guard_count: usize,
    /// Steps of the compiled guards: fetches and tests that a check walks.
    pub guard_steps: usize,
    /// Why the frame was broken or left to CPython.
    pub reason: Option<ReasonReport>,
    /// Calls that ran it; `None` if there is no new code.
    pub hits: Option<u64>,
    /// How long calls take; `None` if there is no new code, or details were not asked for.
    pub times: Option<TimesReport>,
    /// For each earlier translation of the code, the guard that did not hold.
    pub recompiled: Vec<FailedGuard>,
    /// Its graphs.
    pub graphs: Vec<GraphReport>,
    /// Where guards find their values; a tracker stands behind those it starts from.
    pub trackers: Vec<TrackerReport>,
    /// Its guards, in the order in which they are tested.
    pub guards: Vec<GuardReport>,
    /// The functions that were simulated; the first is the outermost.
    pub functions: Vec<FunctionReport>,
    /// Places of statements.
    pub places: Vec<PlaceReport>,
    /// The old and the new code.
    pub code: Option<CodeReport>,
    /// The registrations of plug-ins and of the program that took part.
    pub registrations: BTreeSet<String>,
}

/// How long the calls of a translation take.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TimesReport {
    /// Calls that were timed, the one that was translated among them.
    pub calls: u64,
    /// Seconds of all these calls, with what they call, without their guards.
    pub seconds: f64,
    /// Seconds that the guards take, measured once.
    pub guards: f64,
}

/// Where a resume function goes on.
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
    /// The backend building statements meanwhile.
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

/// One simulation of a frame.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct AttemptReport {
    /// How long it took, all phases together.
    pub seconds: f64,
    /// Whether it stood; others were thrown away, as the trace must begin again with what it has shown.
    pub stood: bool,
}

/// Why a graph ended before the code did, or why the frame is CPython's.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReasonReport {
    /// The stable id.
    pub id: &'static str,
    /// The kind of break: DDCF, UNSPS, CDBL, UNIMP, or FRAME.
    pub kind: &'static str,
    /// What was met.
    pub text: String,
    /// What a user can do about it.
    pub remedy: &'static str,
    /// The user's source, innermost call first.
    pub stack: Vec<StackEntry>,
}

impl From<&Reason> for ReasonReport {
    fn from(reason: &Reason) -> Self {
        let entry = |at: &crate::error::Location| StackEntry {
            file: at.file.clone(),
            line: at.line,
            function: at.function.clone(),
            columns: at.columns,
        };
        ReasonReport {
            id: reason.id.id(),
            kind: reason.id.kind().name(),
            text: reason.text.clone(),
            remedy: reason.hint(),
            stack: reason.stack.iter().map(entry).collect(),
        }
    }
}

/// One call on the way to a break.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StackEntry {
    /// The file.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The function.
    pub function: String,
    /// First and last column of the expression, where known.
    pub columns: Option<(u32, u32)>,
}

/// A guard that kept an earlier translation from being used.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FailedGuard {
    /// The translation whose guard it is.
    pub translation: u64,
    /// The guard.
    pub guard: String,
    /// What it expects.
    pub expected: Option<String>,
    /// What the call brought.
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
    /// The operations in order; those of a called `StatementIR` are among them.
    pub statements: Vec<StatementReport>,
    /// The `StatementIR` as text, where it calls others.
    pub folded: Option<String>,
}

/// A value of a graph.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ValueReport {
    /// Its symbol.
    pub name: String,
    /// `input`, `parameter` or `result`.
    pub role: &'static str,
    /// The sizes; `None` for one that is open.
    pub shape: Option<Vec<Option<i64>>>,
    /// The element type.
    pub dtype: Option<String>,
    /// Where it comes from.
    pub from: Option<String>,
}

/// One operation.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StatementReport {
    /// The line of the StatementIR.
    pub text: String,
    /// What is called.
    pub callee: String,
    /// The symbols it is given.
    pub uses: Vec<String>,
    /// The symbols it gives.
    pub outputs: Vec<String>,
    /// Index of its place in `places`.
    pub place: u32,
    /// The object of the framework that is called as a whole, as the program finds it.
    pub object: Option<String>,
}

/// Where guards find a value.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TrackerReport {
    /// The step from the parent: `.weight`, `['x']`, `type()`.
    pub step: String,
    /// The whole way.
    pub text: String,
    /// Indices of the trackers it starts from.
    pub parents: Vec<u32>,
    /// The symbol that it is in the graph, if it enters it.
    pub symbol: Option<String>,
}

/// One guard.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GuardReport {
    /// As Python.
    pub text: String,
    /// Index of the tracker it is about; none for the framework's global state.
    pub tracker: Option<u32>,
}

/// A function that was simulated.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FunctionReport {
    /// Qualified name.
    pub name: String,
    /// Its file.
    pub file: String,
    /// Its first line.
    pub line: u32,
    /// The lines that have instructions.
    pub lines: Vec<u32>,
    /// Those that were simulated.
    pub simulated: Vec<u32>,
}

/// A place in the program while it was simulated: a line, and the call it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct PlaceReport {
    /// Index of the place of the call, if the function was called.
    pub parent: Option<u32>,
    /// Index of the function.
    pub function: u32,
    /// The line.
    pub line: u32,
    /// The object whose method the function is, as the program finds it.
    pub scope: Option<String>,
    /// The class of that object.
    pub class: Option<String>,
}

/// The old and the new code.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CodeReport {
    /// What the code is known by.
    pub id: String,
    /// The listing of the old code.
    pub old: String,
    /// The listing of the new code.
    pub new: Option<String>,
    /// The codes of the resume functions that the new code goes on in.
    pub resumes: Vec<String>,
}
