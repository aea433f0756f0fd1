//! Marks of a code object, beside its translations: whether the user asked for it, which code it was made from, and
//! whether it is left to CPython.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::sync::OnceCell;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyFunction, PyString, PyType};

use super::CodeCache;
use crate::bytecode::{BytecodeError, Code, CodeUnit, Label};
use crate::cpython::{self, StateRef, WeakRef};
use crate::error::Forbidden;

use crate::tracker::Key;
use crate::value_path::ValuePath;

/// Returns the cache on a code object. The first call makes it and looks the file up in the skip list; `None` if the
/// code object has no place for it.
pub fn cache_of<'py>(code: &Bound<'py, PyCode>) -> Option<StateRef<'py, CodeCache>> {
    if let Some(cache) = cpython::code_state::<CodeCache>(code) {
        return Some(cache);
    }
    let cache = CodeCache::default();
    cache.directives.set_skip(is_skipped_file(code));
    cpython::set_code_state(code, cache).ok()
}

/// Returns a code object with its decoded code, which its cache keeps.
pub fn unit_of(object: &Bound<'_, PyAny>) -> Result<Rc<CodeUnit>, BytecodeError> {
    let Some(cache) = object.cast::<PyCode>().ok().and_then(cache_of) else { return CodeUnit::new(object) };
    Ok(CodeUnit::of_decoded(object, cache.decoded(object)?))
}

/// Like [`unit_of`], for code that has to be readable: an error is a bug of the tracer.
pub(crate) fn readable_unit_of(object: &Bound<'_, PyAny>) -> PyResult<Rc<CodeUnit>> {
    unit_of(object).map_err(|error| PyRuntimeError::new_err(format!("bytecode cannot be read: {error}")))
}

/// True if the code is that of a resume function.
pub fn is_resume_function(code: &Bound<'_, PyCode>) -> bool {
    cpython::code_state::<CodeCache>(code).is_some_and(|cache| cache.origin().is_some())
}

/// Number of instructions in front of the original ones; `None` if the code is not that of a resume function.
pub fn prologue_of(code: &Bound<'_, PyCode>) -> Option<u32> {
    cpython::code_state::<CodeCache>(code)?.origin().map(|origin| origin.prologue)
}

/// Number of the free variables that are the function's own cells; `None` if the code is not that of a resume
/// function.
pub fn own_cells_of(code: &Bound<'_, PyCode>) -> Option<usize> {
    cpython::code_state::<CodeCache>(code)?.origin().map(|origin| origin.own_cells)
}

/// Maps a place in the code of a function or resume function to the place in the original code.
pub fn in_original<'py>(code: &Bound<'py, PyCode>, at: Label) -> Option<(Bound<'py, PyCode>, Label)> {
    let cache = cache_of(code)?;
    let Some(origin) = cache.origin() else { return Some((code.clone(), at)) };
    let base = origin.base.bind(code.py()).upgrade()?.cast_into::<PyCode>().ok()?;
    Some((base, Label(at.0.checked_sub(origin.prologue)?)))
}

/// True if breaks or fallbacks of the code are an error.
pub fn forbids(code: &Bound<'_, PyAny>, what: Forbidden) -> bool {
    let cache = code.cast::<PyCode>().ok().and_then(cpython::code_state::<CodeCache>);
    cache.is_some_and(|cache| cache.directives.forbids(what))
}

/// Marks `copy` so that the breaks or fallbacks that are errors for `code` are errors for it, too.
pub fn copy_marks(code: &Bound<'_, PyCode>, copy: &Bound<'_, PyCode>) {
    for what in [Forbidden::Break, Forbidden::Fallback] {
        if let Some(cache) = cache_of(copy).filter(|_| forbids(code.as_any(), what)) {
            cache.forbid(what);
        }
    }
}

/// Returns a copy of the code whose frames are never translated. It takes all arguments by position, as new code
/// does.
pub fn untranslated<'py>(code: &Bound<'py, PyCode>) -> PyResult<Bound<'py, PyCode>> {
    let refuse = |error: &BytecodeError| {
        pyo3::exceptions::PyRuntimeError::new_err(format!("a frame cannot run in CPython: {error}"))
    };
    let make = || {
        let mut decoded = Code::decode(code.as_any()).map_err(|error| refuse(&error))?;
        decoded.take_all_by_position();
        let copy = decoded.encode(code.as_any()).map_err(|error| refuse(&error))?.cast_into::<PyCode>()?;
        if let Some(cache) = cache_of(&copy) {
            cache.directives.set_skip(true);
        }
        Ok(copy.unbind())
    };
    match cache_of(code) {
        Some(cache) => Ok(cache.untranslated(make)?.bind(code.py()).clone()),
        None => Ok(make()?.into_bound(code.py())),
    }
}

/// True if the user asked for the translation of the code.
pub fn is_asked_for(code: &Bound<'_, PyCode>) -> bool {
    cpython::code_state::<CodeCache>(code).is_some_and(|cache| cache.directives.is_root())
}

