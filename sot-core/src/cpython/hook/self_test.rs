//! Compares the struct layouts this library was built with to what Python reports, with the help of hooked functions.
//! It runs before the hook is used, because a wrong layout would corrupt memory.

use parking_lot::Mutex;
use pyo3::ffi::c_str;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyFunction, PyTuple};

use crate::cpython::function_closure;
use crate::cpython::function_code;
use crate::cpython::function_globals;
use crate::cpython::hook::chain::chain_agrees;
use crate::cpython::hook::code_state::{agrees_with_api, remove_code_state, set_code_state};
use crate::cpython::hook::frames::{free_count, free_name};
use crate::cpython::hook::fresh_frame::FreshFrame;
use crate::cpython::hook::session::{open, HookError};
use crate::cpython::hook::signals;
use crate::cpython::hook::signature::flatten_signature;
use crate::cpython::hook::thread_exceptions;
use crate::cpython::hook::tracing::{is_profiled, is_traced};
use crate::cpython::hook::{counts, FrameEvaluator, Mode, Verdict};
use crate::cpython::import;
use crate::cpython::layout::Code;
use crate::cpython::objects::callable::{call_giving, fastcall};
use crate::cpython::objects::lookup;
use crate::cpython::objects::lru;
use crate::cpython::objects::sequence_iterator;
use crate::cpython::objects::set_table;
use crate::cpython::snapshot::look_for_blind_spots;
use crate::version::PyVersion;

/// Why the hook must not be used in this interpreter.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The library was built for another minor version of CPython.
    #[error("built for CPython {built}, but this is CPython {running}")]
    Version {
        /// Version it was built for.
        built: PyVersion,
        /// Version that is running.
        running: PyVersion,
    },
    /// A struct has another layout.
    #[error("CPython {}: {field} is not where it is expected", PyVersion::BUILT_FOR)]
    Field {
        /// The field, or the fact it determines.
        field: &'static str,
    },
    /// The slot cannot be used.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// Python raised.
    #[error("the self test of the frame hook raised {0}")]
    Python(#[from] PyErr),
}

/// Checks the version and the layouts; see [`LayoutError`].
pub fn self_test(py: Python<'_>) -> Result<(), LayoutError> {
    let running = PyVersion(py.version_info().minor);
    if running != PyVersion::BUILT_FOR {
        return Err(LayoutError::Version { built: PyVersion::BUILT_FOR, running });
    }
    let probes = Probes::make(py)?;
    check_code(&function_code(&probes.original))?;
    check_code_state(&function_code(&probes.original))?;
    check_frame(py, &probes)?;
    check_replacement(py, &probes)?;
    check_chain(py)?;
    let traced = !import(py, "sys")?.call_method0("gettrace")?.is_none();
    expect(is_traced(py) == traced, "PyThreadState.c_tracefunc")?;
    for problem in [
        signals::layout_problem(py)?,
        thread_exceptions::layout_problem(py),
        lookup::layout_problem(py)?,
        lru::layout_problem(py)?,
        sequence_iterator::layout_problem(py)?,
        set_table::layout_problem(py)?,
    ] {
        problem.map_or(Ok(()), |field| Err(LayoutError::Field { field }))?;
    }
    // If there are blind spots, guards run in full each time.
    Ok(look_for_blind_spots(py)?)
}

/// A function with every kind of argument, a free variable, and arguments that are cells; and a similar function that
/// computes another result in a larger frame.
const SOURCE: &std::ffi::CStr = c_str!(
    r"
def make(free):
    def original(a, b=2, *args, c, d=4, **kw):
        def inner():
            return a, c, free
        return 'original', inner(), b, d, args, kw
    def replacement(a, b=2, *args, c, d=4, **kw):
        def inner():
            return a, c, free
        x = y = z = [a, b, [c, [d, [args, [kw, (a, b, c, d, a, b, c, d)]]]]]
        return 'replacement', inner(), b, d, args, kw
    return original, replacement
original, replacement = make('free')
"
);

struct Probes<'py> {
    original: Bound<'py, PyFunction>,
    replacement: Bound<'py, PyFunction>,
}

impl<'py> Probes<'py> {
    fn make(py: Python<'py>) -> PyResult<Self> {
        let namespace = PyDict::new(py);
        py.run(SOURCE, Some(&namespace), None)?;
        let get = |name| -> PyResult<_> { Ok(namespace.as_any().get_item(name)?.cast_into::<PyFunction>()?) };
        Ok(Probes { original: get("original")?, replacement: get("replacement")? })
    }

