//! The cache of one code object: its translations with their guards, its resume functions, and its marks. The cache
//! is attached to the code object and dies with it.

mod entry;
mod marks;
mod profile;
mod sizes;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;

use once_cell::sync::OnceCell;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyWeakrefMethods, PyWeakrefReference};

use crate::bytecode::Label;
use crate::cpython::CodeState;
use crate::error::{Flow, Forbidden};
use crate::forgetting::{self, Forgotten};
use crate::guard::{Differing, FrameView, UnmetGuard};
use crate::open_sizes::Sizes;
use crate::policy::{MAX_EMPTY, MAX_ENTRIES, MAX_FRAMES_LEFT, MAX_GIVEN_WAY, MAX_OBJECTS};
use crate::report::FailedGuard;
use crate::resume_point::{Finish, ResumeKey};
use crate::settling::Settling;
use crate::value_path::ValuePath;

pub use entry::CacheEntry;
use entry::LeftToCPython;
pub(crate) use marks::file_of;
pub use marks::{
    cache_of, copy_marks, disable, forbids, in_original, is_asked_for, is_resume_function, leave_alone,
    leave_making_alone, leave_size_open, own_cells_of, prologue_of, set_skipped_files, untranslated, Request,
    RequestOptions,
};
use parking_lot::{Mutex, MutexGuard};
pub use profile::{LoopTranslations, Profile, ShortLived};
pub use sizes::OpenSizes;

/// The translations of one code object, and what earlier calls have shown of it.
#[derive(Default)]
pub struct CodeCache {
    entries: Mutex<Arc<Vec<Arc<CacheEntry>>>>,
    skip: AtomicBool,
    /// True if functions called by the code are left alone, too.
    skip_below: AtomicBool,
    /// True if the code is left to CPython even where a request asks for its translation.
    disabled: AtomicBool,
    /// Number of live requests for the translation of the code.
    requests: AtomicU32,
    whole: AtomicBool,
    forbidden: AtomicU8,
    empty: AtomicU32,
    /// Number of traces that were given up because a signal waits.
    gave_way: AtomicU32,
    generation: AtomicU32,
    resume: Mutex<HashMap<ResumeKey, Py<PyAny>>>,
    origin: OnceCell<CodeOrigin>,
    untranslated: OnceCell<Py<PyCode>>,
    sizes: Mutex<OpenSizes>,
    profile: Mutex<Profile>,
    /// Frames that ran a translation, since [`CodeCache::settling`] was last called.
    hits: AtomicU64,
    /// Id of the entry that was found last.
    found: AtomicU64,
    settling: Mutex<Option<Arc<Settling>>>,
    was_translated: AtomicBool,
    met_tensors: AtomicBool,
}

/// The origin of a resume function's code.
pub struct CodeOrigin {
    /// The original code, held weakly: it owns its resume functions.
    pub base: Py<PyWeakrefReference>,
    /// Length of the prologue before the original instructions.
    pub prologue: u32,
    /// The instruction of the prologue that calls the resume function of the inner frame, and the finish behind the
    /// call.
    pub call: Option<(Label, Finish)>,
    /// The instruction of the prologue that calls the function below the result of that call on the stack.
    pub applies: Option<Label>,
    /// True if a resume function of the caller calls this one.
    pub drives_itself: bool,
    /// Number of the function's own cells, which are the first of the free variables.
    pub own_cells: usize,
}

impl CodeState for CodeCache {
    #[inline]
    fn leaves_alone(&self) -> bool {
        self.is_skipped() && !self.skips_below()
    }
}

impl CodeCache {
    /// Returns the code of the resume function for a key; `make` makes it at the first call.
    pub fn resume_code(
        &self,
        py: Python<'_>,
        key: &ResumeKey,
        make: impl FnOnce() -> Flow<Py<PyAny>>,
    ) -> Flow<Py<PyAny>> {
        if let Some(code) = self.lock_resume().get(key) {
            return Ok(code.clone_ref(py));
        }
        let code = make()?;
        self.lock_resume().insert(key.clone(), code.clone_ref(py));
        Ok(code)
    }

    /// Returns the key of a resume function's code.
    pub fn resume_key(&self, code: &Bound<'_, PyCode>) -> Option<ResumeKey> {
        let codes = self.lock_resume();
        codes.iter().find(|(_, known)| known.is(code)).map(|(key, _)| key.clone())
    }

    /// Returns the codes of all resume functions made so far.
    pub fn resume_codes(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        self.lock_resume().values().map(|code| code.clone_ref(py)).collect()
    }

