//! The resume functions of one code object, and the origin of a resume function's code.

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyWeakrefReference};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::bytecode::Label;
use crate::error::Flow;
use crate::resume_point::{Finish, ResumeKey};

/// The codes of the resume functions made of one code object.
#[derive(Default)]
pub struct ResumeCodes(Mutex<FxHashMap<ResumeKey, Py<PyAny>>>);

impl ResumeCodes {
    /// Returns the code of the resume function for a key; `make` makes it at the first call.
    pub fn get_or_make(
        &self,
        py: Python<'_>,
        key: &ResumeKey,
        make: impl FnOnce() -> Flow<Py<PyAny>>,
    ) -> Flow<Py<PyAny>> {
        if let Some(code) = self.0.lock().get(key) {
            return Ok(code.clone_ref(py));
        }
        let code = make()?;
        self.0.lock().insert(key.clone(), code.clone_ref(py));
        Ok(code)
    }

    /// Returns the key of a resume function's code.
    pub fn key_of(&self, code: &Bound<'_, PyCode>) -> Option<ResumeKey> {
        let codes = self.0.lock();
        codes.iter().find(|(_, known)| known.is(code)).map(|(key, _)| key.clone())
    }

    /// Returns the codes of all resume functions made so far.
    pub fn all(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        self.0.lock().values().map(|code| code.clone_ref(py)).collect()
    }

    /// Number of places, at or behind an instruction, where resume functions begin.
    pub fn places_behind(&self, at: Label) -> usize {
        let codes = self.0.lock();
        codes.keys().map(|key| key.at).filter(|place| *place >= at).collect::<FxHashSet<_>>().len()
    }
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