    /// Calls `original` with fixed arguments. Returns whether the result is the expected one with this tag.
    fn call(&self, py: Python<'py>, tag: &str) -> PyResult<bool> {
        let kwargs = PyDict::new(py);
        kwargs.set_item("c", "c")?;
        kwargs.set_item("extra", "extra")?;
        let got = self.original.call(("a", "b", "star"), Some(&kwargs))?;
        let extra = PyDict::new(py);
        extra.set_item("extra", "extra")?;
        got.eq((tag, ("a", "c", "free"), "b", 4, ("star",), extra))
    }
}

fn expect(holds: bool, field: &'static str) -> Result<(), LayoutError> {
    if holds {
        Ok(())
    } else {
        Err(LayoutError::Field { field })
    }
}

/// Compares fields of code objects with their attributes.
fn check_code(code: &Bound<'_, PyCode>) -> Result<(), LayoutError> {
    let number = |name: &str| -> PyResult<i32> { code.getattr(name)?.extract() };
    // SAFETY: a code object; should the layout differ, plain fields of it are still inside the object.
    let raw = unsafe { &*code.as_ptr().cast::<Code>() };
    expect(raw.argcount == number("co_argcount")?, "PyCodeObject.co_argcount")?;
    expect(raw.kwonlyargcount == number("co_kwonlyargcount")?, "PyCodeObject.co_kwonlyargcount")?;
    expect(raw.flags == number("co_flags")?, "PyCodeObject.co_flags")?;
    expect(raw.nlocals == number("co_nlocals")?, "PyCodeObject.co_nlocals")?;
    expect(raw.stacksize == number("co_stacksize")?, "PyCodeObject.co_stacksize")?;
    let frees = code.getattr("co_freevars")?;
    // SAFETY: the fields read so far were right.
    expect(unsafe { free_count(code.as_ptr().cast()) } == frees.len()?, "PyCodeObject.co_freevars")?;
    // SAFETY: there is at least one, and names are borrowed from the code.
    let name = unsafe { Bound::from_borrowed_ptr(code.py(), free_name(code.as_ptr().cast(), 0)) };
    expect(name.eq(frees.get_item(0)?)?, "PyCodeObject's names of free variables")?;
    check_frame_size(code)
}

#[cfg(Py_3_11)]
fn check_frame_size(code: &Bound<'_, PyCode>) -> Result<(), LayoutError> {
    const SPECIALS: usize = 9;
    let raw = code.as_ptr().cast::<Code>();
    let length = |name: &str| -> PyResult<usize> { code.getattr(name)?.len() };
    // Arguments that are cells are counted in both lists.
    let names: usize = length("co_varnames")? + length("co_cellvars")? + length("co_freevars")? - 2;
    // SAFETY: a code object whose plain fields were right.
    unsafe {
        expect((*raw).nlocalsplus as usize == names, "PyCodeObject.co_nlocalsplus")?;
        let size = names + (*raw).stacksize as usize + SPECIALS;
        expect(crate::cpython::layout::frame_size(raw) == size, "PyCodeObject.co_framesize")
    }
}

#[cfg(not(Py_3_11))]
#[allow(clippy::unnecessary_wraps, reason = "there is something to check from 3.11 on")]
fn check_frame_size(_code: &Bound<'_, PyCode>) -> Result<(), LayoutError> {
    Ok(())
}

fn check_code_state(code: &Bound<'_, PyCode>) -> Result<(), LayoutError> {
    expect(agrees_with_api(code)?, "PyCodeObject.co_extra (empty)")?;
    drop(set_code_state(code, ())?);
    expect(agrees_with_api(code)?, "PyCodeObject.co_extra")?;
    remove_code_state(code)?;
    expect(agrees_with_api(code)?, "PyCodeObject.co_extra (removed)")
}

/// Makes the hook look at one frame.
fn check_frame(py: Python<'_>, probes: &Probes<'_>) -> Result<(), LayoutError> {
    let expected = Expected::of(&probes.original)?;
    PROBE.set(Task::Look { expected, found: None });
    let answered = {
        let _open = open(py, Mode::Probing)?;
        probes.call(py, "original")
    };
    let Task::Look { found, .. } = PROBE.take() else { return expect(false, "the evaluation slot") };
    expect(found.is_some(), "the evaluation slot, or a fresh frame's state")?;
    found.unwrap_or(Ok(()))?;
    expect(answered?, "what a hooked function returns")
}

/// Makes the hook replace one frame.
fn check_replacement(py: Python<'_>, probes: &Probes<'_>) -> Result<(), LayoutError> {
    let code = flatten_signature(&function_code(&probes.replacement))?;
    let original = function_code(&probes.original).unbind();
    PROBE.set(Task::Replace { original, code: code.into_any().unbind() });
    let before = counts().replaced();
    let answered = {
        let _open = open(py, Mode::Probing)?;
        probes.call(py, "replacement")
    };
    PROBE.take();
    expect(answered?, "what a replaced function returns")?;
    expect(counts().replaced() == before + 1, "a replaced frame")
}

