//! The cache of one code object: its translations with their guards. It hangs on the code object and dies with it.

mod marks;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use once_cell::sync::OnceCell;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyWeakrefMethods, PyWeakrefReference};

use crate::bytecode::Label;
use crate::cpython::{self, CallTimes, CodeState};
use crate::error::{Flow, Forbidden};
use crate::forgetting::{self, Forgotten};
use crate::guard::{Differing, FrameView, GuardProgram, UnmetGuard};
use crate::open_sizes::{Matters, OpenAtFirst, Sizes};
use crate::policy::{self, MAX_EMPTY, MAX_ENTRIES, MAX_GIVEN_WAY, MAX_LEFT, MAX_OBJECTS};
use crate::report::{CountsUses, FailedGuard};
use crate::resume_point::{Finish, ResumeKey};
use crate::settling::Settling;
use crate::value_path::ValuePath;

pub(crate) use marks::file_of;
pub use marks::{
    cache_of, copy_marks, disable, forbids, in_original, is_asked_for, is_resume_function, leave_alone,
    leave_making_alone, leave_size_open, own_cells_of, prologue_of, set_skipped_files, untranslated, Request,
    RequestOptions,
};

/// One translation: valid while its guards hold.
pub struct CacheEntry {
    guards: GuardProgram,
    /// The new code; `None` leaves the frame to CPython.
    pub code: Option<Py<PyAny>>,
    /// Whether functions called by the new code run without the tracer.
    pub disable_eval_frame: bool,
    /// Whether it is for what the others are not for: it breaks at a number that they assume.
    pub comes_last: bool,
    left: Left,
    /// Whether it serves what others do that have not been used again.
    replaces_unused: bool,
    /// How often it was found; the GIL makes an atomic addition needless.
    uses: AtomicU64,
    /// The number of the translation it was made in.
    id: u64,
    /// How many frames it has left to CPython.
    left_frames: AtomicU32,
    /// The addresses of what the trace called and looked at, sorted; `None`: it may have been anything.
    met: Option<Box<[usize]>>,
}

/// What of a frame an entry leaves to CPython.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    /// What a break or fallback does.
    Some,
    /// The rest of a loop's round.
    Round,
}

impl CacheEntry {
    /// An entry.
    pub fn new(guards: GuardProgram, code: Option<Py<PyAny>>, disable_eval_frame: bool, comes_last: bool) -> Self {
        CacheEntry {
            guards,
            code,
            disable_eval_frame,
            comes_last,
            left: Left::Some,
            replaces_unused: false,
            uses: AtomicU64::new(0),
            id: 0,
            left_frames: AtomicU32::new(0),
            met: None,
        }
    }

    /// The entry of a trace that met the objects at these addresses.
    #[must_use]
    pub fn having_met(self, objects: impl IntoIterator<Item = usize>) -> Self {
        let mut met: Box<[usize]> = objects.into_iter().collect();
        met.sort_unstable();
        CacheEntry { met: Some(met), ..self }
    }

    fn has_met(&self, objects: &HashSet<usize>) -> bool {
        let among = |met: &[usize]| objects.iter().any(|object| met.binary_search(object).is_ok());
        self.met.as_deref().is_none_or(among)
    }

    /// The entry of a frame of which nothing is left to CPython if `is_whole`.
    #[must_use]
    pub fn whole(self, is_whole: bool) -> Self {
        CacheEntry { left: if is_whole { Left::Nothing } else { Left::Some }, ..self }
    }

    /// One made for all values, in the place of those for single ones that have not been used again.
    #[must_use]
    pub fn replacing(self, unused: bool) -> Self {
        CacheEntry { replaces_unused: unused, ..self }
    }

    /// The entry of the translation of this number.
    #[must_use]
    pub fn of_translation(self, id: u64) -> Self {
        CacheEntry { id, ..self }
    }

    /// Number of steps of its guards.
    pub fn guard_steps(&self) -> usize {
        self.guards.len()
    }

