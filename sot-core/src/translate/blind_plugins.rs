//! Refuses guards of a plug-in that fail on the very frame they were made from. Such a guard holds for no call, so
//! each call would be translated again. The frame is left to CPython instead, and a warning names the plug-in.
//!
//! Guards of the tracer and of its own backend are exempt. A function that was called for its result during the
//! simulation may have changed the value they test, and they will hold from the next translation on.

use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning};
use pyo3::prelude::*;

use crate::backend::MetaTest;
use crate::cpython::{self, FreshFrame};
use crate::error::{Reason, ReasonId};
use crate::fault;
use crate::foreign::Foreign;
use crate::guard::{GuardProgram, GuardSubjects, UnmetGuard};
use crate::machine::executor::Trace;
use crate::machine::variable::Form;
use crate::origin::{self, Registered};
use crate::registered::{self, RegistrationFailure};
use crate::tracker::{Tracker, TrackerId};

/// Returns an error, and warns the program with its text, if a guard of a plug-in does not hold. Returns the reason to
/// leave the frame to CPython, and warns, if the guard is about what a function gives that the program has registered.
pub(super) fn refuse(
    trace: &Trace<'_>,
    guards: &GuardProgram,
    subjects: &GuardSubjects,
    frame: &FreshFrame<'_, '_>,
) -> PyResult<Option<Reason>> {
    let blind = blind_guard(trace, guards, subjects, frame);
    let mut reason = blind.as_ref().filter(|blind| blind.is_of_program).map(|_| ReasonId::RegistrationDiffers);
    let blind = match registered::take_failure() {
        Some(RegistrationFailure::Ended(error)) => return Err(error),
        Some(RegistrationFailure::Failed(text)) => {
            reason = reason.map(|_| ReasonId::RegistrationRaised);
            blind.map(|blind| format!("{}; {text}", blind.text))
        }
        None => blind.map(|blind| blind.text),
    };
    let Some(text) = blind.or_else(|| ambiguous_key(trace)) else { return Ok(None) };
    let category = trace.py.get_type::<PyRuntimeWarning>();
    cpython::import(trace.py, "warnings")?.call_method1("warn", (&text, category))?;
    match reason {
        Some(id) => Ok(Some(Reason::new(id, text))),
        None => Err(PyRuntimeError::new_err(text)),
    }
}

/// A guard that does not hold on the frame it was made from.
struct BlindGuard {
    text: String,
    /// True if a function that the program has registered gives what is tested.
    is_of_program: bool,
}

fn blind_guard(
    trace: &Trace<'_>,
    guards: &GuardProgram,
    subjects: &GuardSubjects,
    frame: &FreshFrame<'_, '_>,
) -> Option<BlindGuard> {
    let of_other_backend = fault::backend().is_some_and(|backend| !origin::is_of_the_tracer(backend.origin.krate));
    if !of_other_backend && !trace.runtime.kinds.has_plugins() && trace.trackers.plugins().is_empty() {
        return None;
    }
    let UnmetGuard { guard, seen, step, tested_by, .. } = guards.unmet(frame)?;
    let subject = step.and_then(|step| subjects.at(step));
    let found = found_by(trace, subject);
    let is_of_program = found.as_ref().is_some_and(|found| found.0.is_of_program());
    let owner = found.map(|found| found.0.plugin()).or_else(|| match tested_by {
        Some(type_name) => test_of(trace, subject, type_name),
        None => kind_of(trace, subject),
    })?;
    let seen = seen.map(|seen| format!("; seen: {seen}")).unwrap_or_default();
    let why = if is_of_program { "flatten() gives what does not equal itself: " } else { "" };
    let text = format!(
        "a guard of {owner} does not hold on the frame it was made from, which is left to CPython from now on: \
         {why}{guard}{seen}"
    );
    Some(BlindGuard { text, is_of_program })
}

/// Returns the text of an error if two fetches of plug-ins have the same key: new code would confuse their values.
fn ambiguous_key(trace: &Trace<'_>) -> Option<String> {
    let tracker = trace.identities.contradiction()?;
    let what = format!("two tensors are said to be {}", trace.trackers.text(trace.py, tracker));
    let plugins = trace.trackers.plugins().join(", ");
    Some(format!("a key of {plugins} is that of two fetches, and the frame is left to CPython from now on: {what}"))
}

/// Returns the trackers on the path to a value, from the value's own tracker to the first one.
fn way<'a>(trace: &'a Trace<'_>, subject: Option<TrackerId>) -> impl Iterator<Item = TrackerId> + 'a {
    std::iter::successors(subject, |id| trace.trackers.get(*id).parent())
}

/// Returns the fetch of a plug-in that is a step on the path to a value.
fn found_by(trace: &Trace<'_>, subject: Option<TrackerId>) -> Option<Foreign> {
    way(trace, subject).find_map(|id| match trace.trackers.get(id) {
        Tracker::Foreign { how, .. } => Some(how.clone()),
        _ => None,
    })
}

/// Returns the kind, registered by a plug-in, of a value or of an object on the path to it.
fn kind_of(trace: &Trace<'_>, subject: Option<TrackerId>) -> Option<String> {
    way(trace, subject).find_map(|tracker| {
        let (_, payload) = trace.vars.iter().find(|(id, _)| trace.vars.tracker(*id) == tracker)?;
        let linked = trace.runtime.kinds.named(payload.kind())?.linked();
        (!origin::is_of_the_tracer(linked.origin.krate)).then(|| format!("the {linked}"))
    })
}

/// The library of an extension module, which contains the backend.
const EXTENSION: &str = "_sot";

/// Returns the owner of a test: the backend if the test is about its state or a tensor, or is from its library;
/// otherwise the type of a test that another crate defines.
fn test_of(trace: &Trace<'_>, subject: Option<TrackerId>, type_name: &'static str) -> Option<String> {
    let krate = type_name.split("::").next().unwrap_or_default();
    // The tracer's own test of metas asks the backend.
    let is_of_metas = type_name == std::any::type_name::<MetaTest>();
    if origin::is_of_the_tracer(krate) && !is_of_metas {
        return None;
    }
    let is_about_tensors = subject.is_none_or(|subject| {
        let mut of_subject = trace.vars.iter().filter(|(id, _)| trace.vars.tracker(*id) == subject);
        of_subject.any(|(_, payload)| payload.form() == Form::Tensor)
    });
    if !is_about_tensors && !is_of_metas && krate != EXTENSION {
        return Some(format!("the test {type_name}"));
    }
    let backend = fault::backend().filter(|backend| !origin::is_of_the_tracer(backend.origin.krate))?;
    Some(format!("the {backend}"))
}
