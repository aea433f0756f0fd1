//! Invalidates translations: all of them, or those that met certain objects. A change raises one generation number.
//! Each cache compares the number when it is next used; nothing iterates over the caches.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxHashSet;

/// Maximum number of changes that are remembered separately. Older changes are merged: a cache that has missed any of
/// the merged ones drops the translations that any of them concerns.
const REMEMBERED: usize = 256;

static GENERATION: AtomicU32 = AtomicU32::new(0);
static CHANGES: Mutex<RegistrationChanges> = Mutex::new(RegistrationChanges { all_before: 0, met: VecDeque::new() });

/// The changes that led to the present generation.
struct RegistrationChanges {
    /// Translations of generations before this one are all dropped.
    all_before: u32,
    /// The change that began each of the last generations: the addresses of the objects it concerns.
    met: VecDeque<FxHashSet<usize>>,
}

/// The translations that a cache has to drop.
#[derive(Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// Drop every translation.
    Everything,
    /// Drop the translations that met one of the objects at these addresses.
    Met(FxHashSet<usize>),
}

fn lock() -> MutexGuard<'static, RegistrationChanges> {
    CHANGES.lock()
}

/// The current generation; translations of this generation are valid.
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Makes every cache drop all its translations.
pub fn everything() {
    add(None);
}

/// Makes every cache drop the translations that met an object at one of these addresses. If an object is gone and
/// another one reuses the address, translations that met the new object are dropped as well.
pub fn met(objects: impl IntoIterator<Item = usize>) {
    add(Some(objects.into_iter().collect()));
}

fn add(met: Option<FxHashSet<usize>>) {
    let mut changes = lock();
    let generation = GENERATION.load(Ordering::Relaxed).wrapping_add(1);
    match met {
        Some(met) => changes.met.push_back(met),
        None => {
            changes.met.clear();
            changes.all_before = generation;
        }
    }
    if changes.met.len() > REMEMBERED {
        let oldest = changes.met.pop_front().unwrap_or_default();
        if let Some(next) = changes.met.front_mut() {
            next.extend(oldest);
        }
    }
    // Written last, so that a reader of the new number finds the change.
    GENERATION.store(generation, Ordering::Release);
}

/// Returns the translations that a cache has to drop if it was last up to date in this generation.
pub fn since(generation: u32) -> Forgotten {
    let changes = lock();
    let now = GENERATION.load(Ordering::Relaxed);
    let missed = now.wrapping_sub(generation);
    if missed > now.wrapping_sub(changes.all_before) {
        return Forgotten::Everything;
    }
    let known = changes.met.len();
    let missed = changes.met.iter().skip(known.saturating_sub(missed as usize));
    Forgotten::Met(missed.flatten().copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_learns_what_it_has_missed() {
        everything();
        let start = generation();
        assert_eq!(since(start), Forgotten::Met(FxHashSet::default()));
        met([1, 2]);
        met([3]);
        assert_eq!(since(start), Forgotten::Met(FxHashSet::from_iter([1, 2, 3])));
        assert_eq!(since(start.wrapping_add(1)), Forgotten::Met(FxHashSet::from_iter([3])));
        assert_eq!(since(start.wrapping_sub(1)), Forgotten::Everything);
        for object in 0..REMEMBERED {
            met([object]);
        }
        let all = (0..REMEMBERED).collect::<FxHashSet<_>>();
        assert_eq!(since(start), Forgotten::Met(all), "the oldest are put together");
        let last = generation().wrapping_sub(2);
        assert_eq!(since(last), Forgotten::Met(FxHashSet::from_iter([REMEMBERED - 2, REMEMBERED - 1])));
    }
}
