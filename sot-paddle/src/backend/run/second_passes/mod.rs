//! Second backward passes: through a backward pass, which gives second gradients, or once more through the same graph.
//! Paddle's programs have neither. To a second gradient the backward pass of one is a constant, and what flows through
//! it is left out without a word; once it has run, its memory is freed or another run's. A program is one node of the
//! backward pass: two passes through results that have nothing in common, and that eager mode keeps apart, are a second
//! pass to it.
//!
//! A graph with gradients is therefore called operation by operation when it first runs, until a backward pass has
//! come, and is a program after that. Hooks tell which passes go through a run: graphs that two go through by then, or
//! one that keeps the graph for another, stay as they are. Where a pass that keeps the graph goes through a program,
//! all graphs with gradients are called operation by operation from then on. For the next pass that program's scope is
//! filled again ([`PastRun`]), and the gradients that are to have some are made from its statements, called one by one
//! (`sot/_second_passes.py`). Where that is impossible, a second pass is an error.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use sot_core::cpython;
use sot_core::forgetting;

use crate::backend::run::collector::{Collector, Stretch};

mod histories;
mod late_hooks;
mod made;
mod partial_grad;
mod past_run;
mod random;
mod reach;
mod rehearsal;
mod results;
mod through;
mod trial;
mod unreached;

pub(crate) use histories::Histories;
pub(crate) use made::{key as made_key, Made};
use partial_grad::run_partial_grad;
pub(crate) use past_run::{Chances, PastRun, Tenancy};
pub(crate) use random::Random;
pub(crate) use reach::{Partial, ProgramInput, Reach};
pub(crate) use rehearsal::{rehearse_pass, rehearse_runs};
use results::ResultOf;
pub(crate) use through::through;
pub(crate) use trial::Trial;
use unreached::Partly;

const ERROR: &str = "sot: a second backward pass goes through a program, which cannot be gone through again: what it \
    was given has changed, it writes what it reads, or the pass before did not keep the graph (in a program of results that have no \
    operation in common). From now on sot calls graphs with gradients operation by operation instead: make the forward pass again and it works. To have it so from \
    the start, make the second pass (create_graph=True, retain_graph=True, or through another result of the same function) in \
    the first training step, or set MIN_GRAPH_SIZE=1000000. (Where a call is given what is neither a tensor nor a constant, \
    the graph remains a program: leave such functions untranslated.)";

const ERROR_BY_RESULT: &str = "sot: a gradient by a result of a program that has several, which Paddle cannot give, and which cannot be \
    done again: it writes what it reads, what it was given has changed, or \
    the result is a view of what the program was given. From now on sot calls graphs with gradients operation by operation instead: make the forward pass again and it works. To have it so from the \
    start, ask for it in the first training step, or set MIN_GRAPH_SIZE=1000000.";

const ERROR_HOOK: &str = "sot: a hook on a result of a program from which others are computed, or its gradient, which would see nothing of \
    what flows to those, and what the program did cannot be done again: it writes what it reads, what it was given has \
    changed, the result is a view of what the program was given, or the gradients are to have gradients and come to a tensor outside with a hook from several programs. From now on sot calls graphs with gradients operation by operation instead: make the forward pass again and it works. \
    To have it so from the start, register the hook in the first training step, or set MIN_GRAPH_SIZE=1000000.";

/// Whether a program has results that come from no differentiable operation in common.
static ARE_APART: AtomicBool = AtomicBool::new(false);

/// What Paddle says where a second `backward` comes to a program, before any hook: in 3.3, and in 3.0.
const GONE_THROUGH: [&str; 2] =
    ["TensorWrappers of Dy2StGradNode do not exist", "TensorWrappers of GradNodeBase do not exist"];

/// Whether one was to go through a program: no graph with gradients becomes one from then on.
static EVERYWHERE: AtomicBool = AtomicBool::new(false);

