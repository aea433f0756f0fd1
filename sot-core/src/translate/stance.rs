//! Applies the user's stance to a frame that no translation fits.

use pyo3::prelude::*;

use crate::cache::CodeCache;
use crate::cpython::{FreshFrame, Verdict};
use crate::error::RecompileError;
use crate::machine::runtime::Runtime;
use crate::stance::Stance;
use crate::value_path::ValuePath;

use super::report::{failed_guards, place_of};
use super::whole_program::is_given_tensors;

/// Returns the verdict on the frame; `None` if it is to be translated.
pub(super) fn verdict(runtime: &Runtime, cache: &CodeCache, frame: &FreshFrame<'_, '_>) -> Option<Verdict> {
    match Stance::now() {
        Stance::Default => None,
        Stance::FailOnRecompile if is_wanted(runtime, cache, frame) => Some(Verdict::Raise(refusal(cache, frame))),
        Stance::Eager | Stance::EagerOnRecompile | Stance::FailOnRecompile => {
            Some(Verdict::Original { disable_eval_frame: false })
        }
        Stance::EagerThenCompile => {
            // A resume function is part of a call that is translated.
            let may_be_first = cache.entries.is_empty() && cache.origin().is_none();
            let is_first = may_be_first && cache.sizes.lock().note_shapes(shapes(runtime, frame));
            // Functions that it calls belong to the first call, too.
            is_first.then_some(Verdict::Original { disable_eval_frame: true })
        }
    }
}

/// True if the user wants the frame to be translated: it was asked for, or it is given tensors.
fn is_wanted(runtime: &Runtime, cache: &CodeCache, frame: &FreshFrame<'_, '_>) -> bool {
    cache.directives.is_root() || is_given_tensors(runtime, frame)
}

fn refusal(cache: &CodeCache, frame: &FreshFrame<'_, '_>) -> PyErr {
    let place = place_of(&frame.code());
    let why = if cache.entries.is_empty() {
        "\n  It has no translation yet: call it once with such arguments before the stance is taken.".to_owned()
    } else {
        failed_guards(cache, frame)
    };
    RecompileError::new_err(format!(
        "{} ({}:{}) would have to be translated, which the stance \"fail_on_recompile\" forbids.{why}",
        place.function, place.file, place.line
    ))
}

/// Returns the shapes of the arguments that are tensors.
fn shapes(runtime: &Runtime, frame: &FreshFrame<'_, '_>) -> Vec<(ValuePath, Vec<i64>)> {
    let shape_of = |(name, object): &(String, Bound<'_, PyAny>)| {
        let meta = runtime.backend().is_tensor(object).then(|| runtime.backend().meta(object).ok()).flatten()?;
        let shape = meta.shape.into_iter().collect::<Option<Vec<_>>>()?;
        Some((ValuePath::argument(name), shape))
    };
    arguments(frame).iter().filter_map(shape_of).collect()
}

/// Returns the arguments with their names.
fn arguments<'py>(frame: &FreshFrame<'_, 'py>) -> Vec<(String, Bound<'py, PyAny>)> {
    let names = frame.code().getattr("co_varnames").and_then(|names| names.extract::<Vec<String>>());
    let names = names.unwrap_or_default().into_iter().enumerate();
    names.filter_map(|(slot, name)| Some((name, frame.arg(slot)?))).collect()
}
