//! Directives about one code object, of the user and of the tracer: whether its frames are left to CPython, whether
//! their translation was requested, and what is an error in them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU8, Ordering};

use crate::error::Forbidden;

/// How the frames of one code object are to be treated.
#[derive(Default)]
pub struct Directives {
    skip: AtomicBool,
    /// True if functions called by the code are left alone, too.
    skip_below: AtomicBool,
    /// True if the code is left to CPython even where a request asks for its translation.
    disabled: AtomicBool,
    /// Number of live requests for the translation of the code.
    requests: AtomicU32,
    whole: AtomicBool,
    forbidden: AtomicU8,
}

impl Directives {
    /// Sets whether the code is left to CPython for good.
    pub fn set_skip(&self, skip: bool) {
        self.skip.store(skip, Ordering::Relaxed);
    }

    /// Leaves the code and all functions that it calls to CPython for good.
    pub fn set_skip_below(&self) {
        self.skip_below.store(true, Ordering::Relaxed);
        self.set_skip(true);
    }

    /// True if the code is left to CPython.
    #[inline]
    pub fn is_skipped(&self) -> bool {
        self.skip.load(Ordering::Relaxed)
    }

    /// True if functions called by the code are left alone, too.
    #[inline]
    pub fn skips_below(&self) -> bool {
        self.skip_below.load(Ordering::Relaxed)
    }

    /// Leaves the code to CPython even where it is requested: alone (`Some(false)`) or with all functions that it
    /// calls (`Some(true)`). `None` undoes that.
    pub fn set_disabled(&self, disabled: Option<bool>) {
        self.disabled.store(disabled.is_some(), Ordering::Relaxed);
        self.skip_below.store(disabled == Some(true), Ordering::Relaxed);
        self.set_skip(disabled.is_some());
    }

    /// True if the code is left to CPython even where it is requested.
    pub fn is_disabled(&self) -> bool {
        self.disabled.load(Ordering::Relaxed)
    }

    /// Adds a request for the translation of the code.
    pub(super) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.set_skip(self.is_disabled());
    }

    /// Takes one request back. Returns whether it was the last one.
    pub fn withdraw(&self) -> bool {
        self.requests.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// True if the user asked for this code.
    pub fn is_root(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Sets whether the code must become one graph, so that breaks and fallbacks are errors.
    pub fn set_whole(&self, whole: bool) {
        self.whole.store(whole, Ordering::Relaxed);
    }

    /// True if the code must become one graph.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Relaxed)
    }

    /// Makes breaks or fallbacks of the code an error for good. Returns whether they were none before.
    pub(super) fn forbid(&self, what: Forbidden) -> bool {
        self.forbidden.fetch_or(what as u8, Ordering::Relaxed) & what as u8 == 0
    }

    /// True if breaks or fallbacks of the code are an error.
    pub fn forbids(&self, what: Forbidden) -> bool {
        self.is_whole() || self.forbidden.load(Ordering::Relaxed) & what as u8 != 0
    }
}
