//! Records details of a simulation for reports: the simulated lines, the place of each statement, and the registrations
//! of plug-ins and of the program that took part. Recorded only if the user requested details.

use pyo3::prelude::*;

use crate::entity::VarId;
use crate::error::Flow;
use crate::fault;
use crate::machine::executor::{Frame, OpcodeExecutor, Trace};
use crate::origin::{self, Registered};
use crate::registered::Registration;
use crate::report::{PlaceReport, SourceRecord};
use crate::tracker::{Key, Tracker, TrackerId, Trackers};

/// Conventional name of a method's first parameter.
const SELF: &str = "self";

/// Notes the line of the innermost frame.
pub(in crate::machine::executor) fn note_line(cx: &mut OpcodeExecutor<'_>) {
    let (Some(source), Some(frame)) = (&mut cx.observed.source, cx.stack.last()) else { return };
    let line = frame.code.code.instructions.get(frame.at.index()).and_then(|at| at.position.line);
    if let Some(line) = line {
        source.note_line(&frame.code, line);
    }
}

impl OpcodeExecutor<'_> {
    /// Notes for reports that a registration of the program takes part in the translation.
    pub fn note_registered(&mut self, registration: &Registration) {
        if let Some(source) = &mut self.observed.source {
            source.registrations.insert(registration.text(self.py));
        }
    }

    /// Runs `work`, the function of a registration. A fault in `work` is attributed to the registration. Reports list
    /// the registration if a plug-in made it.
    #[inline]
    pub(crate) fn run_registered<T>(
        &mut self,
        registration: &impl Registered,
        work: impl FnOnce(&mut Self) -> Flow<T>,
    ) -> Flow<T> {
        if let Some(source) = &mut self.observed.source {
            let linked = registration.linked();
            if !origin::is_of_the_tracer(linked.origin.krate) {
                source.registrations.insert(linked.to_string());
            }
        }
        fault::running(registration, || work(self))
    }
}

/// The place of the statement that is being made.
pub(in crate::machine::executor) fn place_of_statement(cx: &mut OpcodeExecutor<'_>) -> Option<u32> {
    let mut source: SourceRecord = cx.observed.source.take()?;
    let mut parent = None;
    for frame in cx.stack.iter() {
        let (scope, class) = scope(&cx.trace, frame).unzip();
        let function = source.function(&frame.code);
        let line = frame.location().line;
        parent = Some(source.place(PlaceReport { parent, function, line, scope, class }));
    }
    cx.observed.source = Some(source);
    parent
}

/// Returns the text of the object whose method the frame runs, and the name of its class.
fn scope(trace: &Trace<'_>, frame: &Frame) -> Option<(String, String)> {
    let code = &frame.code.code;
    let this = (*frame.locals.first()?)?;
    let is_method = code.total_args() > 0 && code.varnames.first().is_some_and(|name| name == SELF);
    Some((path_of_variable(trace, this).filter(|_| is_method)?, trace.class_name(this)))
}

/// Returns the path by which the program finds an object of the framework that is called as a whole.
pub(in crate::machine::executor) fn path_of_object(trace: &Trace<'_>, object: &Bound<'_, PyAny>) -> Option<String> {
    path_of_variable(trace, trace.identities.of(object)?)
}

fn path_of_variable(trace: &Trace<'_>, variable: VarId) -> Option<String> {
    let tracker = trace.vars.tracker(variable);
    trace.trackers.is_sourced(tracker).then(|| path_text(&trace.trackers, tracker))
}

/// The path to an object without the private containers on it: `self.blocks.0.norm`.
fn path_text(trackers: &Trackers, tracker: TrackerId) -> String {
    let mut steps = Vec::new();
    let mut at = Some(tracker);
    let mut in_container = false;
    while let Some(id) = at {
        let step = match trackers.get(id) {
            Tracker::Local { name, .. } | Tracker::FreeCell { name, .. } => Some(name.to_string()),
            Tracker::Attribute { name, .. } | Tracker::Getattr { name, .. } => {
                (!(in_container && name.starts_with('_'))).then(|| name.to_string())
            }
            Tracker::Item { key: Key::Str(text), .. } => Some(text.to_string()),
            Tracker::Item { key: Key::Index(index), .. } => Some(index.to_string()),
            _ => None,
        };
        in_container = matches!(trackers.get(id), Tracker::Item { .. });
        steps.extend(step);
        at = trackers.get(id).parent();
    }
    steps.reverse();
    steps.join(".")
}
