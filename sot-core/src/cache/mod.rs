//! The cache of one code object: its translations with their guards, its resume functions, and its marks. The cache
//! is attached to the code object and dies with it.

mod directives;
mod entries;
mod entry;
mod marks;
mod profile;
mod resumes;
mod sizes;
mod translated;
mod usage;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyWeakrefMethods};
use rustc_hash::FxHashMap;

use crate::bytecode::{BytecodeError, Code};
use crate::cpython::{self, CodeState};
use crate::error::Forbidden;
use crate::forgetting::{self, Forgotten};
use crate::guard::FrameView;
use crate::open_sizes::Sizes;
use crate::policy::{MAX_FRAMES_LEFT, MAX_GRAPH_ERRORS};
use crate::value_path::ValuePath;

pub use directives::Directives;
pub use entries::{Entries, Recurring};
pub use entry::{CacheEntry, Gain};
pub use marks::{
    cache_of, copy_marks, disable, forbids, in_original, is_asked_for, is_resume_function, leave_alone,
    leave_making_alone, leave_size_open, own_cells_of, prologue_of, set_skipped_files, unit_of, untranslated, Request,
    RequestOptions,
};
pub(crate) use marks::{file_of, readable_unit_of};
pub use profile::{Profile, ShortLived};
pub use resumes::{CodeOrigin, ResumeCodes};
pub use sizes::OpenSizes;
pub use translated::drop_translations;
pub use usage::Usage;

/// The translations of one code object, and what earlier calls have shown of it. Its methods concern more than one of
/// its parts.
#[derive(Default)]
pub struct CodeCache {
    /// The translations.
    pub entries: Entries,
    /// The resume functions.
    pub resumes: ResumeCodes,
    /// How frames of the code are to be treated.
    pub directives: Directives,
    /// What translations have cost and brought.
    pub usage: Usage,
    /// What calls and translations have shown of loops and differing values.
    pub profile: Mutex<Profile>,
    /// The facts about the sizes of tensors.
    pub sizes: Mutex<OpenSizes>,
    /// The generation of translations that the entries belong to.
    generation: AtomicU32,
    /// True if the code object is noted as one that has translations.
    is_noted: AtomicBool,
    origin: OnceCell<CodeOrigin>,
    untranslated: OnceCell<Py<PyCode>>,
    /// The decoded code. Most code is simulated several times: by attempts, by callers, and behind each break.
    decoded: OnceCell<Arc<Code>>,
}

impl CodeState for CodeCache {
    #[inline]
    fn leaves_alone(&self) -> bool {
        self.directives.is_skipped() && !self.directives.skips_below()
    }
}

