//! Which translations hold no longer: all of them, or those that met certain objects. A cache learns of it when it is
//! next asked, by one number that has changed; nothing walks over the caches.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many changes are remembered one by one. A cache that has missed more of them forgets everything.
const REMEMBERED: usize = 256;

static GENERATION: AtomicU32 = AtomicU32::new(0);
/// What each of the last generations began with: the addresses of the objects that a change concerns; `None` where it
/// concerns all translations.
static CHANGES: Mutex<VecDeque<Option<HashSet<usize>>>> = Mutex::new(VecDeque::new());

/// What a cache forgets.
#[derive(Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// Every translation.
    Everything,
    /// Translations that met one of the objects at these addresses.
    Met(HashSet<usize>),
}

fn lock() -> MutexGuard<'static, VecDeque<Option<HashSet<usize>>>> {
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
    if met.is_none() {
        changes.clear();
    }
    changes.push_back(met);
    if changes.len() > REMEMBERED {
        changes.pop_front();
        if let Some(first) = changes.front_mut() {
            *first = None;
        }
    }
    // Written last, so that who reads the number finds the change.
    GENERATION.store(generation, Ordering::Release);
}

/// What is forgotten between a generation and the present one.
pub fn since(generation: u32) -> Forgotten {
    let changes = lock();
    let now = GENERATION.load(Ordering::Relaxed);
    let missed = now.wrapping_sub(generation) as usize;
    if missed > changes.len() {
        return Forgotten::Everything;
    }
    let mut all = HashSet::new();
    for change in changes.iter().skip(changes.len() - missed) {
        match change {
            Some(objects) => all.extend(objects),
            None => return Forgotten::Everything,
        }
    }
    Forgotten::Met(all)
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
        assert_eq!(since(start), Forgotten::Everything, "too many changes to tell them apart");
        let last = generation().wrapping_sub(2);
        assert_eq!(since(last), Forgotten::Met(HashSet::from([REMEMBERED - 2, REMEMBERED - 1])));
    }
}
