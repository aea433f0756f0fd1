//! Whether a code object is worth one more translation. What differs at each call in a way that no translation leaves
//! open, as an object of a new class does, would have the code translated for ever. A translation has to be paid by
//! calls that earlier ones served: after a few that were not, frames that no translation is for are left to CPython,
//! and what they call is translated apart.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCode};

use crate::policy::{ASSUMING, FREE, FREE_BEHIND, FREE_BELOW, LEFT_PER_HIT};

/// More places than this are not remembered.
const MAX_PLACES: usize = 4_096;

/// The account of one code object, or of all code objects made from one text.
#[derive(Default)]
pub struct Settling {
    translations: AtomicU32,
    /// How many resume functions of the code have been translated.
    places: AtomicU32,
    /// Frames that ran a translation, since the last one was made that they paid for.
    hits: AtomicU64,
    left: AtomicU64,
    is_below: AtomicBool,
    /// The accounts of what was followed.
    followed: Mutex<Vec<Weak<Settling>>>,
    is_of_place: bool,
    is_of_loop: bool,
}

impl Settling {
    /// Counts frames that ran a translation.
    pub fn note_hits(&self, hits: u64) {
        self.hits.fetch_add(hits, Ordering::Relaxed);
    }

    /// Counts a translation.
    pub fn note_translation(&self) {
        if u64::from(self.translations.fetch_add(1, Ordering::Relaxed)) >= FREE {
            self.hits.store(0, Ordering::Relaxed);
            self.left.store(0, Ordering::Relaxed);
        }
    }

    /// Counts the first translation of a resume function.
    pub fn note_place(&self) {
        self.places.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a frame that is left to CPython; how many were since the last translation.
    pub fn note_left(&self) -> u64 {
        self.left.fetch_add(1, Ordering::Relaxed)
    }

    /// That of a resume function in a loop, which has limits of its own.
    pub fn of_loop() -> Self {
        Settling { is_of_loop: true, ..Settling::default() }
    }

    /// Whether it is such a one.
    pub fn is_of_loop(&self) -> bool {
        self.is_of_loop
    }

    /// Whether all code objects share it that are made from one text.
    pub fn is_of_place(&self) -> bool {
        self.is_of_place
    }

    /// Notes what was followed in a translation.
    pub fn note_followed(&self, account: &Arc<Settling>) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if !followed.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(account))) {
            followed.push(Arc::downgrade(account));
        }
    }

    /// The code goes on changing: what was followed in its translations may be what changes.
    pub fn goes_on_changing(&self) {
        let followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        for account in
            followed.iter().filter_map(Weak::upgrade).filter(|account| !std::ptr::eq(Arc::as_ptr(account), self))
        {
            account.is_below.store(true, Ordering::Relaxed);
        }
    }

    /// Whether one more translation is worth it, where `lasting` of those there are serve something that lasts.
    pub fn allows(&self, lasting: usize) -> bool {
        let made = self.made().saturating_sub(lasting as u64);
        let free = if self.is_below.load(Ordering::Relaxed) { FREE_BELOW } else { FREE };
        let free = free + FREE_BEHIND * u64::from(self.places.load(Ordering::Relaxed));
        let hits = self.hits.load(Ordering::Relaxed) + self.left.load(Ordering::Relaxed) / LEFT_PER_HIT;
        // The more have been made, the more calls each of them must have served.
        let price = made.max(FREE);
        made < free || hits * 2 >= price * price
    }

    /// Whether the next translation is better made for all values than for the one there is now.
    pub fn should_generalize(&self) -> bool {
        self.made() >= ASSUMING && self.hits.load(Ordering::Relaxed) < self.made() * self.made()
    }

    fn made(&self) -> u64 {
        u64::from(self.translations.load(Ordering::Relaxed))
    }
}

/// What is known of places in source texts, in one generation of translations (see `forgetting::generation`).
#[derive(Default)]
struct Places {
    generation: u32,
    known: HashMap<u64, Arc<Settling>>,
}

static PLACES: Mutex<Option<Places>> = Mutex::new(None);

/// The account that all code objects share which are made from one text at one place, as by `exec` at each call.
pub(crate) fn of_place(code: &Bound<'_, PyCode>, generation: u32) -> PyResult<Arc<Settling>> {
    let mut hasher = DefaultHasher::new();
    for name in ["co_filename", "co_name"] {
        code.getattr(name)?.extract::<String>()?.hash(&mut hasher);
    }
    code.getattr("co_firstlineno")?.extract::<u32>()?.hash(&mut hasher);
    code.getattr("co_code")?.cast::<PyBytes>()?.as_bytes().hash(&mut hasher);
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let places = places.get_or_insert_with(Places::default);
    if places.generation != generation || places.known.len() > MAX_PLACES {
        *places = Places { generation, known: HashMap::new() };
    }
    let made = || Arc::new(Settling { is_of_place: true, ..Settling::default() });
    Ok(Arc::clone(places.known.entry(hasher.finish()).or_insert_with(made)))
}