/// A backward pass that is running.
#[derive(Clone, Copy)]
struct Pass {
    id: u64,
    kind: PassKind,
    /// Whether it went through a program.
    through_program: bool,
    /// Whether another one went through a program before it.
    is_second: bool,
    /// The error that it was stopped with before one.
    stopped: Option<&'static str>,
    hooks: Hooks,
}

/// Whether a pass calls hooks. Where gradients are made several times, one pass of these does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hooks {
    Called,
    Muted,
    /// At least one was to be called.
    MutedSome,
}

/// What a pass does with what it goes through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PassKind {
    /// Lets go of it.
    Frees,
    /// Leaves it as it is, and does not say that it is for another pass.
    Leaves,
    /// Keeps it for another pass.
    Keeps,
    /// Keeps it; what comes to a program is taken down and goes no further.
    StopsAtPrograms,
}

impl PassKind {
    /// Whether another pass is to come.
    fn is_for_another(self) -> bool {
        matches!(self, PassKind::Keeps | PassKind::StopsAtPrograms)
    }

    /// Whether another pass may come.
    fn may_be_followed(self) -> bool {
        self != PassKind::Frees
    }
}

impl Pass {
    /// One that began before passes were looked at.
    const UNKNOWN: Pass = Pass {
        id: 1,
        kind: PassKind::Frees,
        through_program: false,
        is_second: false,
        stopped: None,
        hooks: Hooks::Called,
    };

    fn new(kind: PassKind) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(Pass::UNKNOWN.id + 1);
        Pass { id: NEXT.fetch_add(1, Ordering::Relaxed), kind, ..Pass::UNKNOWN }
    }

    /// One after which the gradients are made again if it meets a program.
    fn mute(kind: PassKind) -> Self {
        Pass { hooks: Hooks::Muted, ..Pass::new(kind) }
    }
}

/// A pass while it runs.
struct Running {
    pass: Pass,
    /// That in which it makes executors with the collector of the last program.
    stretch: Option<Stretch>,
    /// What programs have been given, as it was.
    given: Option<Py<PyDict>>,
    /// The runs of programs that it has gone through and keeps.
    kept: Vec<Arc<PastRun>>,
    /// What has come to programs and went no further.
    met: Vec<Met>,
    /// The programs that it has come to from some of their results.
    partly: Vec<Partly>,
}

impl Running {
    fn new(pass: Pass) -> Self {
        Running { pass, stretch: None, given: None, kept: Vec::new(), met: Vec::new(), partly: Vec::new() }
    }

    /// Whether there are hooks that it has not called, or that are on what it has not come to.
    fn has_hooks(&self, py: Python<'_>) -> bool {
        self.pass.hooks == Hooks::MutedSome || self.kept.iter().any(|run| run.late.get(py).is_some())
    }
}

/// The gradient that has come to a result of a program.
struct Met {
    run: Arc<PastRun>,
    result: usize,
    gradient: Py<PyAny>,
}

thread_local! {
    /// Those of this thread, the innermost last: recomputed parts and Python's own gradients ask for others inside of
    /// one.
    static RUNNING: RefCell<Vec<Running>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(refuse_pass, module)?)?;
    module.add_function(wrap_pyfunction!(hooks_of, module)?)?;
    module.add_function(wrap_pyfunction!(refuse_hook, module)?)?;
    module.add_function(wrap_pyfunction!(is_muted, module)?)?;
    module.add_function(wrap_pyfunction!(stops_at_programs, module)?)?;
    module.add_function(wrap_pyfunction!(pass_number, module)?)
}

/// Whether no graph with gradients may become a program.
pub(crate) fn are_everywhere() -> bool {
    EVERYWHERE.load(Ordering::Relaxed)
}

/// As before the first.
pub(crate) fn reset() {
    EVERYWHERE.store(false, Ordering::Relaxed);
    ARE_APART.store(false, Ordering::Relaxed);
}

