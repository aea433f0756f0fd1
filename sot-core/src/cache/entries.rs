//! The entries of one code object, in the order in which their guards are tested.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::entry::LeftToCPython;
use super::{CacheEntry, ShortLived};
use crate::guard::{Differing, FrameView, UnmetGuard};
use crate::policy::{MAX_ENTRIES, MAX_OBJECTS, MAX_RECURRING};
use crate::registered;
use crate::report::FailedGuard;
use crate::value_path::ValuePath;

type List = Vec<Arc<CacheEntry>>;

/// Numbers of entries whose frames occur again.
pub struct Recurring {
    /// Entries that do not fit the present frame because of an object of which a program has few, such as a model, or
    /// because of another element type.
    pub of_others: usize,
    /// Other entries that have been hit, up to [`MAX_RECURRING`].
    pub used: usize,
}

/// The entries of one code object. The list is replaced as a whole, so that its lock is not held while guards are
/// tested or entries are dropped, either of which may run code of the program.
#[derive(Default)]
pub struct Entries {
    list: Mutex<Arc<List>>,
    /// Id of the entry that was found last.
    found: AtomicU64,
}

impl Entries {
    /// Returns the first entry whose guards hold. If the code must become one graph (`whole`), entries that leave
    /// part of the frame to CPython are passed over.
    pub fn find<'py>(&self, frame: &impl FrameView<'py>, whole: bool) -> Option<Arc<CacheEntry>> {
        let entries = self.all();
        let mut found = None;
        for (at, entry) in entries.iter().enumerate() {
            if (!whole || entry.left == LeftToCPython::Nothing) && entry.guards.check(frame) {
                found = Some(at);
                break;
            }
            // If registered code has raised, the frame is left to CPython, and no other entry is asked.
            if registered::has_failure() {
                break;
            }
        }
        let at = found?;
        // Entries that alternate keep their places: only one that is found twice in a row moves to the front.
        let is_again = self.found.swap(entries[at].id, Ordering::Relaxed) == entries[at].id;
        if at > 0 && is_again && !entries[at].comes_last {
            self.move_to_front(&entries[at]);
        }
        entries[at].note_use();
        Some(Arc::clone(&entries[at]))
    }

    fn all(&self) -> Arc<List> {
        Arc::clone(&self.list.lock())
    }

    /// Replaces the list by one that `change` makes of it. `None` leaves the list.
    fn replace(&self, change: impl FnOnce(&List) -> Option<List>) {
        let mut list = self.list.lock();
        let Some(changed) = change(&list) else { return };
        let old = std::mem::replace(&mut *list, Arc::new(changed));
        drop(list);
        drop(old);
    }

    /// Drops the entries for which `is_kept` is false. Returns whether there were any.
    fn retain(&self, is_kept: impl Fn(&CacheEntry) -> bool) -> bool {
        let mut is_smaller = false;
        self.replace(|list| {
            let kept: List = list.iter().filter(|entry| is_kept(entry)).cloned().collect();
            is_smaller = kept.len() < list.len();
            is_smaller.then_some(kept)
        });
        is_smaller
    }

    fn move_to_front(&self, entry: &Arc<CacheEntry>) {
        self.replace(|list| {
            let mut entries: List = list.iter().filter(|other| !Arc::ptr_eq(other, entry)).cloned().collect();
            let was_there = entries.len() < list.len();
            entries.insert(0, Arc::clone(entry));
            was_there.then_some(entries)
        });
    }

    /// Adds an entry, and drops those that can never hold again.
    pub fn insert(&self, py: Python<'_>, entry: Arc<CacheEntry>) {
        self.replace(|list| {
            let is_kept = |old: &&Arc<CacheEntry>| !old.guards.is_dead(py);
            let mut entries: List = list.iter().filter(is_kept).cloned().collect();
            let first_last = entries.iter().position(|entry| entry.comes_last).unwrap_or(entries.len());
            entries.insert(if entry.comes_last { first_last } else { 0 }, entry);
            Some(entries)
        });
    }

    /// Drops the entries that `entry`, which was made for this frame and serves all values, replaces: those that have
    /// never been hit, and serve a single value. `lasts` is true for an object that outlives a call: an entry for
    /// another such object, such as another model of the same class, is not replaced.
    pub fn drop_replaced<'py>(
        &self,
        entry: &CacheEntry,
        frame: &impl FrameView<'py>,
        lasts: &impl Fn(&Bound<'py, PyAny>) -> bool,
    ) {
        if entry.replaces_unused {
            self.retain(|old| {
                old.is_used()
                    || entry.guards.contradicts(&old.guards, frame.py())
                    || old.is_for_other_objects(frame, lasts)
            });
        }
    }

    /// Drops the entries that have never been hit.
    pub fn drop_unused(&self) {
        self.retain(CacheEntry::is_used);
    }

    /// Drops the entries that leave the rest of a loop iteration to CPython.
    pub fn drop_left_rounds(&self) {
        self.retain(|entry| entry.left != LeftToCPython::Round);
    }

    /// Drops the entries that met one of the objects. Returns whether there were any.
    pub(super) fn forget_met(&self, objects: &FxHashSet<usize>) -> bool {
        self.retain(|entry| !entry.has_met(objects))
    }

    /// Drops all entries.
    pub(super) fn clear(&self) {
        self.replace(|_| Some(List::new()));
    }

    /// True if no more entries may be added.
    pub fn is_full(&self, py: Python<'_>) -> bool {
        let entries = self.all();
        entries.len() >= MAX_ENTRIES && !entries.iter().any(|entry| entry.guards.is_dead(py))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.list.lock().len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts the entries whose frames occur again. `lasts` is true for an object that outlives a call.
    pub fn recurring<'py>(
        &self,
        frame: &impl FrameView<'py>,
        lasts: &impl Fn(&Bound<'py, PyAny>) -> bool,
    ) -> Recurring {
        let entries = self.all();
        let (of_others, rest): (Vec<_>, Vec<_>) =
            entries.iter().partition(|entry| entry.is_for_other_objects(frame, lasts));
        let used = rest.iter().filter(|entry| entry.is_used()).count();
        Recurring { of_others: of_others.len(), used: used.min(MAX_RECURRING) }
    }

    /// Returns the numbers and sizes whose guards fail for this frame.
    pub fn differing<'py>(&self, frame: &impl FrameView<'py>) -> Differing {
        let mut differing = Differing::default();
        self.all().iter().for_each(|entry| entry.guards.differing(frame, &mut differing));
        differing
    }

    /// For each entry that does not fit the frame, the first guard that fails, with the expected value and the one
    /// seen.
    pub fn failed<'py>(&self, frame: &impl FrameView<'py>) -> Vec<FailedGuard> {
        let failed = |entry: &Arc<CacheEntry>| {
            let UnmetGuard { guard, expected, seen, .. } = entry.guards.unmet(frame)?;
            Some(FailedGuard { translation: entry.id, guard, expected, seen })
        };
        self.all().iter().filter(|entry| entry.left != LeftToCPython::Round).filter_map(failed).collect()
    }

    /// Adds the arguments and classes that are another object at each call, because the objects of earlier calls have
    /// died or there were several.
    pub(super) fn note_short_lived<'py>(&self, frame: &impl FrameView<'py>, short_lived: &mut ShortLived) {
        let entries = self.all();
        let mut others: FxHashMap<usize, usize> = FxHashMap::default();
        let mut other_classes: FxHashMap<&ValuePath, usize> = FxHashMap::default();
        for entry in entries.iter() {
            short_lived.arguments.extend(entry.guards.dead_arguments(frame.py()));
            short_lived.classes.extend(entry.guards.dead_classes(frame.py()).cloned());
            for argument in entry.guards.other_arguments(frame) {
                *others.entry(argument).or_default() += 1;
            }
            if let Some(class) = entry.guards.other_class(frame) {
                *other_classes.entry(class).or_default() += 1;
            }
        }
        let arguments = others.into_iter().filter(|(_, times)| *times >= MAX_OBJECTS).map(|(argument, _)| argument);
        short_lived.arguments.extend(arguments);
        let classes = other_classes.into_iter().filter(|(_, times)| *times >= MAX_OBJECTS);
        short_lived.classes.extend(classes.map(|(class, _)| class.clone()));
    }
}
