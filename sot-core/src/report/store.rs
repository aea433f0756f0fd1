//! The store that keeps reports of translations until they are asked for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Weak;
use std::time::{Duration, Instant};

use once_cell::sync::OnceCell;
use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::lines::{status_of_lines, LineReport};
use super::{FailedGuard, LaterReport, TimesReport, TranslationReport};
use crate::cpython::{self, CallTimes};

/// Maximum number of translations kept while details are off. Beyond it, translations that no frame can run any more
/// make room, then the oldest ones.
const MAX_KEPT: usize = 2000;
/// Number of translations between two searches for translations that no frame can run any more.
const BETWEEN_SEARCHES: usize = MAX_KEPT / 10;

/// An object that counts its uses: a cache entry.
pub trait CountsUses: Send + Sync {
    /// Number of uses.
    fn uses(&self) -> u64;

    /// The timed calls.
    fn times(&self) -> CallTimes;
}

struct KeptReport {
    translation: TranslationReport,
    entry: Option<Weak<dyn CountsUses>>,
    uncounted: EntryCounts,
}

impl KeptReport {
    /// True if a frame can still run this translation.
    fn can_run(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.strong_count() > 0)
    }

    /// The counts of its entry; `None` if the entry is gone.
    fn counted(&self) -> Option<EntryCounts> {
        let entry = self.entry.as_ref()?.upgrade()?;
        Some(EntryCounts { uses: entry.uses(), times: entry.times() })
    }
}

/// Uses of an entry, and its calls that were timed.
#[derive(Clone, Copy, Default)]
struct EntryCounts {
    uses: u64,
    times: CallTimes,
}

impl EntryCounts {
    /// The difference to earlier counts.
    fn since(self, before: EntryCounts) -> EntryCounts {
        EntryCounts { uses: self.uses.saturating_sub(before.uses), times: self.times.since(before.times) }
    }
}

#[derive(Default)]
struct Store {
    /// By the number of the translation.
    kept: BTreeMap<u64, KeptReport>,
    failures: BTreeMap<(u64, String), (FailedGuard, u64)>,
    dropped: u64,
    /// Translations that no frame could run at the last search, the oldest last.
    gone: Vec<u64>,
    /// Number of translations to be stored before the next search.
    until_search: usize,
}

impl Store {
    /// Removes the translations numbered `since` and above. Dropping what is returned may run the program's code, so no
    /// lock may be held then.
    fn split_off(&mut self, since: u64) -> BTreeMap<u64, KeptReport> {
        self.failures.retain(|(id, _), _| *id < since);
        self.kept.split_off(&since)
    }

    /// Removes the translation that is needed least, if there is no room for another one. What is returned must not be
    /// dropped while a lock is held, either.
    fn make_room(&mut self) -> Option<KeptReport> {
        if has_details() || self.kept.len() < MAX_KEPT {
            return None;
        }
        let id = self.next_gone().or_else(|| self.kept.first_key_value().map(|(id, _)| *id))?;
        self.dropped += 1;
        let failed = self.failures.range((id, String::new())..).map(|(key, _)| key).take_while(|key| key.0 == id);
        for key in failed.cloned().collect::<Vec<_>>() {
            self.failures.remove(&key);
        }
        self.kept.remove(&id)
    }

    /// The oldest translation that no frame can run any more, as far as the last search found one. Searching takes
    /// time in the number of translations, so it is repeated after a number of translations in proportion to it.
    fn next_gone(&mut self) -> Option<u64> {
        self.until_search = self.until_search.saturating_sub(1);
        loop {
            match self.gone.pop() {
                Some(id) if self.kept.get(&id).is_some_and(|kept| !kept.can_run()) => return Some(id),
                Some(_) => {}
                None if self.until_search > 0 => return None,
                None => {
                    self.until_search = BETWEEN_SEARCHES;
                    self.gone.extend(self.kept.iter().rev().filter(|(_, kept)| !kept.can_run()).map(|(id, _)| *id));
                }
            }
        }
    }
}

static DETAILS: AtomicBool = AtomicBool::new(false);
static NEXT: AtomicU64 = AtomicU64::new(0);
static STORE: Mutex<Option<Store>> = Mutex::new(None);
static START: OnceCell<Instant> = OnceCell::new();

fn with<T>(work: impl FnOnce(&mut Store) -> T) -> T {
    let mut store: MutexGuard<'_, Option<Store>> = STORE.lock();
    work(store.get_or_insert_with(Store::default))
}

/// Seconds since the first call of this function in the process.
pub fn now() -> f64 {
    START.get_or_init(Instant::now).elapsed().as_secs_f64()
}

/// Switches details, and the clock of translated calls, on or off. Returns the former state.
pub fn collect_details(on: bool) -> bool {
    cpython::time_calls(on);
    DETAILS.swap(on, Ordering::Relaxed)
}

/// True if details are collected.
#[inline]
pub fn has_details() -> bool {
    DETAILS.load(Ordering::Relaxed)
}

/// Returns the number for the next translation.
pub fn next_id() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The number that the next translation will have.
pub fn upcoming_id() -> u64 {
    NEXT.load(Ordering::Relaxed)
}

/// Stores the report of a translation.
pub fn add(translation: TranslationReport) {
    let gone = with(|store| {
        let gone = store.make_room();
        let kept = KeptReport { translation, entry: None, uncounted: EntryCounts::default() };
        store.kept.insert(kept.translation.id, kept);
        gone
    });
    // Without the lock: see `Store::make_room`.
    drop(gone);
}

