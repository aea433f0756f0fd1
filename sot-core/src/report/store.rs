//! The store that keeps reports of translations until they are asked for.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Weak;
use std::time::{Duration, Instant};

use once_cell::sync::OnceCell;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

use super::lines::{status_of_lines, LineReport};
use super::{FailedGuard, LaterReport, TimesReport, TranslationReport};
use crate::cpython::{self, CallTimes};

/// Maximum number of translations kept while details are off. Beyond it, translations that no frame can run any more
/// make room, then the oldest ones.
const MAX_KEPT: usize = 2000;

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
    // Boxed, because reports are large, and are removed from the middle.
    kept: Vec<Box<KeptReport>>,
    failures: BTreeMap<(u64, String), (FailedGuard, u64)>,
    dropped: u64,
}

impl Store {
    /// Removes the translations for which `is_gone` holds, with their failed guards. Dropping what is returned may run
    /// the program's code, so no lock may be held then.
    fn remove(&mut self, is_gone: impl Fn(u64) -> bool) -> Vec<Box<KeptReport>> {
        let (gone, kept) = std::mem::take(&mut self.kept).into_iter().partition(|kept| is_gone(kept.translation.id));
        self.kept = kept;
        self.failures.retain(|(id, _), _| !is_gone(*id));
        gone
    }

    /// Removes the translation that is needed least, if there is no room for another one.
    fn make_room(&mut self) -> Vec<Box<KeptReport>> {
        if has_details() || self.kept.len() < MAX_KEPT {
            return Vec::new();
        }
        let Some(least) = self.kept.iter().find(|kept| !kept.can_run()).or(self.kept.first()) else { return Vec::new() };
        let id = least.translation.id;
        self.dropped += 1;
        self.remove(|other| other == id)
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
        store.kept.push(Box::new(KeptReport { translation, entry: None, uncounted: EntryCounts::default() }));
        gone
    });
    // Without the lock: see `Store::remove`.
    drop(gone);
}

/// Connects a translation with its cache entry, which counts uses. `guards` is the time of one check of the guards,
/// if it was measured.
pub fn attach(id: u64, entry: Weak<dyn CountsUses>, guards: Option<Duration>) {
    with(|store| {
        if let Some(kept) = store.kept.iter_mut().rev().find(|kept| kept.translation.id == id) {
            kept.entry = Some(entry);
            kept.translation.times =
                guards.map(|taken| TimesReport { guards: taken.as_secs_f64(), ..Default::default() });
        }
    });
}

/// Notes that a graph of a translation was compiled after its first runs.
pub fn compiled_later(id: u64, later: LaterReport) {
    with(|store| {
        if let Some(kept) = store.kept.iter_mut().rev().find(|kept| kept.translation.id == id) {
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
    let before: HashMap<u64, EntryCounts> =
        with(|store| store.kept.iter().filter_map(|kept| Some((kept.translation.id, kept.counted()?))).collect());
    let done = work();
    with(|store| {
        for kept in &mut store.kept {
            let Some(now) = kept.counted() else { continue };
            let more = now.since(before.get(&kept.translation.id).copied().unwrap_or_default());
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
    // Dropped without the lock: see `Store::remove`.
    drop(with(|store| store.remove(|id| id >= since)));
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
        for kept in &mut store.kept {
            if let Some(counted) = kept.counted() {
                let EntryCounts { uses, times: CallTimes { calls, taken } } = counted.since(kept.uncounted);
                kept.translation.hits = Some(uses);
                if let Some(times) = &mut kept.translation.times {
                    (times.calls, times.seconds) = (calls, taken.as_secs_f64());
                }
            }
        }
        let translations: Vec<_> =
            store.kept.iter().map(|kept| &kept.translation).filter(|translation| translation.id >= since).collect();
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

    fn report(id: u64, entry: &Arc<dyn CountsUses>) -> Box<KeptReport> {
        let translation = TranslationReport { id, ..TranslationReport::default() };
        Box::new(KeptReport { translation, entry: Some(Arc::downgrade(entry)), uncounted: EntryCounts::default() })
    }

    #[test]
    fn translations_that_cannot_run_make_room_first() {
        let entries: Vec<Arc<dyn CountsUses>> = (0..MAX_KEPT).map(|_| Arc::new(Entry) as _).collect();
        let mut store = Store::default();
        store.kept.extend((0..).zip(&entries).map(|(id, entry)| report(id, entry)));
        let gone: Arc<dyn CountsUses> = Arc::new(Entry);
        store.kept[7] = report(7, &gone);
        drop(gone);

        let removed = |store: &mut Store| -> Vec<u64> {
            let gone = store.make_room();
            let room = MAX_KEPT - store.kept.len();
            store.kept.extend((0..room as u64).map(|more| report(10_000 + more, &entries[0])));
            gone.iter().map(|gone| gone.translation.id).collect()
        };
        assert_eq!([removed(&mut store), removed(&mut store), removed(&mut store)], [[7], [0], [1]]);
        assert_eq!(store.dropped, 3);
    }
}
