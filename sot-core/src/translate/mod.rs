//! From a frame to its translation: the evaluator behind the frame hook. A hit costs the guards. A miss simulates the
//! frame, compiles its graph, writes new code and caches it. After any failure CPython runs the frame.

mod attempt;
mod blind_plugins;
mod called_first;
mod collect;
mod left_loop;
mod left_round;
mod raised;
mod report;
mod settle;
mod stance;
mod turn;
mod verify;
mod whole_program;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict};

use crate::cache::{file_of, CacheEntry, CodeCache, Gain};
use crate::cpython::{self, FrameEvaluator, FreshFrame, Verdict};
use crate::env;
use crate::error::{Extent, Reason, ReasonId, Unwind};
use crate::fault;
use crate::forgetting;
use crate::guard::{FrameView, GuardProgram};
use crate::log::{self, Channel};
use crate::machine::runtime::Runtime;
use crate::registered::{self, RegistrationFailure};
use crate::report::FailedGuard;
use crate::stance::Stance;
use crate::stats;

use attempt::{translate_to_the_end, Translation};
use left_round::leave_round;
use raised::raised_in_place;
use report::{count_fallback, failed_guards, is_ours, place_of, tell_left, LeftPart};
use settle::Account;

pub use crate::cache::{
    cache_of, copy_marks, forbids, in_original, is_asked_for, is_resume_function, leave_alone, leave_making_alone,
    leave_size_open, own_cells_of, prologue_of, untranslated, Request, RequestOptions,
};
pub use crate::resume::ResumeSource;
pub use turn::{compile_later, here};
pub use verify::{call_uncounted, call_verified, count_call, set_verifier};
pub use whole_program::translate_what_meets_tensors;

/// True if a bug of the tracer raises an error instead of leaving the frame to CPython.
fn is_strict() -> bool {
    env::is_on("STRICT_MODE").unwrap_or(false)
}

static ALWAYS: AtomicBool = AtomicBool::new(false);

/// Sets whether frames without tensor work get new code, too. Only tests need that: the new code shows how the tracer
/// handles plain Python.
pub fn always_compile(always: bool) {
    ALWAYS.store(always, Ordering::Relaxed);
}

fn always_compiles() -> bool {
    ALWAYS.load(Ordering::Relaxed)
}

/// The evaluator of the frame hook.
pub struct Translator;

impl FrameEvaluator for Translator {
    fn evaluate(&self, frame: &FreshFrame<'_, '_>) -> Verdict {
        let original = Verdict::Original { disable_eval_frame: false };
        let Some(runtime) = Runtime::get() else { return original };
        let code = frame.code();
        let Some(cache) = cache_of(&code) else { return original };
        if Stance::now() == Stance::Eager {
            return original;
        }
        if cache.directives.is_skipped() {
            return Verdict::Original { disable_eval_frame: cache.directives.skips_below() };
        }
        if cpython::is_traced(frame.py()) {
            let reason =
                Reason::new(ReasonId::Traced, "a trace function is set, which must see the program's own lines");
            return left(&code, Reason { extent: Extent::FrameAndCallees, ..reason });
        }
        if let Some(verdict) = verify::verdict(runtime, &cache, frame) {
            return raised_in_place(&cache, frame, verdict);
        }
        cache.refresh(forgetting::generation());
        if let Some(entry) = cache.find(frame) {
            stats::hit();
            cache.note_hit(frame.py(), &entry);
            return verdict(frame.py(), &entry);
        }
        let verdict = match registered::take_failure() {
            Some(RegistrationFailure::Ended(error)) => Verdict::Raise(error),
            Some(RegistrationFailure::Failed(text)) => left_by_registration(&code, text),
            None => miss(runtime, &cache, frame),
        };
        // The miss has asked the guards again, to tell why they fail.
        let verdict = match registered::take_failure() {
            Some(RegistrationFailure::Ended(error)) => Verdict::Raise(error),
            _ => verdict,
        };
        raised_in_place(&cache, frame, verdict)
    }

    fn panicked(&self, frame: &FreshFrame<'_, '_>, text: &str) -> Verdict {
        stats::update(|stats| stats.panics += 1);
        let code = frame.code();
        match cache_of(&code) {
            Some(cache) => {
                let place = fault::panicked_at().map(|place| format!(" at {place}")).unwrap_or_default();
                log::ask_loggers(frame.py());
                let verdict = internal(&cache, &code, PyRuntimeError::new_err(format!("panic: {text}{place}")));
                log::flush(frame.py());
                verdict
            }
            None => Verdict::Original { disable_eval_frame: false },
        }
    }
}

fn verdict(py: Python<'_>, entry: &CacheEntry) -> Verdict {
    match entry.code() {
        Some(code) => Verdict::Replace { code: code.clone_ref(py), disable_eval_frame: entry.disable_eval_frame },
        None => Verdict::Original { disable_eval_frame: entry.disable_eval_frame },
    }
}

