//! Watches every backward pass of the process from the first graph with gradients on. A pass that reaches a program
//! which cannot serve it raises an error that says what to do. At most one such error is raised, because no program
//! with gradients is made after it.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use sot_core::{cpython, forgetting};

use super::partial_grad::run_partial_grad;
use super::pass::{with_running, Hooks, Pass, PassKind, RunningPass, RUNNING};
use super::results::{self, ResultOf};
use super::{gradient_flags, late_hooks, made, replace, unreached};

/// True once a pass needed to go through a program again: from then on no graph with gradients becomes a program.
static PROGRAMS_DISABLED: AtomicBool = AtomicBool::new(false);

/// Builds the error messages below, which end alike.
macro_rules! error {
    ($what:literal, $first:literal) => {
        concat!(
            "sot: ",
            $what,
            ". From now on sot calls graphs with gradients operation by operation instead: make the forward pass again \
             and it works. To have it so from the start, ",
            $first,
            " in the first training step, or set MIN_GRAPH_SIZE=1000000."
        )
    };
}

const ERROR: &str = error!(
    "a second backward pass goes through a program, which cannot be gone through again: what it was given has changed, \
     it writes what it reads, or the pass before did not keep the graph (in a program of results that have no operation \
     in common; where a call is given what is neither a tensor nor a constant, leave the function untranslated)",
    "make the second pass (create_graph=True, retain_graph=True, or through another result of the same function)"
);

pub(super) const ERROR_BY_RESULT: &str = error!(
    "a gradient by a result of a program that has several, which Paddle cannot give, and which cannot be done again: it \
     writes what it reads, what it was given has changed, or the result is a view of what the program was given",
    "ask for it"
);

const ERROR_HOOK: &str = error!(
    "a hook on a result of a program from which others are computed, or its gradient, would see nothing of what flows \
     to those, and what the program did cannot be done again: it writes what it reads, what it was given has changed, \
     the result is a view of what the program was given, or the gradients are to have gradients and come to a tensor \
     outside with a hook from several programs",
    "register the hook"
);

/// True if a program was made whose results have no differentiable operation in common.
static HAS_INDEPENDENT_PASSES: AtomicBool = AtomicBool::new(false);

/// Paddle's error messages when a second `backward` reaches a program, before any hook: in 3.3, and in 3.0.
const GONE_THROUGH: [&str; 2] =
    ["TensorWrappers of Dy2StGradNode do not exist", "TensorWrappers of GradNodeBase do not exist"];

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(refuse_pass, module)?)?;
    module.add_function(wrap_pyfunction!(hooks_of, module)?)?;
    module.add_function(wrap_pyfunction!(refuse_hook, module)?)?;
    module.add_function(wrap_pyfunction!(is_muted, module)?)?;
    module.add_function(wrap_pyfunction!(stops_at_programs, module)?)?;
    module.add_function(wrap_pyfunction!(pass_number, module)?)
}

/// True if no graph with gradients may become a program.
pub(crate) fn programs_are_disabled() -> bool {
    PROGRAMS_DISABLED.load(Ordering::Relaxed)
}

/// Resets the flags to their state at start.
pub(crate) fn reset() {
    PROGRAMS_DISABLED.store(false, Ordering::Relaxed);
    HAS_INDEPENDENT_PASSES.store(false, Ordering::Relaxed);
}

/// Watches all backward passes from now on, whatever starts them.
pub(crate) fn watch(py: Python<'_>) -> PyResult<()> {
    static WATCHED: PyOnceLock<()> = PyOnceLock::new();
    let watch = || {
        let eager = cpython::import(py, "paddle.base.core")?.getattr("eager")?;
        cpython::import(py, "sot._late_hooks")?.call_method0("watch")?;
        replace(&eager, "run_backward", run_backward)?;
        replace(&eager, "run_partial_grad", run_partial_grad)
    };
    WATCHED.get_or_try_init(py, watch).copied()
}

/// Replaces the function behind `backward`. `args`: tensors, weights, whether the graph is kept.
pub(super) fn run_backward<'py>(
    function: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
) -> PyResult<Bound<'py, PyAny>> {
    let pass = Pass::new(if flag(args, 2)? { PassKind::Keeps } else { PassKind::Frees });
    let args = late_hooks::add_hooked_roots(function.py(), args, 1)?;
    let (nothing, passed) = run(pass, function, &args)?;
    let _signals = cpython::defer_signals(function.py());
    gradient_flags::switch_off(function.py(), &passed.leaves)?;
    unreached::clear(function.py(), &passed)?;
    Ok(nothing)
}

