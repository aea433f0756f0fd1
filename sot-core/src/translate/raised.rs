//! Exceptions that the tracer raises in place of a frame: [`crate::error::RecompileError`], the error of a forbidden
//! graph break, what a registration has raised. The frame of a resume function is only the rest of a frame of the
//! program, so the program's handlers around the place must see the exception, and its `finally` blocks must run.

use super::is_strict;
use crate::cache::CodeCache;
use crate::cpython::{FreshFrame, Verdict};
use crate::error::Unwind;
use crate::resume;

/// Returns the verdict, unless it raises an exception in the frame of a resume function: then the frame gets code that
/// raises the exception where the function goes on.
pub(super) fn raised_in_place(cache: &CodeCache, frame: &FreshFrame<'_, '_>, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Raise(error) if cache.origin().is_some() => {
            let again = error.clone_ref(frame.py());
            match resume::code_raising(frame.py(), &frame.code(), error) {
                Ok(Some(code)) => Verdict::Replace { code, disable_eval_frame: false },
                Err(Unwind::Internal(failed)) if is_strict() => Verdict::Raise(*failed),
                // Without that code the program's handlers around the place are passed by.
                _ => Verdict::Raise(again),
            }
        }
        verdict => verdict,
    }
}