/// A request for the translation of a code object, which lasts as long as this value lives.
pub struct Request {
    code: WeakRef,
    options: RequestOptions,
}

/// How a code object is to be translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestOptions {
    /// One graph: breaks and fallbacks are errors.
    pub whole: bool,
    /// True: sizes and numbers are left open from the first translation on. False: never. `None`: the environment
    /// decides.
    pub dynamic: Option<bool>,
}

/// True if any request ever had other than the default options.
static ANY_OPTIONS: AtomicBool = AtomicBool::new(false);

impl Request {
    /// Requests the translation of `code`; `None` if the code object has no place for a cache.
    pub fn new(code: &Bound<'_, PyCode>, options: RequestOptions) -> PyResult<Option<Request>> {
        let Some(cache) = cache_of(code) else { return Ok(None) };
        let request = Request { code: WeakRef::new(code.as_any(), None)?, options };
        cache.request();
        ANY_OPTIONS.fetch_or(options != RequestOptions::default(), Ordering::Relaxed);
        request.renew(code.py());
        Ok(Some(request))
    }

    /// Applies the options of this request again before a call, because another request may have changed them.
    pub fn renew(&self, py: Python<'_>) {
        if !ANY_OPTIONS.load(Ordering::Relaxed) {
            return;
        }
        let code = self.code.get(py).and_then(|code| code.cast_into::<PyCode>().ok());
        if let Some(cache) = code.as_ref().and_then(cache_of) {
            cache.directives.set_whole(self.options.whole);
            cache.sizes.lock().dynamic = self.options.dynamic;
        }
    }

    fn withdraw(&self, py: Python<'_>) {
        let code = self.code.get(py).and_then(|code| code.cast_into::<PyCode>().ok());
        let Some(code) = code else { return };
        if let Some(cache) = cpython::code_state::<CodeCache>(&code).filter(|cache| cache.directives.withdraw()) {
            cache.directives.set_skip(cache.directives.is_disabled() || is_skipped_file(&code));
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // Attaching fails only while the interpreter shuts down, when nothing is translated any more.
        Python::try_attach(|py| self.withdraw(py));
    }
}

/// Leaves a size open in translations of `code`: that of dimension `axis` of the tensor that is found in an argument
/// by these keys.
pub fn leave_size_open(code: &Bound<'_, PyCode>, argument: &str, keys: &[Key], axis: usize) {
    let Some(cache) = cache_of(code) else { return };
    let tensor = keys.iter().fold(ValuePath::argument(argument), |container, key| container.then(key.step()));
    cache.sizes.lock().leave_open(&[tensor.size(axis)]);
}

/// Leaves the frames of a function to CPython even where they are requested: alone (`Some(false)`) or with all
/// functions that it calls (`Some(true)`). `None` undoes that.
pub fn disable(code: &Bound<'_, PyCode>, disabled: Option<bool>) {
    if let Some(cache) = cache_of(code) {
        cache.directives.set_disabled(disabled);
        cache.directives.set_skip(disabled.is_some() || !cache.directives.is_root() && is_skipped_file(code));
    }
}

/// Leaves the frames of a function to CPython unless the user asked for their translation, or undoes that.
pub fn leave_alone(code: &Bound<'_, PyCode>, alone: bool) {
    if let Some(cache) = cache_of(code).filter(|cache| !cache.directives.is_root() && !cache.directives.is_disabled()) {
        cache.directives.set_skip(alone || is_skipped_file(code));
    }
}

/// Leaves the `__init__` of a class to CPython with all functions that it calls, unless the user asked for its
/// translation.
pub fn leave_making_alone(class: &Bound<'_, PyType>) {
    let init = cpython::type_lookup(class, &PyString::intern(class.py(), "__init__"));
    let code = init.and_then(|init| init.cast_into::<PyFunction>().ok()).map(|init| cpython::function_code(&init));
    if let Some(code) = code {
        if let Some(cache) = cache_of(&code).filter(|cache| !cache.directives.is_root()) {
            cache.directives.set_skip_below();
        }
    }
}

/// True for a file whose frames are left alone unless the user asks for them.
type Skips = Box<dyn Fn(&str) -> bool + Send + Sync>;

static SKIPPED: OnceCell<Skips> = OnceCell::new();

/// Sets the skip list of files; only the first call has an effect.
pub fn set_skipped_files(skips: Skips) {
    SKIPPED.set(skips).ok();
}

fn is_skipped_file(code: &Bound<'_, PyCode>) -> bool {
    SKIPPED.get().is_some_and(|skips| skips(&file_of(code)))
}

/// Returns the file of the code.
pub(crate) fn file_of(code: &Bound<'_, PyCode>) -> String {
    code.getattr("co_filename").and_then(|file| file.extract()).unwrap_or_default()
}
