//! Exceptions that the tracer raises in place of a frame: [`crate::error::RecompileError`], the error of a forbidden
//! graph break, what a registration has raised. The frame of a resume function is only the rest of a frame of the
//! program, so the program's handlers around the place must see the exception, and its `finally` blocks must run.

use pyo3::prelude::*;

use crate::cache::{self, CodeCache};
use crate::cpython::{FreshFrame, Verdict};
use crate::error::Flow;
use crate::resume::{self, ResumeSource};

/// Returns the verdict, unless it raises an exception in the frame of a resume function: then the frame gets code that
/// raises the exception where the function goes on.
pub(super) fn raised_in_place(cache: &CodeCache, frame: &FreshFrame<'_, '_>, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Raise(error) if cache.origin().is_some() => {
            let again = error.clone_ref(frame.py());
            match raising_code(frame, error) {
                Ok(Some(code)) => Verdict::Replace { code, disable_eval_frame: false },
                _ => Verdict::Raise(again),
            }
        }
        verdict => verdict,
    }
}

fn raising_code(frame: &FreshFrame<'_, '_>, error: PyErr) -> Flow<Option<Py<PyAny>>> {
    let py = frame.py();
    let Ok(unit) = cache::unit_of(frame.code().as_any()) else { return Ok(None) };
    let source = ResumeSource::of(py, &unit)?;
    let Some(key) = source.key(py) else { return Ok(None) };
    let line = source.unit.code.instructions[key.at.index()].position;
    resume::build_raising(py, &source.unit, &key, line, error).map(|built| Some(built.code))
}
