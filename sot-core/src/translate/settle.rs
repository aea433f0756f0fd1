//! Settling: decides when a code object is no longer translated anew (see [`crate::settling`]).

use std::rc::Rc;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyCode, PyWeakrefMethods};

use crate::cache::CodeCache;
use crate::cpython::{FreshFrame, Verdict};
use crate::error::{Forbidden, Reason, ReasonId};
use crate::forgetting;
use crate::log;
use crate::machine::executor::{CodeUnit, ValuePolicy};
use crate::machine::runtime::Runtime;
use crate::report::FailedGuard;
use crate::settling::{of_source, Settling};

use super::called_first;
use super::report::{place_of, tell_left, LeftPart};
use crate::cache::{cache_of, Recurring};
use crate::policy::DROP_UNUSED_AFTER;

/// The account of the code object of a frame that no translation fits.
pub(super) struct Account<'a> {
    cache: &'a CodeCache,
    settling: Arc<Settling>,
}

impl<'a> Account<'a> {
    pub(super) fn of(cache: &'a CodeCache, code: &Bound<'_, PyCode>, is_in_loop: impl FnOnce() -> bool) -> Self {
        // Resume functions in loops are limited by `left_round` instead.
        let make =
            || if is_in_loop() { Arc::new(Settling::of_loop()) } else { account_of(cache, code).unwrap_or_default() };
        Account { cache, settling: cache.usage.settling(make) }
    }

    /// True if the frame is left to CPython because one more translation would not be the last.
    pub(super) fn is_settled(&self, runtime: &Runtime, frame: &FreshFrame<'_, '_>) -> bool {
        if self.settling.balance(0).allows_translation()
            || self.cache.directives.forbids(Forbidden::Fallback)
            || self.is_first_of_place(frame)
        {
            return false;
        }
        let recurring = self.recurring(runtime, frame);
        !self.settling.balance(recurring.of_others + recurring.used).allows_translation() && !self.settling.is_of_loop()
    }

    /// The translations whose frames occur again. A function that many objects of a model share is translated for each
    /// of them.
    fn recurring(&self, runtime: &Runtime, frame: &FreshFrame<'_, '_>) -> Recurring {
        self.cache.entries.recurring(frame, &|object| runtime.may_hold_tensors(object))
    }

    /// True if the frame is that of a resume function which has not been translated for this place: the place where the
    /// functions that were called go on.
    fn is_first_of_place(&self, frame: &FreshFrame<'_, '_>) -> bool {
        let is_new = |called: Box<[u64]>| !self.cache.usage.was_translated(&called);
        self.cache.origin().is_some() && called_first::hashes(frame.py(), self.cache, frame).is_ok_and(is_new)
    }

    /// Leaves the frame to CPython. `failures` returns the guards that failed; it is called the first time only.
    pub(super) fn left(&self, code: &Bound<'_, PyCode>, failures: impl FnOnce() -> Vec<FailedGuard>) -> Verdict {
        let earlier = self.settling.note_frame_left();
        if earlier == DROP_UNUSED_AFTER {
            self.cache.entries.drop_unused();
            self.cache.leave_alone();
        }
        if earlier == 0 {
            self.settling.mark_inlined_as_unstable();
            let text = "each call would need another translation";
            let reason = Reason { stack: vec![place_of(code)], ..Reason::new(ReasonId::TooManyEntries, text) };
            let failed = failures();
            let texts = failed.iter().fold(String::new(), |all, failed| format!("{all}\n  does not hold: {failed}"));
            log::ask_loggers(code.py());
            tell_left(LeftPart::Frame, &reason, failed, &texts);
            log::flush(code.py());
        }
        Verdict::Original { disable_eval_frame: false }
    }

    pub(super) fn policy(&self, runtime: &Runtime, frame: &FreshFrame<'_, '_>) -> ValuePolicy {
        if self.cache.directives.forbids(Forbidden::Break) {
            return ValuePolicy::SpecializeAlways;
        }
        // Resume functions have lower limits anyway.
        let generalizes = self.cache.origin().is_none()
            && self.settling.balance(0).should_generalize()
            && self.settling.balance(self.recurring(runtime, frame).of_others).should_generalize();
        if generalizes {
            ValuePolicy::Generalize
        } else {
            ValuePolicy::Specialize
        }
    }

    /// Counts a translation, and notes the accounts of the code that was inlined.
    pub(super) fn note_translation(&self, frame: &FreshFrame<'_, '_>, followed: &[Rc<CodeUnit>]) {
        let py = frame.py();
        self.settling.note_translation();
        let is_first = |called| self.cache.usage.note_translated(called);
        if self.cache.origin().is_some() && called_first::hashes(py, self.cache, frame).is_ok_and(is_first) {
            self.settling.note_resume_function();
        }
        for unit in followed {
            let Ok(code) = unit.object.bind(py).cast::<PyCode>() else { continue };
            if let Some(cache) = cache_of(code).filter(|cache| !cache.directives.is_root()) {
                cache.refresh(forgetting::generation());
                self.settling.note_followed(&Account::of(&cache, code, || false).settling);
            }
        }
    }
}

/// Returns the account that a code object shares with others, if it does: a resume function with its original code,
/// and a function that nobody asked for with all code made from the same text.
fn account_of(cache: &CodeCache, code: &Bound<'_, PyCode>) -> Option<Arc<Settling>> {
    if let Some(origin) = cache.origin() {
        let base = origin.base.bind(code.py()).upgrade()?.cast_into::<PyCode>().ok()?;
        return Some(Account::of(&*cache_of(&base)?, &base, || false).settling);
    }
    if cache.directives.is_root() {
        return None;
    }
    of_source(code, forgetting::generation()).ok()
}