impl CodeCache {
    /// Returns the first entry whose guards hold. If the code must become one graph, entries that leave part of the
    /// frame to CPython are passed over.
    #[inline]
    pub fn find<'py>(&self, frame: &impl FrameView<'py>) -> Option<Arc<CacheEntry>> {
        self.entries.find(frame, self.directives.is_whole())
    }

    /// Adds a translation of the code that this cache is attached to.
    pub fn insert(&self, code: &Bound<'_, PyCode>, entry: Arc<CacheEntry>) {
        if !self.is_noted.swap(true, Ordering::Relaxed) {
            translated::note(code);
        }
        self.entries.insert(code.py(), entry);
    }

    /// Forgets that the code object is noted.
    fn forget_noted(&self) {
        self.is_noted.store(false, Ordering::Relaxed);
    }

    /// Counts a frame that an entry was found for. After [`MAX_FRAMES_LEFT`] frames for an entry without new code, the
    /// code is left alone unless it has met tensors. Code of pieces none of which has met a tensor costs more than it
    /// wins, and is given back.
    pub fn note_hit(&self, py: Python<'_>, entry: &CacheEntry) {
        if entry.code().is_some() {
            self.usage.note_hit();
            if entry.is_in_question() && self.resumes_are_without_tensors(py) {
                entry.give_back();
            }
        } else if entry.left_frames.fetch_add(1, Ordering::Relaxed) == MAX_FRAMES_LEFT {
            self.leave_alone();
        }
    }

    /// True if no translation of a resume function of the code has met tensors, or might have in a function that it
    /// called. False for a resume function itself, which goes on in others of the same original code.
    fn resumes_are_without_tensors(&self, py: Python<'_>) -> bool {
        if self.origin().is_some() {
            return false;
        }
        let has_tensors = |code: Py<PyAny>| {
            let code = code.into_bound(py).cast_into::<PyCode>().ok();
            code.as_ref().and_then(cache_of).is_some_and(|cache| cache.usage.may_have_met_tensors())
        };
        !self.resumes.all(py).into_iter().any(has_tensors)
    }

    /// Leaves the code to CPython for good, unless the user asked for it or it has met a tensor.
    pub fn leave_alone(&self) {
        if !self.directives.is_root() && !self.usage.has_met_tensors() {
            self.directives.set_skip(true);
        }
    }

    /// Counts a translation that found nothing to compile. After [`crate::policy::MAX_EMPTY`] of them the code is
    /// left alone, unless the user asked for it.
    pub fn found_nothing(&self) {
        if self.usage.note_empty() && !self.directives.is_root() {
            self.directives.set_skip(true);
        }
    }

    /// Requests the translation of the code, also if its file is on the skip list.
    pub fn request(&self) {
        if !self.directives.is_root() {
            cpython::forget_idle_code();
        }
        self.usage.leave_shared_account();
        self.directives.request();
    }

    /// Makes breaks or fallbacks of the code an error for good.
    pub fn forbid(&self, what: Forbidden) {
        if self.directives.forbid(what) {
            self.entries.clear();
        }
    }

    /// Marks the code as that of a resume function, and requests its translation.
    pub fn set_origin(&self, origin: CodeOrigin) {
        self.origin.set(origin).ok();
        self.request();
    }

    /// Returns the origin of the code, if it is that of a resume function.
    pub fn origin(&self) -> Option<&CodeOrigin> {
        self.origin.get()
    }

    /// Returns a copy of the code that is never translated; `make` makes it at the first call.
    pub fn untranslated(&self, make: impl FnOnce() -> PyResult<Py<PyCode>>) -> PyResult<&Py<PyCode>> {
        if let Some(known) = self.untranslated.get() {
            return Ok(known);
        }
        // No lock is held meanwhile: a garbage collection may pass the GIL to a thread that wants the same copy.
        let copy = make()?;
        Ok(self.untranslated.get_or_init(|| copy))
    }

    /// Returns the decoded code of the code object that this cache is attached to.
    fn decoded(&self, object: &Bound<'_, PyAny>) -> Result<Arc<Code>, BytecodeError> {
        if let Some(known) = self.decoded.get() {
            return Ok(Arc::clone(known));
        }
        // No lock is held meanwhile: a garbage collection may pass the GIL to a thread that decodes the same code.
        let decoded = Arc::new(Code::decode(object)?);
        Ok(Arc::clone(self.decoded.get_or_init(|| decoded)))
    }

    /// Returns whether the user wants sizes and numbers left open (`dynamic`). `None` if the environment decides. A
    /// resume function has the setting of its original code.
    pub fn dynamic(&self, py: Python<'_>) -> Option<bool> {
        let own = || self.sizes.lock().dynamic();
        let of_base = |origin: &CodeOrigin| {
            let base = origin.base.bind(py).upgrade()?.cast_into::<PyCode>().ok()?;
            cache_of(&base)?.dynamic(py)
        };
        self.origin().map_or_else(own, of_base)
    }

    /// Counts a call in which a graph of the code raised though the program does not. A framework's static mode knows
    /// less about open sizes and numbers than a run does. So after [`MAX_GRAPH_ERRORS`] such calls the translations are
    /// dropped, and later ones leave nothing open. A first translation has left nothing open.
    pub fn note_graph_error(&self, py: Python<'_>) {
        if self.usage.count_graph_error() >= MAX_GRAPH_ERRORS && self.entries.len() > 1 {
            self.usage.forget_graph_errors();
            self.leave_nothing_open(py);
            self.entries.clear();
        }
    }

    /// From now on specialises on all sizes and numbers. A resume function has the setting of its original code.
    fn leave_nothing_open(&self, py: Python<'_>) {
        let base = self.origin().and_then(|origin| origin.base.bind(py).upgrade()?.cast_into::<PyCode>().ok());
        match base.as_ref().and_then(cache_of) {
            Some(cache) => cache.leave_nothing_open(py),
            None => self.sizes.lock().leave_nothing_open(),
        }
    }

    /// Returns the sizes that the next translation is to leave open. `differing` are the sizes that had another value
    /// in earlier translations, with the number of these; `dynamic` is the dynamic-shape setting.
    pub(crate) fn open_sizes(&self, dynamic: Option<bool>, differing: FxHashMap<ValuePath, usize>) -> Sizes {
        self.sizes.lock().next(self.origin().is_some(), dynamic, differing)
    }

    /// Returns the arguments and classes that are another object at each call.
    pub fn short_lived<'py>(&self, frame: &impl FrameView<'py>) -> ShortLived {
        let mut profile = self.profile.lock();
        self.entries.note_short_lived(frame, &mut profile.short_lived);
        profile.short_lived.clone()
    }

    /// Drops the entries that leave the rest of a loop iteration to CPython, and the counts that led to them.
    pub fn take_rounds_back(&self) {
        self.profile.lock().forget_loops();
        self.entries.drop_left_rounds();
    }

    /// Drops the translations that are invalid in the present generation, and the facts learnt from them.
    #[inline]
    pub fn refresh(&self, generation: u32) {
        if self.generation.load(Ordering::Relaxed) != generation {
            let before = self.generation.swap(generation, Ordering::Relaxed);
            if before != generation {
                self.forget_since(before);
            }
        }
    }

    #[cold]
    fn forget_since(&self, generation: u32) {
        let is_concerned = match forgetting::since(generation) {
            Forgotten::Everything => {
                self.entries.clear();
                true
            }
            Forgotten::Met(objects) => self.entries.forget_met(&objects),
        };
        if is_concerned {
            self.sizes.lock().forget();
            *self.profile.lock() = Profile::default();
            self.usage.forget();
        }
    }
}
