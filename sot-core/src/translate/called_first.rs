//! The resume functions that a resume function begins with a call of. Where the graph has broken in a function that was
//! called, the caller's resume function begins by calling the resume function of the called function, and so on for
//! each call that was running.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyFunction;

use crate::cache::{self, CodeCache};
use crate::cpython::{self, FreshFrame};
use crate::error::Flow;
use crate::machine::executor::CodeUnit;
use crate::resume::{Entry, ResumeKey, ResumeSource};
use crate::settling::source_hash;

/// A resume function that is an argument of another one.
pub(super) struct CalledFirst<'py> {
    /// Its code.
    pub unit: Rc<CodeUnit>,
    /// Its original code.
    pub source: ResumeSource<'py>,
    /// Its key.
    pub key: ResumeKey,
}

/// Returns the resume function that another one, with this code and key, begins with a call of.
pub(super) fn called_first<'py>(
    py: Python<'py>,
    frame: &FreshFrame<'_, '_>,
    unit: &CodeUnit,
    key: &ResumeKey,
) -> Flow<Option<CalledFirst<'py>>> {
    Calls::of(frame, unit, key).next(py)
}

/// Returns whether `is_wanted` is true of a resume function that another one, with this code and key, begins with a
/// call of, or of one that is called by these.
pub(super) fn any_called<'py>(
    py: Python<'py>,
    frame: &FreshFrame<'_, '_>,
    unit: &CodeUnit,
    key: &ResumeKey,
    mut is_wanted: impl FnMut(&CalledFirst<'py>) -> bool,
) -> Flow<bool> {
    let mut calls = Calls::of(frame, unit, key);
    while let Some(called) = calls.next(py)? {
        if is_wanted(&called) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns hashes of the resume functions that a frame begins with calls of, in an order of their own and each once:
/// a recursive function calls itself any number of times. Two frames of a resume function with different hashes go on
/// at different places in the functions that were called. Empty for other frames.
pub(super) fn hashes(py: Python<'_>, cache: &CodeCache, frame: &FreshFrame<'_, '_>) -> Flow<Box<[u64]>> {
    if cache.origin().is_none() {
        return Ok(Box::default());
    }
    let unit = cache::readable_unit_of(frame.code().as_any())?;
    let Some(key) = ResumeSource::of(py, &unit)?.key(py) else { return Ok(Box::default()) };
    let mut hashes = Vec::new();
    let mut calls = Calls::of(frame, &unit, &key);
    while let Some(called) = calls.next(py)? {
        hashes.push(source_hash(called.unit.object.bind(py).cast().map_err(PyErr::from)?)?);
    }
    hashes.sort_unstable();
    hashes.dedup();
    Ok(hashes.into())
}

/// Goes from a resume function to the one that it begins with a call of, and so on.
struct Calls<'a, 'f, 'py> {
    frame: &'a FreshFrame<'f, 'py>,
    /// The slot of the frame that holds the next function, and the number of arguments behind the function. `None`
    /// behind the innermost one.
    at: Option<(usize, usize)>,
}

impl<'a, 'f, 'py> Calls<'a, 'f, 'py> {
    fn of(frame: &'a FreshFrame<'f, 'py>, unit: &CodeUnit, key: &ResumeKey) -> Self {
        let at = match key.entry {
            Entry::Return(arguments, _) => Some((unit.code.total_args() - 1 - arguments, arguments)),
            _ => None,
        };
        Calls { frame, at }
    }

    fn next<'p>(&mut self, py: Python<'p>) -> Flow<Option<CalledFirst<'p>>> {
        let Some((slot, arguments)) = self.at.take() else { return Ok(None) };
        let called = self.frame.arg(slot).and_then(|called| called.cast_into::<PyFunction>().ok());
        let Some(called) = called.map(|called| cpython::function_code(&called)) else { return Ok(None) };
        let unit = cache::readable_unit_of(called.as_any())?;
        let source = ResumeSource::of(py, &unit)?;
        let Some(key) = source.key(py) else { return Ok(None) };
        if let Entry::Return(inner, _) = key.entry {
            self.at = Some((slot + arguments - inner, inner));
        }
        Ok(Some(CalledFirst { unit, source, key }))
    }
}