    /// How long its guards take on a frame: the shortest of a few checks, as what is looked at the first time is slower.
    pub fn time_guards<'py>(&self, frame: &impl FrameView<'py>) -> Duration {
        let checked = || {
            let begun = Instant::now();
            self.guards.check(frame);
            begun.elapsed()
        };
        (0..3).map(|_| checked()).min().unwrap_or_default()
    }

    #[inline]
    fn note_use(&self) {
        self.uses.store(self.uses.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn is_used(&self) -> bool {
        self.uses.load(Ordering::Relaxed) > 0
    }

    /// One that leaves the rest of a loop's round to CPython.
    pub fn leaving_round(guards: GuardProgram, code: Py<PyAny>) -> Self {
        CacheEntry { left: Left::Round, ..CacheEntry::new(guards, Some(code), false, true) }
    }
}

impl CountsUses for CacheEntry {
    fn uses(&self) -> u64 {
        self.uses.load(Ordering::Relaxed)
    }

    fn times(&self) -> CallTimes {
        self.code.as_ref().map(cpython::call_times).unwrap_or_default()
    }
}

/// The translations of one code object.
#[derive(Default)]
pub struct CodeCache {
    entries: Mutex<Arc<Vec<Arc<CacheEntry>>>>,
    skip: AtomicBool,
    /// Whether what the code calls is left alone with it.
    skip_below: AtomicBool,
    /// Whether no request takes it from that.
    disabled: AtomicBool,
    /// How many ask for it.
    requests: AtomicU32,
    whole: AtomicBool,
    forbidden: AtomicU8,
    empty: AtomicU32,
    /// How many traces were given up for signals.
    gave_way: AtomicU32,
    generation: AtomicU32,
    resume: Mutex<HashMap<ResumeKey, Py<PyAny>>>,
    origin: OnceCell<CodeOrigin>,
    untranslated: OnceCell<Py<PyCode>>,
    sizes: Mutex<OpenSizes>,
    /// In how many translations of the code and its resume functions loops went round more than once, by where they
    /// begin.
    unrolled: Mutex<HashMap<Label, usize>>,
    /// How many translations of resume functions there are in loops, by where the outermost loop begins.
    made: Mutex<HashMap<Label, LoopTranslations>>,
    /// The instructions that need values which differ from call to call.
    differing: Mutex<HashSet<Label>>,
    /// The variables that hold containers whose contents differ from call to call.
    changing: Mutex<HashSet<String>>,
    /// Whether the graph breaks at each condition on values which differ from call to call.
    branching: AtomicBool,
    /// Arguments and classes that are another object at each call.
    short_lived: Mutex<ShortLived>,
    /// Frames that ran a translation, since the account below was last asked.
    hits: AtomicU64,
    settling: Mutex<Option<Arc<Settling>>>,
    was_translated: AtomicBool,
    met_tensors: AtomicBool,
}

/// Arguments and classes that are another object at each call: identity guards on them would never hold again.
#[derive(Clone, Default)]
pub struct ShortLived {
    /// Argument slots that hold such an object, or lead to one.
    pub arguments: HashSet<usize>,
    /// Classes that functions make at each call, and the classes of such objects, by path.
    pub classes: HashSet<ValuePath>,
}

/// The translations of resume functions that go on in one loop.
#[derive(Clone, Copy, Default)]
pub struct LoopTranslations {
    /// All of them.
    pub all: u32,
    /// Those that are not the first of their place.
    pub again: u32,
    /// Whether one of them goes on in a function that the loop calls.
    pub in_call: bool,
}

/// The sizes that translations of one code object leave open, by the texts of their trackers.
#[derive(Default)]
struct OpenSizes {
    /// Whether somebody asked for it.
    asked: bool,
    wanted: HashSet<ValuePath>,
    /// What has mattered.
    closed: HashSet<Matters>,
    /// Whether the graph broke where sizes were left open early.
    wait: bool,
    /// Whether sizes and numbers are left open, as was asked.
    dynamic: Option<bool>,
    /// The shapes of arguments in the first call that was left to CPython for the stance.
    first_shapes: Option<Vec<(ValuePath, Vec<i64>)>>,
    /// Those that later calls have shown to differ.
    shown: HashSet<ValuePath>,
    /// The sizes that the first translation leaves open, if that was asked for.
    at_first: OpenAtFirst,
}

impl OpenSizes {
    /// Forgets what calls have shown, but not what was asked for.
    fn forget(&mut self) {
        self.closed.clear();
        self.shown.clear();
        self.first_shapes = None;
        self.at_first = OpenAtFirst::All;
    }
}

/// Where a resume function's code comes from.
pub struct CodeOrigin {
    /// The original code, held weakly: it owns its resume functions.
    pub base: Py<PyWeakrefReference>,
    /// Length of the prologue before the original instructions.
    pub prologue: u32,
    /// The instruction of the prologue that calls the resume function of the next frame, and what is done behind it.
    pub call: Option<(Label, Finish)>,
    /// The instruction of the prologue that calls what lies below that call's result.
    pub applies: Option<Label>,
    /// Whether a resume function of the caller calls it.
    pub nested: bool,
    /// How many of its cells are the function's own, the first of its free variables.
    pub own_cells: usize,
}

impl CodeState for CodeCache {
    #[inline]
    fn leaves_alone(&self) -> bool {
        self.is_skipped() && !self.skips_below()
    }
}

impl CodeCache {
    /// The resume function's code for a key, made at the first question.
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

    /// The key of a resume function's code.
    pub fn resume_key(&self, code: &Bound<'_, PyCode>) -> Option<ResumeKey> {
        let codes = self.lock_resume();
        codes.iter().find(|(_, known)| known.is(code)).map(|(key, _)| key.clone())
    }

    /// The codes of all resume functions made so far.
    pub fn resume_codes(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        self.lock_resume().values().map(|code| code.clone_ref(py)).collect()
    }

    /// In how many places behind an instruction resume functions go on.
    pub fn places_behind(&self, at: Label) -> usize {
        let codes = self.lock_resume();
        codes.keys().map(|key| key.at).filter(|place| *place >= at).collect::<HashSet<_>>().len()
    }

    fn lock_resume(&self) -> MutexGuard<'_, HashMap<ResumeKey, Py<PyAny>>> {
        self.resume.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Marks the code as that of a resume function.
    pub fn set_origin(&self, origin: CodeOrigin) {
        self.origin.set(origin).ok();
        self.request();
    }

    /// The same code to be run by CPython, made at the first question.
    pub fn untranslated(&self, make: impl FnOnce() -> PyResult<Py<PyCode>>) -> PyResult<&Py<PyCode>> {
        self.untranslated.get_or_try_init(make)
    }

    /// Where the code comes from, if it is that of a resume function.
    pub fn origin(&self) -> Option<&CodeOrigin> {
        self.origin.get()
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Vec<Arc<CacheEntry>>>> {
        // A panic while the list was replaced left the old list, which is as good.
        self.entries.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The first entry whose guards hold; where the code must become one graph, of those that are one.
    pub fn find<'py>(&self, frame: &impl FrameView<'py>) -> Option<Arc<CacheEntry>> {
        let entries = Arc::clone(&self.lock());
        let whole = self.whole.load(Ordering::Relaxed);
        let at =
            entries.iter().position(|entry| (!whole || entry.left == Left::Nothing) && entry.guards.check(frame))?;
        if at > 0 && !entries[at].comes_last {
            self.move_to_front(&entries[at]);
        }
        entries[at].note_use();
        Some(Arc::clone(&entries[at]))
    }

    /// Counts a frame that an entry was found for. Where none has ever met a tensor, the code is left alone after some.
    pub fn note_hit(&self, entry: &CacheEntry) {
        if entry.code.is_some() {
            self.hits.fetch_add(1, Ordering::Relaxed);
        } else if entry.left_frames.fetch_add(1, Ordering::Relaxed) == MAX_LEFT {
            self.leave_alone();
        }
    }

    /// Leaves the code to CPython for good, unless somebody asked for it or it has met a tensor.
    pub fn leave_alone(&self) {
        if !self.is_root() && !self.met_tensors.load(Ordering::Relaxed) {
            self.set_skip(true);
        }
    }

    /// A translation of the code has met tensors.
    pub fn note_tensors(&self) {
        self.met_tensors.store(true, Ordering::Relaxed);
    }

    /// The account of translations and of what they served, made at the first question.
    pub fn settling(&self, make: impl FnOnce() -> Arc<Settling>) -> Arc<Settling> {
        let settling = Arc::clone(self.lock_settling().get_or_insert_with(make));
        settling.note_hits(self.hits.swap(0, Ordering::Relaxed));
        settling
    }

    /// Whether there has ever been an entry; from now on there has.
    pub fn note_translated(&self) -> bool {
        self.was_translated.swap(true, Ordering::Relaxed)
    }

    /// Whether there has ever been an entry.
    pub fn was_translated(&self) -> bool {
        self.was_translated.load(Ordering::Relaxed)
    }

    /// Drops the entries that no frame has used since they were made.
    pub fn drop_unused(&self) {
        let mut list = self.lock();
        let used = |entry: &&Arc<CacheEntry>| entry.is_used();
        let old = std::mem::take(&mut *list);
        *list = Arc::new(old.iter().filter(used).cloned().collect());
        drop(list);
        drop(old);
    }

    fn lock_settling(&self) -> MutexGuard<'_, Option<Arc<Settling>>> {
        self.settling.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Number of entries that this frame does not fit because of something of which a program has few, as models and
    /// element types;
    /// `lasts` says so of objects.
    pub fn for_others<'py>(&self, frame: &impl FrameView<'py>, lasts: &impl Fn(&Bound<'py, PyAny>) -> bool) -> usize {
        let entries = Arc::clone(&self.lock());
        entries.iter().filter(|entry| entry.guards.is_for_another(frame, lasts)).count()
    }

    /// The numbers and sizes that keep entries from being used.
    pub fn differing<'py>(&self, frame: &impl FrameView<'py>) -> Differing {
        let entries = Arc::clone(&self.lock());
        let mut differing = Differing::default();
        entries.iter().for_each(|entry| entry.guards.differing(frame, &mut differing));
        differing
    }

    /// Asks that sizes be left open, and, behind a break, those that differ.
    pub fn leave_sizes_open(&self, sizes: &[ValuePath]) {
        let mut known = self.lock_sizes();
        known.asked = true;
        known.wanted.extend(sizes.iter().cloned());
    }

    /// Whether somebody asked for sizes to be left open.
    pub fn leaves_sizes_open(&self) -> bool {
        self.lock_sizes().asked
    }

    /// Whether sizes and numbers are left open, as was asked for the function.
    pub fn dynamic(&self, py: Python<'_>) -> Option<bool> {
        let own = || self.lock_sizes().dynamic;
        let of_base = |origin: &CodeOrigin| {
            let base = origin.base.bind(py).upgrade()?.cast_into::<PyCode>().ok()?;
            cache_of(&base)?.dynamic(py)
        };
        self.origin().map_or_else(own, of_base)
    }

    /// Asks for it, or leaves it to the environment.
    pub fn set_dynamic(&self, dynamic: Option<bool>) {
        self.lock_sizes().dynamic = dynamic;
    }

    /// Shapes of arguments in a call that is left to CPython: the sizes that differ from those shown
    /// before are left open. Whether none was shown before.
    pub fn show(&self, shapes: Vec<(ValuePath, Vec<i64>)>) -> bool {
        let mut known = self.lock_sizes();
        let OpenSizes { first_shapes, shown, .. } = &mut *known;
        let Some(first) = first_shapes else {
            *first_shapes = Some(shapes);
            return true;
        };
        for (path, shape) in shapes {
            let Some((_, before)) = first.iter().find(|(known, _)| *known == path) else { continue };
            if before.len() == shape.len() {
                let differing = (0..shape.len()).filter(|axis| before[*axis] != shape[*axis]);
                shown.extend(differing.map(|axis| path.size(axis)));
            }
        }
        false
    }

    /// The sizes that the next translation is to leave open; `differing` are those that were others in earlier ones,
    /// and in how many; `dynamic` is what was asked for.
    pub fn open_sizes(&self, dynamic: Option<bool>, differing: HashMap<ValuePath, usize>) -> Sizes {
        let known = self.lock_sizes();
        let mut wanted: HashSet<_> = known.wanted.union(&known.shown).cloned().collect();
        let asked = known.asked && self.origin().is_some();
        let after = if known.wait { policy::opens_after(dynamic) } else { policy::sizes_open_after(dynamic) };
        let mut early = false;
        if let (Some(enough), Some(often)) = (if asked { Some(0) } else { after }, policy::opens_after(dynamic)) {
            early = !asked && enough < often && differing.values().any(|others| (enough..often).contains(others));
            wanted.extend(differing.into_iter().filter(|(_, others)| *others >= enough).map(|(size, _)| size));
        } else if asked {
            wanted.extend(differing.into_keys());
        }
        let sizes = Sizes::new(wanted, known.closed.clone()).asked(dynamic, known.at_first);
        if early {
            sizes.early()
        } else {
            sizes
        }
    }

    /// From here on sizes are left open only where they differ often.
    pub fn let_sizes_wait(&self) {
        self.lock_sizes().wait = true;
    }

    /// From here on this is assumed.
    pub fn close_sizes(&self, matters: Vec<Matters>) {
        let mut known = self.lock_sizes();
        for what in matters {
            match what {
                Matters::AtFirst(fewer) => known.at_first = fewer,
                _ => _ = known.closed.insert(what),
            }
        }
    }

    fn lock_sizes(&self) -> MutexGuard<'_, OpenSizes> {
        self.sizes.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// How many translations of the code and its resume functions went round a loop more than once.
    pub fn unrolled(&self, head: Label) -> usize {
        self.lock_unrolled().get(&head).copied().unwrap_or(0)
    }

    /// Counts such a translation.
    pub fn note_unrolled(&self, head: Label) {
        let mut unrolled = self.lock_unrolled();
        let times = unrolled.entry(head).or_default();
        *times = times.saturating_add(1);
    }

    /// Notes that the rounds of a loop differ: no further translation goes round it more than once.
    pub fn note_different(&self, head: Label) {
        self.lock_unrolled().insert(head, usize::MAX);
    }

    /// Counts a translation of a resume function in a loop; `again`: its place has one; `in_call`: it goes on in a
    /// function that the loop calls.
    pub fn count_translation(&self, head: Label, again: bool, in_call: bool) {
        let mut loops = self.lock_made();
        let made = loops.entry(head).or_default();
        made.all = made.all.saturating_add(1);
        made.again = made.again.saturating_add(u32::from(again));
        made.in_call |= in_call;
    }

    /// How many translations of resume functions there are in a loop.
    pub fn made(&self, head: Label) -> LoopTranslations {
        self.lock_made().get(&head).copied().unwrap_or_default()
    }

    fn lock_made(&self) -> MutexGuard<'_, HashMap<Label, LoopTranslations>> {
        self.made.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn lock_unrolled(&self) -> MutexGuard<'_, HashMap<Label, usize>> {
        self.unrolled.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether the instruction needs a value that differs from call to call.
    pub fn differs(&self, at: Label) -> bool {
        self.lock_differing().contains(&at)
    }

    /// Notes that it does.
    pub fn note_differing(&self, at: Label) {
        self.lock_differing().insert(at);
    }

    /// Whether a variable holds a container whose contents differ from call to call.
    pub fn holds_changing(&self, variable: &str) -> bool {
        self.lock_changing().contains(variable)
    }

    /// Notes that it does.
    pub fn note_changing(&self, variable: &str) {
        self.lock_changing().insert(variable.to_owned());
    }

    fn lock_changing(&self) -> MutexGuard<'_, HashSet<String>> {
        self.changing.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether the graph breaks at each condition on values which differ from call to call.
    pub fn branches_much(&self) -> bool {
        self.branching.load(Ordering::Relaxed)
    }

    /// From here on it does.
    pub fn note_branching(&self) {
        self.branching.store(true, Ordering::Relaxed);
    }

    fn lock_differing(&self) -> MutexGuard<'_, HashSet<Label>> {
        self.differing.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Arguments and classes that are another object at each call: the objects of earlier calls have died, or there
    /// were several.
    pub fn short_lived<'py>(&self, frame: &impl FrameView<'py>) -> ShortLived {
        let entries = Arc::clone(&self.lock());
        let mut short_lived = self.short_lived.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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

    /// For each entry, the first guard that does not hold.
    pub fn failures<'py>(&self, frame: &impl FrameView<'py>) -> Vec<String> {
        let entries = Arc::clone(&self.lock());
        entries.iter().filter_map(|entry| entry.guards.failure(frame)).collect()
    }

    /// For each entry, the first guard that does not hold, with what it expects and what the frame has.
    pub fn failed<'py>(&self, frame: &impl FrameView<'py>) -> Vec<FailedGuard> {
        let entries = Arc::clone(&self.lock());
        let failed = |entry: &Arc<CacheEntry>| {
            let UnmetGuard { guard, expected, seen } = entry.guards.unmet(frame)?;
            Some(FailedGuard { translation: entry.id, guard, expected, seen })
        };
        entries.iter().filter(|entry| entry.left != Left::Round).filter_map(failed).collect()
    }

    fn move_to_front(&self, entry: &Arc<CacheEntry>) {
        let mut list = self.lock();
        let mut entries: Vec<_> = list.iter().filter(|other| !Arc::ptr_eq(other, entry)).cloned().collect();
        if entries.len() < list.len() {
            entries.insert(0, Arc::clone(entry));
            *list = Arc::new(entries);
        }
    }

    /// Adds an entry, and drops those that can never hold again.
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

    /// Drops what leaves rounds of loops to CPython.
    pub fn take_rounds_back(&self) {
        self.lock_made().clear();
        let mut list = self.lock();
        if list.iter().any(|entry| entry.left == Left::Round) {
            let old = std::mem::take(&mut *list);
            *list = Arc::new(old.iter().filter(|entry| entry.left != Left::Round).cloned().collect());
            drop(list);
            drop(old);
        }
    }

    /// Whether no more entries are made.
    pub fn is_full(&self, py: Python<'_>) -> bool {
        let entries = Arc::clone(&self.lock());
        entries.len() >= MAX_ENTRIES && !entries.iter().any(|entry| entry.guards.is_dead(py))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts a translation that found nothing to compile; after a few the code is left alone, unless the user asked
    /// for it.
    pub fn found_nothing(&self) {
        if self.empty.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_EMPTY && !self.is_root() {
            self.skip.store(true, Ordering::Relaxed);
        }
    }

    /// Counts a trace that was given up for a signal.
    pub fn give_way(&self) {
        self.gave_way.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether traces are still given up for signals. Where one comes every few moments no translation would ever be
    /// done.
    pub fn gives_way(&self) -> bool {
        self.gave_way.load(Ordering::Relaxed) < MAX_GIVEN_WAY
    }

    /// Leaves the code to CPython for good.
    pub fn set_skip(&self, skip: bool) {
        self.skip.store(skip, Ordering::Relaxed);
    }

    /// Leaves the code to CPython for good, and all that it calls.
    pub fn set_skip_below(&self) {
        self.skip_below.store(true, Ordering::Relaxed);
        self.set_skip(true);
    }

    /// Whether what the code calls is left alone with it.
    pub fn skips_below(&self) -> bool {
        self.skip_below.load(Ordering::Relaxed)
    }

    /// Whether the code is left to CPython.
    pub fn is_skipped(&self) -> bool {
        self.skip.load(Ordering::Relaxed)
    }

    /// Asks for the translation of the code: no list of files keeps it from that.
    pub fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.lock_settling().take_if(|settling| settling.is_of_place());
        self.skip.store(self.is_disabled(), Ordering::Relaxed);
    }

    /// Leaves the code to CPython whoever asks for it, with what it calls or without; or no longer does.
    pub fn set_disabled(&self, disabled: Option<bool>) {
        self.disabled.store(disabled.is_some(), Ordering::Relaxed);
        self.skip_below.store(disabled == Some(true), Ordering::Relaxed);
        self.set_skip(disabled.is_some());
    }

    /// Whether it is left to CPython whoever asks for it.
    pub fn is_disabled(&self) -> bool {
        self.disabled.load(Ordering::Relaxed)
    }

    /// Takes one request back; whether it was the last one.
    pub fn withdraw(&self) -> bool {
        self.requests.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Whether the code must become one graph, so that breaks and fallbacks are errors.
    pub fn set_whole(&self, whole: bool) {
        self.whole.store(whole, Ordering::Relaxed);
    }

    /// Makes something an error for good.
    pub fn forbid(&self, what: Forbidden) {
        if self.forbidden.fetch_or(what as u8, Ordering::Relaxed) & what as u8 == 0 {
            self.clear();
        }
    }

    /// Whether something is an error.
    pub fn forbids(&self, what: Forbidden) -> bool {
        self.whole.load(Ordering::Relaxed) || self.forbidden.load(Ordering::Relaxed) & what as u8 != 0
    }

    /// Whether the user asked for this code.
    pub fn is_root(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Forgets what holds no longer in the present generation.
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
            self.lock_sizes().forget();
            self.lock_unrolled().clear();
            self.lock_differing().clear();
            self.lock_changing().clear();
            self.branching.store(false, Ordering::Relaxed);
            *self.short_lived.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = ShortLived::default();
            self.empty.store(0, Ordering::Relaxed);
            self.lock_made().clear();
            *self.lock_settling() = None;
            self.hits.store(0, Ordering::Relaxed);
            self.was_translated.store(false, Ordering::Relaxed);
            self.met_tensors.store(false, Ordering::Relaxed);
        }
    }

    /// Forgets the translations that met one of the objects; whether there were any.
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
        // What an entry holds may run code of the program's when it goes.
        drop(old);
    }
}