/// Connects a translation with its cache entry, which counts uses. `guards` is the time of one check of the guards,
/// if it was measured.
pub fn attach(id: u64, entry: Weak<dyn CountsUses>, guards: Option<Duration>) {
    with(|store| {
        if let Some(kept) = store.kept.get_mut(&id) {
            kept.entry = Some(entry);
            kept.translation.times =
                guards.map(|taken| TimesReport { guards: taken.as_secs_f64(), ..Default::default() });
        }
    });
}

/// Notes that a graph of a translation was compiled after its first runs.
pub fn compiled_later(id: u64, later: LaterReport) {
    with(|store| {
        if let Some(kept) = store.kept.get_mut(&id) {
            kept.translation.compiled_later.push(later);
        }
    });
}

/// Counts guards that failed for a call.
pub fn misses(failed: &[FailedGuard]) {
    if failed.is_empty() {
        return;
    }
    with(|store| {
        for failure in failed {
            let key = (failure.translation, failure.guard.clone());
            let (last, times) = store.failures.entry(key).or_insert_with(|| (failure.clone(), 0));
            last.clone_from(failure);
            *times += 1;
        }
    });
}

/// Runs the closure without counting its calls, because they repeat calls that were made before and undone.
pub fn keep_counts<T>(work: impl FnOnce() -> T) -> T {
    let before: FxHashMap<u64, EntryCounts> =
        with(|store| store.kept.iter().filter_map(|(id, kept)| Some((*id, kept.counted()?))).collect());
    let done = work();
    with(|store| {
        for (id, kept) in &mut store.kept {
            let Some(now) = kept.counted() else { continue };
            let more = now.since(before.get(id).copied().unwrap_or_default());
            kept.uncounted.uses += more.uses;
            kept.uncounted.times.calls += more.times.calls;
            kept.uncounted.times.taken += more.times.taken;
        }
    });
    done
}

/// Number of stored translations.
pub fn number_kept() -> usize {
    with(|store| store.kept.len())
}

/// Removes the stored translations numbered `since` and above.
pub fn truncate(since: u64) {
    // Dropped without the lock: see `Store::split_off`.
    drop(with(|store| store.split_off(since)));
}

/// Removes everything: for the child of a fork, which has its own report.
pub fn clear() {
    drop(with(std::mem::take));
}

#[derive(Serialize)]
struct FrequentFailure<'a> {
    translation: u64,
    guard: &'a str,
    expected: Option<&'a str>,
    seen: Option<&'a str>,
    times: u64,
}

#[derive(Serialize)]
struct All<'a> {
    translations: Vec<&'a TranslationReport>,
    failures: Vec<FrequentFailure<'a>>,
    lines: BTreeMap<String, Vec<LineReport>>,
    dropped: u64,
    now: f64,
}

/// Returns the stored translations numbered `since` and above as JSON, with failed guards, the status of lines, and
/// the present time on the clock of the translations.
pub fn json(since: u64) -> Result<String, serde_json::Error> {
    with(|store| {
        for kept in store.kept.values_mut() {
            if let Some(counted) = kept.counted() {
                let EntryCounts { uses, times: CallTimes { calls, taken } } = counted.since(kept.uncounted);
                kept.translation.hits = Some(uses);
                if let Some(times) = &mut kept.translation.times {
                    (times.calls, times.seconds) = (calls, taken.as_secs_f64());
                }
            }
        }
        let translations: Vec<_> = store.kept.range(since..).map(|(_, kept)| &kept.translation).collect();
        let failures = store.failures.iter().map(|((translation, guard), (last, times))| FrequentFailure {
            translation: *translation,
            guard,
            expected: last.expected.as_deref(),
            seen: last.seen.as_deref(),
            times: *times,
        });
        let all = All {
            failures: failures.filter(|failure| failure.translation >= since).collect(),
            lines: status_of_lines(&translations),
            translations,
            dropped: store.dropped,
            now: now(),
        };
        serde_json::to_string(&all)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct Entry;

    impl CountsUses for Entry {
        fn uses(&self) -> u64 {
            0
        }

        fn times(&self) -> CallTimes {
            CallTimes::default()
        }
    }

    fn report(entry: &Arc<dyn CountsUses>) -> KeptReport {
        let translation = TranslationReport::default();
        KeptReport { translation, entry: Some(Arc::downgrade(entry)), uncounted: EntryCounts::default() }
    }

    #[test]
    fn translations_that_cannot_run_make_room_first() {
        let alive: Arc<dyn CountsUses> = Arc::new(Entry);
        let gone: Arc<dyn CountsUses> = Arc::new(Entry);
        let mut store = Store::default();
        store.kept.extend((0..MAX_KEPT as u64).map(|id| (id, report(if id == 7 { &gone } else { &alive }))));
        drop(gone);

        let mut removed = Vec::new();
        for id in MAX_KEPT as u64..MAX_KEPT as u64 + 3 {
            let before: Vec<u64> = store.kept.keys().copied().collect();
            assert!(store.make_room().is_some());
            removed.extend(before.into_iter().filter(|id| !store.kept.contains_key(id)));
            store.kept.insert(id, report(&alive));
        }
        assert_eq!((removed, store.dropped), (vec![7, 0, 1], 3));
    }
}
