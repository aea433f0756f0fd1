//! The account of translations and hits of a code object, from which the policy decides whether one more translation is
//! worth it ([`Balance::allows_translation`]). A value that differs at each call in a way that no
//! translation can leave open, such as an object of a new class, would have the code translated without end. So a
//! translation has to be paid for by the hits of earlier ones: after a few translations that have too few hits, a
//! cache miss leaves the frame to CPython, and the functions that it calls are translated on their own.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCode};
use rustc_hash::FxHashMap;

use crate::policy::{Balance, FREE_TRANSLATIONS, MAX_ACCOUNTS_BY_SOURCE};

/// The account of translations and hits of one code object, or of all code objects made from one source text.
#[derive(Default)]
pub struct Settling {
    translations: AtomicU32,
    /// Number of places in the code, and in functions that it calls, at which translated resume functions go on.
    resume_functions: AtomicU32,
    /// Frames that ran a translation, since the last translation that had to be paid for.
    hits: AtomicU64,
    /// Frames left to CPython, since the last translation that had to be paid for.
    frames_left: AtomicU64,
    /// True if the code was inlined into a caller that has settled.
    is_inlined_into_settled: AtomicBool,
    /// The accounts of the code that was inlined.
    followed: Mutex<Vec<Weak<Settling>>>,
    is_shared_by_source: bool,
    is_of_loop: bool,
}

impl Settling {
    /// Counts frames that ran a translation.
    pub fn note_hits(&self, hits: u64) {
        self.hits.fetch_add(hits, Ordering::Relaxed);
    }

    /// Counts a translation. One that is not free uses up the hits counted so far.
    pub fn note_translation(&self) {
        if u64::from(self.translations.fetch_add(1, Ordering::Relaxed)) >= FREE_TRANSLATIONS {
            self.hits.store(0, Ordering::Relaxed);
            self.frames_left.store(0, Ordering::Relaxed);
        }
    }

    /// Counts the first translation of a resume function, or of one that begins with other calls than before.
    pub fn note_resume_function(&self) {
        self.resume_functions.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a frame that is left to CPython. Returns how many were left since the last translation, without this
    /// one.
    pub fn note_frame_left(&self) -> u64 {
        self.frames_left.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the account of a resume function in a loop, which has limits of its own
    /// ([`crate::policy::leaves_iteration`]).
    pub fn of_loop() -> Self {
        Settling { is_of_loop: true, ..Settling::default() }
    }

    /// True if this is the account of a resume function in a loop.
    pub fn is_of_loop(&self) -> bool {
        self.is_of_loop
    }

    /// True if the account is shared by all code objects made from one source text.
    pub fn is_shared_by_source(&self) -> bool {
        self.is_shared_by_source
    }

    /// Notes the account of code that was inlined in a translation.
    pub fn note_followed(&self, account: &Arc<Settling>) {
        let mut followed = self.followed.lock();
        if !followed.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(account))) {
            followed.push(Arc::downgrade(account));
        }
    }

    /// Notes that the code keeps needing new translations. The cause may be in the code that was inlined, so the
    /// inlined code gets fewer free translations, too.
    pub fn mark_inlined_as_unstable(&self) {
        let followed = self.followed.lock();
        for account in
            followed.iter().filter_map(Weak::upgrade).filter(|account| !std::ptr::eq(Arc::as_ptr(account), self))
        {
            account.is_inlined_into_settled.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the balance of translations and hits. `exempt` translations are not counted: they have been hit, or
    /// serve other objects that last, such as models.
    pub fn balance(&self, exempt: usize) -> Balance {
        let translations = u64::from(self.translations.load(Ordering::Relaxed));
        Balance {
            translations: translations.saturating_sub(exempt as u64),
            resume_functions: self.resume_functions.load(Ordering::Relaxed).into(),
            is_inlined_into_settled: self.is_inlined_into_settled.load(Ordering::Relaxed),
            hits: self.hits.load(Ordering::Relaxed),
            frames_left: self.frames_left.load(Ordering::Relaxed),
        }
    }
}

/// The accounts by source text, in one generation of translations (see `forgetting::generation`).
#[derive(Default)]
struct AccountsBySource {
    generation: u32,
    known: FxHashMap<u64, Arc<Settling>>,
}

static ACCOUNTS_BY_SOURCE: Mutex<Option<AccountsBySource>> = Mutex::new(None);

/// Returns a hash that is the same for all code objects made from one text at one place, as `exec` makes at each call.
pub(crate) fn source_hash(code: &Bound<'_, PyCode>) -> PyResult<u64> {
    let mut hasher = DefaultHasher::new();
    for name in ["co_filename", "co_name"] {
        code.getattr(name)?.extract::<String>()?.hash(&mut hasher);
    }
    code.getattr("co_firstlineno")?.extract::<u32>()?.hash(&mut hasher);
    code.getattr("co_code")?.cast::<PyBytes>()?.as_bytes().hash(&mut hasher);
    Ok(hasher.finish())
}

/// Returns the account that is shared by all code objects made from one text at one place.
pub(crate) fn of_source(code: &Bound<'_, PyCode>, generation: u32) -> PyResult<Arc<Settling>> {
    let hash = source_hash(code)?;
    let mut accounts = ACCOUNTS_BY_SOURCE.lock();
    let accounts = accounts.get_or_insert_with(AccountsBySource::default);
    if accounts.generation != generation || accounts.known.len() > MAX_ACCOUNTS_BY_SOURCE {
        *accounts = AccountsBySource { generation, known: FxHashMap::default() };
    }
    let made = || Arc::new(Settling { is_shared_by_source: true, ..Settling::default() });
    Ok(Arc::clone(accounts.known.entry(hash).or_insert_with(made)))
}