fn miss(runtime: &'static Runtime, cache: &CodeCache, frame: &FreshFrame<'_, '_>) -> Verdict {
    let py = frame.py();
    let code = frame.code();
    if whole_program::leaves_to_cpython(runtime, cache, frame) {
        return Verdict::Original { disable_eval_frame: false };
    }
    let _errno = cpython::KeptErrno::new();
    stats::update(|stats| stats.misses += 1);
    if log::enabled(log::GRAPHS) {
        log::write(log::GRAPHS, &format!("[Cache]: Cache miss: {}", place_of(&code)));
        cache
            .entries
            .failed(frame)
            .iter()
            .for_each(|failed| log::write(log::GRAPHS, &format!("  does not hold: {failed}")));
    }
    collect::count_unmet_guards(cache, frame);
    let account = Account::of(cache, &code, || left_round::limits(py, cache, frame));
    if account.is_settled(runtime, frame) {
        return account.left(&code, || cache.entries.failed(frame));
    }
    if cache.entries.is_full(py) {
        return left(&code, Reason::new(ReasonId::TooManyEntries, "the cache is full"));
    }
    if lacks_builtins(&frame.globals()) || cpython::current_globals(py).is_some_and(|globals| lacks_builtins(&globals))
    {
        return left(&code, Reason::new(ReasonId::UnsupportedFrame, "global variables without __builtins__"));
    }
    if !cpython::has_stack_to_begin() {
        return left(
            &code,
            Reason::new(ReasonId::StackNearlyUsedUp, "not enough C stack is left to begin a simulation"),
        );
    }
    if cpython::has_debugger(py).unwrap_or(false) {
        let reason = Reason::new(ReasonId::Traced, "a debugger is active, which must see the program's own lines");
        return left(&code, Reason { extent: Extent::FrameAndCallees, ..reason });
    }
    if turn::is_here() {
        return Verdict::Original { disable_eval_frame: false };
    }
    if !cache.directives.is_root() && registered::skips_frame(&frame.globals()) {
        return skip(cache, frame);
    }
    if let Some(verdict) = stance::verdict(runtime, cache, frame) {
        return verdict;
    }
    log::ask_loggers(py);
    let verdict = translate_in_turn(runtime, cache, frame, &account);
    log::flush(py);
    verdict
}

/// Translates the frame, once no other thread translates.
fn translate_in_turn(
    runtime: &'static Runtime,
    cache: &CodeCache,
    frame: &FreshFrame<'_, '_>,
    account: &Account<'_>,
) -> Verdict {
    let py = frame.py();
    let code = frame.code();
    let _one_at_a_time = turn::wait(py);
    let (_signals, _exceptions) = (cpython::defer_signals(py), cpython::hold_exceptions(py));
    if let Some(entry) = cache.find(frame) {
        return verdict(py, &entry);
    }
    if !cache.entries.is_empty() {
        log::send(Channel::Recompiles, || recompile_text(cache, frame));
    }
    match leave_round(py, cache, frame) {
        Ok(Some(entry)) => {
            let entry = Arc::new(entry);
            cache.insert(&code, Arc::clone(&entry));
            return verdict(py, &entry);
        }
        Err(Unwind::Internal(error)) => return internal(cache, &code, *error),
        // Where the rest cannot be left to CPython, it is translated again.
        Ok(None) | Err(_) => {}
    }
    let unmet = collect::unmet_guards(cache, frame);
    // Faults noted before concern other translations.
    fault::take();
    let translation = match translate_to_the_end(py, runtime, cache, frame, account.policy(runtime, frame)) {
        Ok(translation) => translation,
        // An exception that is no `Exception`, such as one that another thread raised to end this one, is not a bug
        // of the tracer.
        Err(error) if !error.is_instance_of::<PyException>(py) => return Verdict::Raise(error),
        Err(error) => return internal(cache, &code, error),
    };
    if let Some(reason) = translation.refused {
        tell_left(LeftPart::Frame, &Reason { stack: vec![place_of(&code)], ..reason }, Vec::new(), "");
        let entry = Arc::new(translation.entry);
        cache.insert(&code, Arc::clone(&entry));
        return verdict(py, &entry);
    }
    keep(runtime, cache, frame, account, translation, unmet)
}

