//! The original code behind the code being translated.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyCode, PyWeakrefMethods, PyWeakrefReference};

use super::build;
use crate::bytecode::{CodeUnit, Label, Position};
use crate::cache::{self, cache_of, CodeCache, CodeOrigin};
use crate::cpython::StateRef;
use crate::error::{Flow, Forbidden, ReasonId, Unwind};
use crate::resume_point::{Entry, Finish, ResumeKey};

/// The original code of the code being translated, from which resume functions are made.
pub struct ResumeSource<'py> {
    /// The original code.
    pub unit: Rc<CodeUnit>,
    cache: StateRef<'py, CodeCache>,
    running: Rc<CodeUnit>,
    shift: u32,
    call: Option<(Label, Finish)>,
    applies: Option<Label>,
    drives_itself: bool,
}

impl<'py> ResumeSource<'py> {
    /// The original code of a frame's code.
    pub fn of(py: Python<'py>, running: &Rc<CodeUnit>) -> PyResult<Self> {
        let lost = || pyo3::exceptions::PyRuntimeError::new_err("the code of a running function has no cache");
        let cache = cache_of(running.object.bind(py).cast::<PyCode>()?).ok_or_else(lost)?;
        let running = Rc::clone(running);
        let Some(origin) = cache.origin() else {
            let unit = Rc::clone(&running);
            return Ok(ResumeSource { unit, cache, running, shift: 0, call: None, applies: None, drives_itself: true });
        };
        let (shift, call, applies, drives_itself) =
            (origin.prologue, origin.call, origin.applies, origin.drives_itself);
        let base = origin.base.bind(py).upgrade().ok_or_else(lost)?;
        let cache = cache_of(base.cast::<PyCode>()?).ok_or_else(lost)?;
        let unit = cache::readable_unit_of(&base)?;
        Ok(ResumeSource { unit, cache, running, shift, call, applies, drives_itself })
    }

    /// Returns the cache of the original code.
    pub fn cache(&self) -> &CodeCache {
        &self.cache
    }

    /// True if new code drives the resume functions it hands over to, because no outer hand-over does.
    pub fn drives_itself(&self) -> bool {
        self.drives_itself
    }

    /// Maps a place in the code being translated to a place in the original code. In the prologue, the rest of a call
    /// maps to the call, and the final jump maps to the instruction behind the call.
    pub fn original(&self, at: Label) -> Flow<Label> {
        if let Some(at) = at.0.checked_sub(self.shift) {
            if at >= self.unit.code.instructions.len() as u32 {
                return Err(Unwind::fallback(ReasonId::CannotRestore, "a graph break in the middle of an instruction"));
            }
            return Ok(Label(at));
        }
        let jump = self.running.code.instructions[self.shift as usize - 1];
        let next = jump.target.and_then(|next| next.0.checked_sub(self.shift));
        let place = match self.call {
            Some((call, _)) if call == at => next.and_then(|next| next.checked_sub(1)),
            _ if self.applies == Some(at) => next.and_then(|next| next.checked_sub(1)),
            _ if at.0 == self.shift - 1 => next,
            _ => None,
        };
        place.map(Label).ok_or_else(|| {
            Unwind::fallback(ReasonId::CannotRestore, "a graph break in the prologue of a resume function")
        })
    }

    /// True if a place in the code being translated is in the prologue.
    pub fn is_in_prologue(&self, at: Label) -> bool {
        at.0 < self.shift
    }

    /// The finish of the call at a place in a prologue.
    pub fn finish_at(&self, at: Label) -> Option<Finish> {
        self.call.filter(|(call, _)| *call == at).map(|(_, finish)| finish)
    }

    /// The key of the running code, if it is a resume function.
    pub fn key(&self, py: Python<'py>) -> Option<ResumeKey> {
        self.cache.resumes.key_of(self.running.object.bind(py).cast::<PyCode>().ok()?)
    }

    /// True if the running code is a resume function that may begin within a `try`.
    pub fn may_catch(&self, py: Python<'py>) -> bool {
        self.key(py).is_some_and(|key| key.may_catch(&self.unit.code))
    }

    /// Returns the code of a resume function, building it at first use.
    pub fn resume_code(&self, py: Python<'_>, key: &ResumeKey, line: Position) -> Flow<Py<PyAny>> {
        self.cache.resumes.get_or_make(py, key, || {
            let built = build(py, &self.unit, key, line, &[])?;
            let code = built.code.bind(py).cast::<PyCode>().map_err(PyErr::from)?;
            let base = PyWeakrefReference::new(self.unit.object.bind(py))?.unbind();
            if let Some(cache) = cache_of(code) {
                let own_cells = self.unit.code.cellvars.len();
                let (prologue, call, applies, drives_itself) =
                    (built.prologue, built.call, built.applies, key.drives_itself);
                cache.set_origin(CodeOrigin { base, prologue, call, applies, drives_itself, own_cells });
                // A generator's frames run in CPython.
                cache.directives.set_skip(key.entry == Entry::Yield);
                for what in [Forbidden::Break, Forbidden::Fallback] {
                    if self.cache.directives.forbids(what) {
                        cache.forbid(what);
                    }
                }
                if self.cache.sizes.lock().is_asked() {
                    cache.sizes.lock().leave_open(&[]);
                }
            }
            Ok(built.code)
        })
    }
}
