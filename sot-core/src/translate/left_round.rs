//! Loops behind a break in which each iteration ("round") would need a translation of its own, for example because a
//! tensor's shape grows. After some translations CPython runs the rest of an iteration, and a resume function begins
//! with the next iteration.

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCode, PyTuple};

use crate::bytecode::Code;
use crate::cache::{self, CodeCache};
use crate::codegen::NewCode;
use crate::cpython::FreshFrame;
use crate::error::{Flow, Location, Reason, ReasonId};
use crate::guard::GuardProgram;
use crate::machine::executor::CodeUnit;
use crate::policy;
use crate::resume::{self, Entry, ResumeKey, ResumeTarget, Stop};

use super::called_first::{any_called, CalledFirst};
use super::report::{tell_left, LeftPart};
use crate::cache::{cache_of, untranslated};
use crate::resume::ResumeSource;

/// Names of the code objects of comprehensions.
const COMPREHENSIONS: &[&str] = &["<listcomp>", "<setcomp>", "<dictcomp>"];

/// Returns an entry for all iterations of the loop that the resume function is in, once the loop has enough
/// translations.
pub(super) fn leave_round(
    py: Python<'_>,
    cache: &CodeCache,
    frame: &FreshFrame<'_, '_>,
) -> Flow<Option<cache::CacheEntry>> {
    let Some(origin) = cache.origin() else {
        begin_anew(py, cache);
        return Ok(None);
    };
    if origin.drives_itself {
        return Ok(None);
    }
    let unit = cache::readable_unit_of(frame.code().as_any())?;
    let source = ResumeSource::of(py, &unit)?;
    let code = &source.unit.code;
    let Some(key) = source.key(py) else { return Ok(None) };
    let heads = resume::enclosing_loop_heads(py, code, &key);
    let calls_loop = calls_loop(py, frame, &unit, &key)?;
    // The loop of a called function is identified by the place of the call.
    let Some(&head) = heads.first().or(calls_loop.then_some(&key.at)) else { return Ok(None) };
    let (made, of_place) = (source.cache().profile.lock().made(head), cache.usage.translations());
    if !policy::leaves_iteration(made, of_place) {
        let again = of_place > 0;
        source.cache().profile.lock().count_translation(head, again, matches!(key.entry, Entry::Return(..)));
        return Ok(None);
    }
    // The loop of a called function runs on inside the call.
    let ends = if calls_loop { Vec::from_iter(resume::behind_call(&key)) } else { resume::ends(py, code, &key) };
    let (left, text) = match original_code_to(py, &source, &key, ends)? {
        Some(left) => {
            for head in heads {
                source.cache().profile.lock().note_different(head);
            }
            (Some(left.code), "the rest of a loop iteration, because the iterations differ too much")
        }
        // No resume function can begin at the end of the iteration.
        None if policy::leaves_rest(of_place) => {
            (None, "the rest of the function, because the iterations of a loop differ too much")
        }
        None => return Ok(None),
    };
    let line = code.instructions[key.at.index()].position.line.unwrap_or(code.first_line);
    let place = Location::line(code.filename.clone(), code.qualname.clone(), line);
    let reason = Reason { stack: vec![place], ..Reason::new(ReasonId::TooManyEntries, text) };
    tell_left(LeftPart::Rest, &reason, Vec::new(), "");
    Ok(Some(cache::CacheEntry::leaving_round(GuardProgram::always(), left)))
}

/// Returns code for a resume function that runs the original code up to the stops with these keys, and hands over
/// there. `None` if there are no stops.
pub(super) fn original_code_to(
    py: Python<'_>,
    source: &ResumeSource<'_>,
    key: &ResumeKey,
    stops: Vec<ResumeKey>,
) -> Flow<Option<NewCode>> {
    let code = &source.unit.code;
    let line = code.instructions[key.at.index()].position;
    let cells = code.cellvars.len() + code.freevars.len();
    let mut resumes = Vec::new();
    let stop = |key: ResumeKey| {
        let code = source.resume_code(py, &key, line)?;
        resumes.push(code.as_ptr() as usize);
        let code = code.bind(py).cast::<PyCode>().map_err(PyErr::from)?;
        Flow::Ok(Stop { key, target: ResumeTarget::new(code, cells)? })
    };
    let stops = stops.into_iter().map(stop).collect::<Flow<Vec<_>>>()?;
    if stops.is_empty() {
        return Ok(None);
    }
    let built = resume::build(py, &source.unit, key, line, &stops)?;
    let code = leave_comprehensions(built.code.bind(py).cast().map_err(PyErr::from)?)?;
    Ok(Some(NewCode { code: code.into_any().unbind(), graphs: Vec::new(), resumes }))
}

/// True if the number of translations of a resume function is limited by the loop that it is in, instead of by its
/// account.
pub(super) fn limits(py: Python<'_>, cache: &CodeCache, frame: &FreshFrame<'_, '_>) -> bool {
    let find = || {
        let unit = cache::readable_unit_of(frame.code().as_any())?;
        let source = ResumeSource::of(py, &unit)?;
        let Some(key) = source.key(py) else { return Ok(false) };
        Flow::Ok(
            !resume::enclosing_loop_heads(py, &source.unit.code, &key).is_empty()
                || calls_loop(py, frame, &unit, &key)?,
        )
    };
    cache.origin().is_some() && find().unwrap_or(false)
}

/// True if the code is that of a comprehension.
pub(super) fn is_comprehension(code: &Code) -> bool {
    COMPREHENSIONS.contains(&&*code.name)
}

/// Returns the code with its comprehensions left to CPython, too, in versions where they are functions of their own.
/// Functions that they call are still translated.
fn leave_comprehensions<'py>(code: &Bound<'py, PyCode>) -> PyResult<Bound<'py, PyCode>> {
    let consts: Vec<Bound<'py, PyAny>> = code.getattr("co_consts")?.extract()?;
    let leave = |constant: &Bound<'py, PyAny>| match constant.cast::<PyCode>() {
        Ok(inner) if COMPREHENSIONS.contains(&inner.getattr("co_name")?.extract::<String>()?.as_str()) => {
            untranslated(&leave_comprehensions(inner)?).map(Bound::into_any)
        }
        _ => Ok(constant.clone()),
    };
    let left = consts.iter().map(leave).collect::<PyResult<Vec<_>>>()?;
    if left.iter().zip(&consts).all(|(left, constant)| left.is(constant)) {
        return Ok(code.clone());
    }
    let changes = [("co_consts", PyTuple::new(code.py(), left)?)].into_py_dict(code.py())?;
    Ok(code.call_method("replace", (), Some(&changes))?.cast_into()?)
}

/// True if a resume function begins with a call of a resume function that resumes inside a loop.
fn calls_loop(py: Python<'_>, frame: &FreshFrame<'_, '_>, unit: &CodeUnit, key: &ResumeKey) -> Flow<bool> {
    let is_in_loop =
        |called: &CalledFirst<'_>| !resume::enclosing_loop_heads(py, &called.source.unit.code, &called.key).is_empty();
    any_called(py, frame, unit, key, is_in_loop)
}

/// Drops the entries that leave iterations to CPython, because the function itself is translated again. It is called
/// with other values then, so its loops may be worth as many translations again.
fn begin_anew(py: Python<'_>, cache: &CodeCache) {
    cache.take_rounds_back();
    for code in cache.resumes.all(py) {
        if let Some(cache) = code.bind(py).cast::<PyCode>().ok().and_then(cache_of) {
            cache.take_rounds_back();
        }
    }
}