pub(super) fn flag(args: &[Bound<'_, PyAny>], at: usize) -> PyResult<bool> {
    args.get(at).map_or(Ok(false), PyAnyMethods::is_truthy)
}

/// Runs a backward pass. Returns its result and what it has reached.
pub(super) fn run<'py>(
    pass: Pass,
    function: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
) -> PyResult<(Bound<'py, PyAny>, RunningPass)> {
    let py = function.py();
    RUNNING.with_borrow_mut(|running| running.push(RunningPass::new(pass)));
    let result = cpython::call_with_names(function, args, None);
    let mut running = RUNNING.with_borrow_mut(Vec::pop).unwrap_or_else(|| RunningPass::new(Pass::UNKNOWN));
    if result.is_err() {
        running.trials.iter().for_each(|passes| passes.refuse_program());
        // The gradients that the pass has left before it failed stay.
        gradient_flags::switch_off(py, &running.leaves)?;
    }
    let pass = &mut running.pass;
    if let Err(error) = result.as_ref() {
        if error.is_instance_of::<PyException>(py) && is_error_of_independent_pass(&error.value(py).to_string()) {
            pass.stopped = Some(ERROR);
        }
    }
    let is_for_another = pass.through_program && pass.kind.is_for_another();
    if pass.stopped.is_some() || pass.is_second || is_for_another {
        give_up_programs();
    }
    match (result, pass.stopped) {
        (Ok(result), _) => Ok((result, running)),
        (Err(error), Some(text)) => {
            let refusal = PyRuntimeError::new_err(text);
            refusal.set_cause(py, Some(error));
            Err(refusal)
        }
        (Err(error), None) => Err(running.refusal.map_or(error, PyRuntimeError::new_err)),
    }
}

pub(super) fn refuse_program<T>(error: &'static str) -> PyResult<T> {
    give_up_programs();
    Err(PyRuntimeError::new_err(error))
}

/// From now on no graph with gradients becomes a program. Forgets all translations.
pub(super) fn give_up_programs() {
    if !PROGRAMS_DISABLED.swap(true, Ordering::Relaxed) {
        forgetting::everything();
    }
}

/// Notes that a program is made through which eager mode allows two passes that each release the graph.
pub(crate) fn expect_independent_passes() {
    HAS_INDEPENDENT_PASSES.store(true, Ordering::Relaxed);
}

/// True if the error comes from a program where eager mode might not raise: it raises only if the results have an
/// operation in common.
pub(super) fn is_error_of_independent_pass(error: &str) -> bool {
    HAS_INDEPENDENT_PASSES.load(Ordering::Relaxed) && GONE_THROUGH.iter().any(|text| error.contains(text))
}

/// Called when a hook is registered on a tensor, or its gradient is to be retained. If the tensor is a result of a
/// program with late hooks, returns the object that collects the hooks, and the index of the result.
#[pyfunction(name = "_late_hooks")]
pub(super) fn hooks_of<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>, usize)>> {
    match results::origin(tensor) {
        Some(ResultOf::Trial(passes, true)) => passes.upgrade().into_iter().for_each(|passes| passes.refuse_program()),
        Some(ResultOf::Program(run, at)) => {
            if let Some(run) = run.upgrade() {
                return Ok(run.late_hooks(tensor.py())?.map(|hooks| (hooks, at)));
            }
        }
        Some(ResultOf::Only(run)) => {
            if let Some(run) = run.upgrade() {
                return Ok(run.late_hooks(tensor.py())?.map(|hooks| (hooks, 0)));
            }
        }
        Some(ResultOf::Made(run, at)) => {
            if let Some(run) = run.upgrade() {
                return Ok(run.late_hooks(tensor.py())?.map(|hooks| (hooks, made::key(at))));
            }
        }
        Some(ResultOf::MadeOfInput) => return refuse_program(ERROR_HOOK),
        _ => {}
    }
    Ok(None)
}

/// The id of the running pass.
#[pyfunction(name = "_pass")]
pub(super) fn pass_number() -> u64 {
    with_running(|pass| pass.id)
}

/// True if the running pass must not call hooks. Notes that a hook has been left out.
#[pyfunction(name = "_is_muted")]
pub(super) fn is_muted() -> bool {
    with_running(|pass| {
        if pass.hooks == Hooks::Muted {
            pass.hooks = Hooks::MutedSome;
        }
        pass.hooks != Hooks::Called
    })
}

/// True if the running pass stops at programs.
#[pyfunction(name = "_stops_at_programs")]
pub(super) fn stops_at_programs() -> bool {
    with_running(|pass| pass.kind == PassKind::StopsAtPrograms)
}

/// Stops the running pass: the gradient that hooks should see cannot be computed.
#[pyfunction(name = "_refuse_hook")]
pub(super) fn refuse_hook() -> PyResult<()> {
    stop_pass(ERROR_HOOK)
}

/// Stops the running pass with the error about second passes.
#[pyfunction(name = "_refuse_pass")]
pub(super) fn refuse_pass() -> PyResult<()> {
    stop_pass(ERROR)
}

pub(super) fn stop_pass<T>(error: &'static str) -> PyResult<T> {
    with_running(|pass| pass.stopped = Some(error));
    Err(PyRuntimeError::new_err(error))
}