/// Keeps a translation for later calls, unless only this call led to it, and returns what becomes of the frame.
fn keep(
    runtime: &'static Runtime,
    cache: &CodeCache,
    frame: &FreshFrame<'_, '_>,
    account: &Account<'_>,
    translation: Translation,
    unmet: Vec<FailedGuard>,
) -> Verdict {
    let py = frame.py();
    let code = frame.code();
    let id = collect::keep(translation.collected, unmet);
    if let Some(reason) = translation.reason.as_ref().filter(|reason| reason.forbidden_by.is_some()) {
        if is_ours(reason) {
            let _quiet = cpython::suspend(py);
            return Verdict::Raise(reason.error(py));
        }
    }
    if let Some(reason) = translation.reason.as_ref().filter(|reason| reason.id.is_of_this_call()) {
        match reason.id {
            ReasonId::SignalWaits => cache.usage.give_way(),
            ReasonId::CacheNotFilled => cache.usage.note_filling(),
            _ => {}
        }
        return Verdict::Original { disable_eval_frame: false };
    }
    account.note_translation(frame, &translation.followed);
    if translation.met_tensors {
        cache.usage.note_tensors();
    }
    let ends_in_call = translation.reason.as_ref().is_some_and(|reason| reason.stack.len() > 1);
    if ends_in_call {
        cache.usage.note_end_in_call();
    }
    if translation.entry.code().is_none() && !translation.met_tensors {
        let found_nothing = translation.reason.as_ref().is_some_and(|reason| reason.id == ReasonId::NothingToCompile);
        if !found_nothing && runtime.is_library(&file_of(&code)) {
            cache.directives.set_skip(true);
        } else {
            cache.found_nothing();
        }
    }
    let is_model = |object: &Bound<'_, PyAny>| runtime.backend().models().may_hold_tensors(object);
    let has_tensors = translation.met_tensors || ends_in_call || always_compiles();
    let gain = if has_tensors { Gain::Graphs } else { Gain::InResumeFunctions };
    let entry = translation.entry.of_translation(id).of_models_in(frame, &is_model).with_gain(gain);
    let entry = Arc::new(entry);
    collect::attach(id, &entry, frame);
    cache.entries.drop_replaced(&entry, frame, &|object| runtime.may_hold_tensors(object));
    cache.insert(&code, Arc::clone(&entry));
    verdict(py, &entry)
}

/// Returns the log line that says why a function is translated again.
fn recompile_text(cache: &CodeCache, frame: &FreshFrame<'_, '_>) -> String {
    let place = place_of(&frame.code());
    let why = failed_guards(cache, frame);
    format!("[Recompile]: {} ({}:{}) is translated again{why}", place.function, place.file, place.line)
}

/// Leaves the frames of a code object to CPython for as long as their module is registered as skipped.
fn skip(cache: &CodeCache, frame: &FreshFrame<'_, '_>) -> Verdict {
    let py = frame.py();
    let met = [frame.globals().as_ptr() as usize];
    let entry = Arc::new(CacheEntry::new(GuardProgram::always(), None, false, false).having_met(met));
    cache.insert(&frame.code(), Arc::clone(&entry));
    verdict(py, &entry)
}

/// True if code with these global variables cannot import, nor can C code that it calls.
fn lacks_builtins(globals: &Bound<'_, PyDict>) -> bool {
    cpython::dict_lacks(globals, pyo3::intern!(globals.py(), "__builtins__"))
}

/// Leaves one frame to CPython. The next frame of the same code is decided anew.
fn left(code: &Bound<'_, PyCode>, reason: Reason) -> Verdict {
    let disable_eval_frame = reason.extent == Extent::FrameAndCallees;
    count_fallback(&Reason { stack: vec![place_of(code)], ..reason });
    Verdict::Original { disable_eval_frame }
}

/// Leaves a frame to CPython because registered code has raised while its guards were tested.
fn left_by_registration(code: &Bound<'_, PyCode>, text: String) -> Verdict {
    stats::update(|stats| stats.misses += 1);
    left(code, Reason::new(ReasonId::RegistrationRaised, text))
}

/// Counts and logs a bug of the tracer or of a plug-in, whose registration is named, and leaves the code to CPython.
/// Raises the error instead in strict mode, which tests use.
fn internal(cache: &CodeCache, code: &Bound<'_, PyCode>, error: PyErr) -> Verdict {
    let at_fault = fault::take();
    let text = at_fault.map_or_else(|| error.to_string(), |registration| format!("{error}, in the {registration}"));
    if is_strict() {
        return Verdict::Raise(raised_for(code.py(), error, at_fault.map(|_| text)));
    }
    let reason = Reason { stack: vec![place_of(code)], ..Reason::new(ReasonId::InternalError, text) };
    tell_left(LeftPart::Frame, &reason, Vec::new(), "");
    cache.directives.set_skip(true);
    Verdict::Original { disable_eval_frame: false }
}

/// Returns the error, or an error with `text` that is caused by it.
fn raised_for(py: Python<'_>, error: PyErr, text: Option<String>) -> PyErr {
    let Some(text) = text else { return error };
    let said = PyRuntimeError::new_err(text);
    said.set_cause(py, Some(error));
    said
}

impl<'py> FrameView<'py> for FreshFrame<'_, 'py> {
    fn py(&self) -> Python<'py> {
        FreshFrame::py(self)
    }

    fn argument(&self, slot: usize) -> Option<Bound<'py, PyAny>> {
        self.arg(slot)
    }

    fn free_cell(&self, index: usize) -> Option<Bound<'py, PyAny>> {
        self.closure(index)
    }

    fn globals(&self) -> Bound<'py, PyAny> {
        FreshFrame::globals(self).to_owned().into_any()
    }

    fn builtins(&self) -> Bound<'py, PyAny> {
        FreshFrame::builtins(self).to_owned()
    }
}
