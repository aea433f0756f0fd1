//! Which translations hold no longer: all of them, or those that met certain objects. A cache learns of it when it is
//! next asked, by one number that has changed; nothing walks over the caches.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many changes are remembered one by one; older ones are put together, and a cache that has missed some of these
/// forgets what any of them concerns.
const REMEMBERED: usize = 256;

static GENERATION: AtomicU32 = AtomicU32::new(0);
static CHANGES: Mutex<RegistrationChanges> = Mutex::new(RegistrationChanges { all_before: 0, met: VecDeque::new() });

/// What has led to the present generation.
struct RegistrationChanges {
    /// Translations of earlier generations than this are all forgotten.
    all_before: u32,
    /// What each of the last generations began with: the addresses of the objects that a change concerns.
    met: VecDeque<HashSet<usize>>,
}

/// What a cache forgets.
#[derive(Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// Every translation.
    Everything,
    /// Translations that met one of the objects at these addresses.
    Met(HashSet<usize>),
}

fn lock() -> MutexGuard<'static, RegistrationChanges> {
    CHANGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The generation of valid translations.
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Makes every cache forget what it holds.
pub fn everything() {
    add(None);
}

/// Makes every cache forget the translations that met one of the objects at these addresses. Of an object that is gone
/// another one may have the address: its translations are forgotten, too.
pub fn met(objects: impl IntoIterator<Item = usize>) {
    add(Some(objects.into_iter().collect()));
}

fn add(met: Option<HashSet<usize>>) {
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
    // Written last, so that who reads the number finds the change.
    GENERATION.store(generation, Ordering::Release);
}

/// What is forgotten between a generation and the present one.
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
        assert_eq!(since(start), Forgotten::Met(HashSet::new()));
        met([1, 2]);
        met([3]);
        assert_eq!(since(start), Forgotten::Met(HashSet::from([1, 2, 3])));
        assert_eq!(since(start.wrapping_add(1)), Forgotten::Met(HashSet::from([3])));
        assert_eq!(since(start.wrapping_sub(1)), Forgotten::Everything);
        for object in 0..REMEMBERED {
            met([object]);
        }
        let all = (0..REMEMBERED).collect::<HashSet<_>>();
        assert_eq!(since(start), Forgotten::Met(all), "the oldest are put together");
        let last = generation().wrapping_sub(2);
        assert_eq!(since(last), Forgotten::Met(HashSet::from([REMEMBERED - 2, REMEMBERED - 1])));
    }
}