    /// Number of places, at or behind an instruction, where resume functions begin.
    pub fn places_behind(&self, at: Label) -> usize {
        let codes = self.lock_resume();
        codes.keys().map(|key| key.at).filter(|place| *place >= at).collect::<HashSet<_>>().len()
    }

    fn lock_resume(&self) -> MutexGuard<'_, HashMap<ResumeKey, Py<PyAny>>> {
        self.resume.lock()
    }

    /// Marks the code as that of a resume function, and requests its translation.
    pub fn set_origin(&self, origin: CodeOrigin) {
        self.origin.set(origin).ok();
        self.request();
    }

    /// Returns a copy of the code that is never translated; `make` makes it at the first call.
    pub fn untranslated(&self, make: impl FnOnce() -> PyResult<Py<PyCode>>) -> PyResult<&Py<PyCode>> {
        self.untranslated.get_or_try_init(make)
    }

    /// Returns the origin of the code, if it is that of a resume function.
    pub fn origin(&self) -> Option<&CodeOrigin> {
        self.origin.get()
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Vec<Arc<CacheEntry>>>> {
        // A panic during the replacement of the list leaves the old list, which is still valid.
        self.entries.lock()
    }

    /// Returns the first entry whose guards hold. If the code must become one graph, entries that leave part of the
    /// frame to CPython are passed over.
    pub fn find<'py>(&self, frame: &impl FrameView<'py>) -> Option<Arc<CacheEntry>> {
        let entries = Arc::clone(&self.lock());
        let whole = self.whole.load(Ordering::Relaxed);
        let at = entries
            .iter()
            .position(|entry| (!whole || entry.left == LeftToCPython::Nothing) && entry.guards.check(frame))?;
        // Entries that alternate keep their places: only one that is found twice in a row moves to the front.
        let is_again = self.found.swap(entries[at].id, Ordering::Relaxed) == entries[at].id;
        if at > 0 && is_again && !entries[at].comes_last {
            self.move_to_front(&entries[at]);
        }
        entries[at].note_use();
        Some(Arc::clone(&entries[at]))
    }

    /// Counts a frame that an entry was found for. After [`MAX_FRAMES_LEFT`] frames for an entry without new code, the
    /// code is left alone unless it has met tensors.
    pub fn note_hit(&self, entry: &CacheEntry) {
        if entry.code.is_some() {
            self.hits.fetch_add(1, Ordering::Relaxed);
        } else if entry.left_frames.fetch_add(1, Ordering::Relaxed) == MAX_FRAMES_LEFT {
            self.leave_alone();
        }
    }

    /// Leaves the code to CPython for good, unless the user asked for it or it has met a tensor.
    pub fn leave_alone(&self) {
        if !self.is_root() && !self.met_tensors.load(Ordering::Relaxed) {
            self.set_skip(true);
        }
    }

    /// Notes that a translation of the code has met tensors.
    pub fn note_tensors(&self) {
        self.met_tensors.store(true, Ordering::Relaxed);
    }

    /// Returns the account of translations and hits, with the hits since the last call added; `make` makes it at the
    /// first call.
    pub fn settling(&self, make: impl FnOnce() -> Arc<Settling>) -> Arc<Settling> {
        let settling = Arc::clone(self.lock_settling().get_or_insert_with(make));
        settling.note_hits(self.hits.swap(0, Ordering::Relaxed));
        settling
    }

    /// Notes that the code has an entry. Returns whether it ever had one before.
    pub fn note_translated(&self) -> bool {
        self.was_translated.swap(true, Ordering::Relaxed)
    }

    /// True if the code has ever had an entry.
    pub fn was_translated(&self) -> bool {
        self.was_translated.load(Ordering::Relaxed)
    }

    /// Drops the entries that have never been hit.
    pub fn drop_unused(&self) {
        let mut list = self.lock();
        let used = |entry: &&Arc<CacheEntry>| entry.is_used();
        let old = std::mem::take(&mut *list);
        *list = Arc::new(old.iter().filter(used).cloned().collect());
        drop(list);
        drop(old);
    }

    fn lock_settling(&self) -> MutexGuard<'_, Option<Arc<Settling>>> {
        self.settling.lock()
    }

    /// Number of entries that do not fit this frame because of an object of which a program has few, such as a model,
    /// or because of another element type. `lasts` is true for an object that outlives a call.
    pub fn count_failing_on_rare_difference<'py>(
        &self,
        frame: &impl FrameView<'py>,
        lasts: &impl Fn(&Bound<'py, PyAny>) -> bool,
    ) -> usize {
        let entries = Arc::clone(&self.lock());
        entries.iter().filter(|entry| entry.guards.fails_on_rare_difference(frame, lasts)).count()
    }

    /// Returns the numbers and sizes whose guards fail for this frame.
    pub fn differing<'py>(&self, frame: &impl FrameView<'py>) -> Differing {
        let entries = Arc::clone(&self.lock());
        let mut differing = Differing::default();
        entries.iter().for_each(|entry| entry.guards.differing(frame, &mut differing));
        differing
    }

    /// Returns whether the user wants sizes and numbers left open (`dynamic`). `None` if the environment decides. A
    /// resume function has the setting of its original code.
    pub fn dynamic(&self, py: Python<'_>) -> Option<bool> {
        let own = || self.sizes().dynamic;
        let of_base = |origin: &CodeOrigin| {
            let base = origin.base.bind(py).upgrade()?.cast_into::<PyCode>().ok()?;
            cache_of(&base)?.dynamic(py)
        };
        self.origin().map_or_else(own, of_base)
    }

    /// Sets whether sizes and numbers are left open; with `None` the environment decides.
    pub fn set_dynamic(&self, dynamic: Option<bool>) {
        self.sizes().dynamic = dynamic;
    }

    /// Returns what calls and translations of the code have shown of its loops and differing values.
    pub fn profile(&self) -> MutexGuard<'_, Profile> {
        self.profile.lock()
    }

    /// Returns the facts about the sizes of the code's tensors.
    pub fn sizes(&self) -> MutexGuard<'_, OpenSizes> {
        self.sizes.lock()
    }

    /// Returns the sizes that the next translation is to leave open. `differing` are the sizes that had another value
    /// in earlier translations, with the number of these; `dynamic` is the dynamic-shape setting.
    pub fn open_sizes(&self, dynamic: Option<bool>, differing: HashMap<ValuePath, usize>) -> Sizes {
        self.sizes().next(self.origin().is_some(), dynamic, differing)
    }

    /// Returns the arguments and classes that are another object at each call, because the objects of earlier calls
    /// have died or there were several.
    pub fn short_lived<'py>(&self, frame: &impl FrameView<'py>) -> ShortLived {
        let entries = Arc::clone(&self.lock());
        let mut profile = self.profile();
        let short_lived = &mut profile.short_lived;
        let mut others: HashMap<usize, usize> = HashMap::new();
        let mut other_classes: HashMap<&ValuePath, usize> = HashMap::new();
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
        short_lived.clone()
    }

    /// For each entry that does not fit the frame, the first guard that fails, with the expected value and the one
    /// seen.
    pub fn failed<'py>(&self, frame: &impl FrameView<'py>) -> Vec<FailedGuard> {
        let entries = Arc::clone(&self.lock());
        let failed = |entry: &Arc<CacheEntry>| {
            let UnmetGuard { guard, expected, seen, .. } = entry.guards.unmet(frame)?;
            Some(FailedGuard { translation: entry.id, guard, expected, seen })
        };
        entries.iter().filter(|entry| entry.left != LeftToCPython::Round).filter_map(failed).collect()
    }

    fn move_to_front(&self, entry: &Arc<CacheEntry>) {
        let mut list = self.lock();
        let mut entries: Vec<_> = list.iter().filter(|other| !Arc::ptr_eq(other, entry)).cloned().collect();
        if entries.len() < list.len() {
            entries.insert(0, Arc::clone(entry));
            *list = Arc::new(entries);
        }
    }

    /// Adds an entry, and drops the entries that can never hold again.
    pub fn insert(&self, py: Python<'_>, entry: Arc<CacheEntry>) {
        let mut list = self.lock();
        let is_kept = |old: &Arc<CacheEntry>| (old.is_used() || !entry.replaces_unused) && !old.guards.is_dead(py);
        let mut entries: Vec<_> = list.iter().filter(|old| is_kept(old)).cloned().collect();
        let first_last = entries.iter().position(|entry| entry.comes_last).unwrap_or(entries.len());
        entries.insert(if entry.comes_last { first_last } else { 0 }, entry);
        let old = std::mem::replace(&mut *list, Arc::new(entries));
        drop(list);
        drop(old);
    }

    /// Drops the entries that leave the rest of a loop iteration to CPython.
    pub fn take_rounds_back(&self) {
        self.profile().forget_loops();
        let mut list = self.lock();
        if list.iter().any(|entry| entry.left == LeftToCPython::Round) {
            let old = std::mem::take(&mut *list);
            *list = Arc::new(old.iter().filter(|entry| entry.left != LeftToCPython::Round).cloned().collect());
            drop(list);
            drop(old);
        }
    }

    /// True if no more entries may be added.
    pub fn is_full(&self, py: Python<'_>) -> bool {
        let entries = Arc::clone(&self.lock());
        entries.len() >= MAX_ENTRIES && !entries.iter().any(|entry| entry.guards.is_dead(py))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts a translation that found nothing to compile. After [`MAX_EMPTY`] of them the code is left alone, unless
    /// the user asked for it.
    pub fn found_nothing(&self) {
        if self.empty.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_EMPTY && !self.is_root() {
            self.skip.store(true, Ordering::Relaxed);
        }
    }

    /// Counts a trace that was given up because a signal waits.
    pub fn give_way(&self) {
        self.gave_way.fetch_add(1, Ordering::Relaxed);
    }

    /// True if a trace of the code is still given up when a signal waits. Otherwise a program with a signal every few
    /// moments would never complete a translation.
    pub fn gives_way(&self) -> bool {
        self.gave_way.load(Ordering::Relaxed) < MAX_GIVEN_WAY
    }

    /// Sets whether the code is left to CPython for good.
    pub fn set_skip(&self, skip: bool) {
        self.skip.store(skip, Ordering::Relaxed);
    }

    /// Leaves the code and all functions that it calls to CPython for good.
    pub fn set_skip_below(&self) {
        self.skip_below.store(true, Ordering::Relaxed);
        self.set_skip(true);
    }

    /// True if functions called by the code are left alone, too.
    pub fn skips_below(&self) -> bool {
        self.skip_below.load(Ordering::Relaxed)
    }

    /// True if the code is left to CPython.
    pub fn is_skipped(&self) -> bool {
        self.skip.load(Ordering::Relaxed)
    }

    /// Requests the translation of the code, also if its file is on the skip list.
    pub fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.lock_settling().take_if(|settling| settling.is_shared_by_source());
        self.skip.store(self.is_disabled(), Ordering::Relaxed);
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

    /// Takes one request back. Returns whether it was the last one.
    pub fn withdraw(&self) -> bool {
        self.requests.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Sets whether the code must become one graph, so that breaks and fallbacks are errors.
    pub fn set_whole(&self, whole: bool) {
        self.whole.store(whole, Ordering::Relaxed);
    }

    /// Makes breaks or fallbacks of the code an error for good.
    pub fn forbid(&self, what: Forbidden) {
        if self.forbidden.fetch_or(what as u8, Ordering::Relaxed) & what as u8 == 0 {
            self.clear();
        }
    }

    /// True if breaks or fallbacks of the code are an error.
    pub fn forbids(&self, what: Forbidden) -> bool {
        self.whole.load(Ordering::Relaxed) || self.forbidden.load(Ordering::Relaxed) & what as u8 != 0
    }

    /// True if the user asked for this code.
    pub fn is_root(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Drops the translations that are invalid in the present generation, and the facts learnt from them.
    pub fn refresh(&self, generation: u32) {
        let before = self.generation.swap(generation, Ordering::Relaxed);
        if before == generation {
            return;
        }
        let is_concerned = match forgetting::since(before) {
            Forgotten::Everything => {
                self.clear();
                true
            }
            Forgotten::Met(objects) => self.forget_met(&objects),
        };
        if is_concerned {
            self.sizes().forget();
            *self.profile() = Profile::default();
            self.empty.store(0, Ordering::Relaxed);
            *self.lock_settling() = None;
            self.hits.store(0, Ordering::Relaxed);
            self.was_translated.store(false, Ordering::Relaxed);
            self.met_tensors.store(false, Ordering::Relaxed);
        }
    }

    /// Drops the translations that met one of the objects. Returns whether there were any.
    fn forget_met(&self, objects: &HashSet<usize>) -> bool {
        let mut list = self.lock();
        let kept: Vec<_> = list.iter().filter(|entry| !entry.has_met(objects)).cloned().collect();
        let is_concerned = kept.len() < list.len();
        let old = std::mem::replace(&mut *list, Arc::new(kept));
        drop(list);
        drop(old);
        is_concerned
    }

    fn clear(&self) {
        let old = std::mem::take(&mut *self.lock());
        // Dropping an entry may run code of the program, so the lock must not be held.
        drop(old);
    }
}