/// From here on backward passes are looked at, whatever starts them.
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

/// What is called in the place of a function: it is given that function and the arguments.
pub(crate) type Instead = for<'py> fn(&Bound<'py, PyAny>, &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>>;

/// Puts `instead` in the place of a function.
pub(crate) fn replace(module: &Bound<'_, PyAny>, name: &str, instead: Instead) -> PyResult<()> {
    let function = module.getattr(name)?.unbind();
    let watched = move |py: Python<'_>, args: &[Bound<'_, PyAny>]| instead(function.bind(py), args).map(Bound::unbind);
    module.setattr(name, cpython::fastcall(module.py(), name, "", watched)?)
}

/// All that `backward` comes to: tensors, weights, whether the graph is kept.
fn run_backward<'py>(function: &Bound<'py, PyAny>, args: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
    let pass = Pass::new(if flag(args, 2)? { PassKind::Keeps } else { PassKind::Frees });
    let args = late_hooks::with_roots(function.py(), args, 1)?;
    let (nothing, passed) = run(pass, function, &args)?;
    let _signals = cpython::defer_signals(function.py());
    unreached::clear(function.py(), &passed.partly)?;
    Ok(nothing)
}

fn flag(args: &[Bound<'_, PyAny>], at: usize) -> PyResult<bool> {
    args.get(at).map_or(Ok(false), PyAnyMethods::is_truthy)
}

/// Makes a backward pass, and says what became of it.
fn run<'py>(
    pass: Pass,
    function: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
) -> PyResult<(Bound<'py, PyAny>, Running)> {
    let py = function.py();
    RUNNING.with_borrow_mut(|running| running.push(Running::new(pass)));
    let result = cpython::call_with_names(function, args, None);
    let mut running = RUNNING.with_borrow_mut(Vec::pop).unwrap_or_else(|| Running::new(Pass::UNKNOWN));
    let pass = &mut running.pass;
    if let Err(error) = result.as_ref() {
        if error.is_instance_of::<PyException>(py) && met_program(&error.value(py).to_string()) {
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
        (Err(error), None) => Err(error),
    }
}

fn refuse_program<T>(error: &'static str) -> PyResult<T> {
    give_up_programs();
    Err(PyRuntimeError::new_err(error))
}

/// From now on no graph with gradients becomes a program.
fn give_up_programs() {
    if !EVERYWHERE.swap(true, Ordering::Relaxed) {
        forgetting::everything();
    }
}

/// A program is made that eager mode would let two passes through, each of which lets go of the graph.
pub(crate) fn expect_apart() {
    ARE_APART.store(true, Ordering::Relaxed);
}

/// Whether it is an error that eager mode may not raise: it does where the results have an operation in common.
fn met_program(error: &str) -> bool {
    ARE_APART.load(Ordering::Relaxed) && GONE_THROUGH.iter().any(|text| error.contains(text))
}

/// Looks at the pass that is running in this thread.
fn with_running<T>(look: impl FnOnce(&mut Pass) -> T) -> T {
    RUNNING.with_borrow_mut(|running| match running.last_mut() {
        Some(running) => look(&mut running.pass),
        None => look(&mut { Pass::UNKNOWN }),
    })
}

/// Takes down the gradient that has come to a result of a program.
fn note_gradient(run: &Arc<PastRun>, result: usize, gradient: &Bound<'_, PyAny>) {
    RUNNING.with_borrow_mut(|running| {
        if let Some(running) = running.last_mut() {
            running.met.push(Met { run: Arc::clone(run), result, gradient: gradient.clone().unbind() });
        }
    });
}

/// The pass that is running keeps what it has gone through.
fn note_run(run: &Arc<PastRun>) {
    RUNNING.with_borrow_mut(|running| {
        if let Some(running) = running.last_mut() {
            running.kept.push(Arc::clone(run));
        }
    });
}

/// What the pass that is running keeps of what programs have been given.
fn kept(py: Python<'_>) -> Bound<'_, PyDict> {
    RUNNING.with_borrow_mut(|running| match running.last_mut() {
        Some(running) => running.given.get_or_insert_with(|| PyDict::new(py).unbind()).bind(py).clone(),
        None => PyDict::new(py),
    })
}

fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    cpython::import(py, "sot._second_passes")
}

/// The executor that the pass makes next has this collector.
fn make_executor(py: Python<'_>, collector: Collector) -> PyResult<()> {
    let _exceptions = cpython::hold_exceptions(py);
    let stretch = Stretch::new(py, collector)?;
    // What goes lets the flag be what it was, in Python: not while the list is borrowed.
    let gone = RUNNING.with_borrow_mut(|running| match running.last_mut() {
        Some(running) => std::mem::replace(&mut running.stretch, stretch),
        None => stretch,
    });
    drop(gone);
    Ok(())
}

/// A hook is to be on the tensor, or its gradient is to be kept. Gives what is to do it, with the index of the result,
/// if the tensor is one of a program of which some are computed from others.
#[pyfunction(name = "_late_hooks")]
fn hooks_of<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>, usize)>> {
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

/// The number of the pass that is running.
#[pyfunction(name = "_pass")]
fn pass_number() -> u64 {
    with_running(|pass| pass.id)
}

/// Whether the pass that is running is to call no hook.
#[pyfunction(name = "_is_muted")]
fn is_muted() -> bool {
    with_running(|pass| {
        if pass.hooks == Hooks::Muted {
            pass.hooks = Hooks::MutedSome;
        }
        pass.hooks != Hooks::Called
    })
}

/// Whether the pass that is running goes no further than to programs.
#[pyfunction(name = "_stops_at_programs")]
fn stops_at_programs() -> bool {
    with_running(|pass| pass.kind == PassKind::StopsAtPrograms)
}

/// Stops the pass that is running: what hooks are to see cannot be made.
#[pyfunction(name = "_refuse_hook")]
fn refuse_hook() -> PyResult<()> {
    stop_pass(ERROR_HOOK)
}

/// Stops the pass that is running.
#[pyfunction(name = "_refuse_pass")]
fn refuse_pass() -> PyResult<()> {
    stop_pass(ERROR)
}

fn stop_pass<T>(error: &'static str) -> PyResult<T> {
    with_running(|pass| pass.stopped = Some(error));
    Err(PyRuntimeError::new_err(error))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a backward pass may come to it.
fn takes_hook(result: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is = |name| result.getattr(name)?.is_truthy();
    Ok(!is(intern!(result.py(), "stop_gradient"))? && !is(intern!(result.py(), "is_leaf"))?)
}

/// Calls `on_pass` with the gradient whenever a backward pass comes to the tensor; what it gives takes the gradient's
/// place.
fn hook<'py>(
    tensor: &Bound<'py, PyAny>,
    on_pass: impl Fn(&Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> + Send + Sync + 'static,
) -> PyResult<Hook<'py>> {
    let py = tensor.py();
    // Paddle calls it in the middle of its own work: no handler of a signal raises there.
    let hook = cpython::fastcall(py, "hook", "", move |py, gradient| {
        let _signals = cpython::defer_signals(py);
        Ok(on_pass(&gradient[0])?.unwrap_or_else(|| py.None()))
    })?;
    let id = tensor.call_method1(intern!(py, "_register_grad_hook"), (hook,))?;
    Ok(Hook { tensor: tensor.clone(), id })
}

/// A hook on a tensor, by Paddle's number.
struct Hook<'py> {
    tensor: Bound<'py, PyAny>,
    id: Bound<'py, PyAny>,
}

impl Hook<'_> {
    fn remove(self) -> PyResult<()> {
        self.tensor.call_method1("_remove_grad_hook", (self.id,)).map(drop)
    }
}