/// Functions of which the innermost runs in place of its caller.
const CALLS: &std::ffi::CStr = c_str!(
    r"
import sys
def caller(call):
    return waiting(call)
def waiting(call):
    return call(), sys._getframe().f_code.co_name
def resumed():
    return sys._getframe(1).f_code.co_name
"
);

/// Compares the chain of frames, and then changes it.
fn check_chain(py: Python<'_>) -> Result<(), LayoutError> {
    let namespace = PyDict::new(py);
    py.run(CALLS, Some(&namespace), None)?;
    let get = |name| namespace.as_any().get_item(name);
    let look = fastcall(py, "look", "Looks at the chain.", |py, _| {
        Ok(chain_agrees(py)?.into_pyobject(py)?.to_owned().into_any().unbind())
    })?;
    let (agrees, _): (bool, String) = get("caller")?.call1((look,))?.extract()?;
    expect(agrees, "the chain of frames")?;
    let resumed = get("resumed")?.unbind();
    let call = fastcall(py, "call", "Calls in the place of its caller.", move |py, _| {
        Ok(call_giving(resumed.bind(py), Vec::new())?.unbind())
    })?;
    let (above, behind): (String, String) = get("caller")?.call1((call,))?.extract()?;
    expect(is_profiled(py) || above == "caller", "the caller of a frame")?;
    expect(behind == "waiting", "the running frame")
}

/// Expected properties of the probe's frame.
struct Expected {
    code: Py<PyCode>,
    function: Py<PyFunction>,
    globals: Py<PyDict>,
    builtins: Py<PyAny>,
    closure: Option<Py<PyTuple>>,
}

impl Expected {
    fn of(function: &Bound<'_, PyFunction>) -> PyResult<Self> {
        let globals = function_globals(function);
        let builtins = globals.as_any().get_item("__builtins__")?;
        Ok(Expected {
            code: function_code(function).unbind(),
            function: function.clone().unbind(),
            builtins: builtins.unbind(),
            closure: function_closure(function).map(Bound::unbind),
            globals: globals.unbind(),
        })
    }

    fn check(&self, frame: &FreshFrame<'_, '_>) -> Result<(), LayoutError> {
        let py = frame.py();
        expect(frame.globals().is(&self.globals), "the frame's globals")?;
        expect(frame.builtins().is(&self.builtins), "the frame's builtins")?;
        expect(frame.arg_count() == 6, "the number of arguments")?;
        let extra = PyDict::new(py);
        extra.set_item("extra", "extra")?;
        let shown = PyTuple::new(py, (0..6).map(|i| frame.arg(i)))?;
        expect(shown.eq(("a", "b", "c", 4, ("star",), extra))?, "the frame's arguments")?;
        let cell = self.closure.as_ref().map(|closure| closure.bind(py).get_item(0)).transpose()?;
        let same_cell = frame.closure(0).zip(cell).is_some_and(|(found, cell)| found.is(&cell));
        expect(same_cell, "the frame's free variables")?;
        if let Some(function) = frame.function() {
            expect(function.is(&self.function), "the frame's function")?;
        }
        frame.stack_problem().map_or(Ok(()), |field| Err(LayoutError::Field { field }))
    }
}

enum Task {
    None,
    Look { expected: Expected, found: Option<Result<(), LayoutError>> },
    Replace { original: Py<PyCode>, code: Py<PyAny> },
}

/// The evaluator of the self test.
pub(in crate::cpython) struct ProbeEvaluator(Mutex<Task>);

/// The evaluator of the self test.
pub(in crate::cpython) static PROBE: ProbeEvaluator = ProbeEvaluator(Mutex::new(Task::None));

impl ProbeEvaluator {
    fn set(&self, task: Task) {
        *self.0.lock() = task;
    }

    fn take(&self) -> Task {
        std::mem::replace(&mut *self.0.lock(), Task::None)
    }
}

impl FrameEvaluator for ProbeEvaluator {
    fn evaluate(&self, frame: &FreshFrame<'_, '_>) -> Verdict {
        // Taken out meanwhile: comparisons run Python code, and the lock must not be held then.
        let mut task = self.take();
        let verdict = task.on(frame);
        self.set(task);
        verdict
    }
}

impl Task {
    fn on(&mut self, frame: &FreshFrame<'_, '_>) -> Verdict {
        match self {
            Task::Look { expected, found } if frame.code().is(&expected.code) => {
                *found = Some(expected.check(frame));
            }
            Task::Replace { original, code } if frame.code().is(&*original) => {
                return Verdict::Replace { code: code.clone_ref(frame.py()), disable_eval_frame: false };
            }
            _ => {}
        }
        Verdict::Original { disable_eval_frame: false }
    }
}
