//! Second backward passes: through a backward pass, which gives second gradients, or once more through the same graph. Paddle's
//! programs have neither. To a second gradient the backward pass of one is a constant, and what flows through it is left out
//! without a word; once it has run, its memory is freed or another run's. A program is one node of the backward pass: two passes
//! through results that have nothing in common, and that eager mode keeps apart, are a second pass to it.
//!
//! A graph with gradients is therefore called operation by operation when it first runs, until a backward pass has come, and is a
//! program after that. Hooks tell which passes go through a run: graphs that two go through by then, or one that keeps the graph
//! for another, stay as they are. Where a program is gone through again, that is an error, and all graphs with gradients are
//! called operation by operation from then on.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use sot_core::cpython;
use sot_core::stats;

use super::collector::Stretch;

const ERROR: &str = "sot: a second backward pass goes through a program, which Paddle cannot do. From now on sot calls graphs \
    with gradients operation by operation instead: make the forward pass again and it works. To have it so from the start, make \
    the second pass (create_graph=True, retain_graph=True, or through another result of the same function) in the first training \
    step, or set MIN_GRAPH_SIZE=1000000. (Where a call is given what is neither a tensor nor a constant, the graph remains a \
    program: leave such functions untranslated.)";

/// What Paddle says where a second `backward` comes to a program, before any hook: in 3.3, and in 3.0.
const GONE_THROUGH: [&str; 2] =
    ["TensorWrappers of Dy2StGradNode do not exist", "TensorWrappers of GradNodeBase do not exist"];

/// Whether one was to go through a program: no graph with gradients becomes one from then on.
static EVERYWHERE: AtomicBool = AtomicBool::new(false);

/// A backward pass that is running.
#[derive(Clone, Copy)]
struct Pass {
    id: u64,
    /// Whether it keeps the graph for another one.
    keeps: bool,
    /// Whether it went through a program.
    through_program: bool,
    /// Whether it was stopped before one.
    stopped: bool,
}

impl Pass {
    /// One that began before passes were looked at.
    const UNKNOWN: Pass = Pass { id: 1, keeps: false, through_program: false, stopped: false };

    fn new(keeps: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(Pass::UNKNOWN.id + 1);
        Pass { id: NEXT.fetch_add(1, Ordering::Relaxed), keeps, ..Pass::UNKNOWN }
    }
}

/// A pass, and the stretch in which it makes executors without a collector.
struct Running {
    pass: Pass,
    stretch: Option<Stretch>,
}

thread_local! {
    /// Those of this thread, the innermost last: recomputed parts and Python's own gradients ask for others inside of one.
    static RUNNING: RefCell<Vec<Running>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(refuse_pass, module)?)
}

/// Whether no graph with gradients may become a program.
pub(super) fn are_everywhere() -> bool {
    EVERYWHERE.load(Ordering::Relaxed)
}

/// As before the first.
pub(crate) fn reset() {
    EVERYWHERE.store(false, Ordering::Relaxed);
}

/// From here on backward passes are looked at, whatever starts them.
pub(super) fn watch(py: Python<'_>) -> PyResult<()> {
    static WATCHED: PyOnceLock<()> = PyOnceLock::new();
    let watch = || {
        let eager = cpython::import(py, "paddle.base.core")?.getattr("eager")?;
        replace(&eager, "run_backward", run_backward)?;
        replace(&eager, "run_partial_grad", run_partial_grad)
    };
    WATCHED.get_or_try_init(py, watch).copied()
}

/// What is called in the place of a function: it is given that function and the arguments.
pub(super) type Instead = for<'py> fn(&Bound<'py, PyAny>, &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>>;

/// Puts `instead` in the place of a function.
pub(super) fn replace(module: &Bound<'_, PyAny>, name: &str, instead: Instead) -> PyResult<()> {
    let function = module.getattr(name)?.unbind();
    let watched = move |py: Python<'_>, args: &[Bound<'_, PyAny>]| instead(function.bind(py), args).map(Bound::unbind);
    module.setattr(name, cpython::fastcall(module.py(), name, "", watched)?)
}

/// All that `backward` comes to: tensors, weights, whether the graph is kept.
fn run_backward<'py>(function: &Bound<'py, PyAny>, args: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
    run(flag(args, 2)?, function, args).map(|(nothing, _)| nothing)
}

/// All that `paddle.grad` comes to: outputs, inputs, weights, whether the graph is kept, whether the gradients have one.
fn run_partial_grad<'py>(function: &Bound<'py, PyAny>, args: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
    let creates = flag(args, 4)?;
    let (gradients, pass) = run(creates || flag(args, 3)?, function, args)?;
    if pass.through_program && creates {
        let py = function.py();
        let _quiet = cpython::suspend(py);
        let module = cpython::import(py, "sot._second_passes")?;
        return module.call_method1("refuse_backward", (gradients, &args[0], &args[2]));
    }
    Ok(gradients)
}

fn flag(args: &[Bound<'_, PyAny>], at: usize) -> PyResult<bool> {
    args.get(at).map_or(Ok(false), PyAnyMethods::is_truthy)
}

/// Makes a backward pass, and says what became of it.
fn run<'py>(
    keeps: bool,
    function: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
) -> PyResult<(Bound<'py, PyAny>, Pass)> {
    let py = function.py();
    RUNNING.with_borrow_mut(|running| running.push(Running { pass: Pass::new(keeps), stretch: None }));
    let result = cpython::call_with_names(function, args, None);
    let mut pass = RUNNING.with_borrow_mut(Vec::pop).map_or(Pass::UNKNOWN, |running| running.pass);
    if let Err(error) = result.as_ref() {
        pass.stopped |= error.is_instance_of::<PyException>(py) && met_program(&error.value(py).to_string());
    }
    if (pass.stopped || (pass.through_program && keeps)) && !EVERYWHERE.swap(true, Ordering::Relaxed) {
        stats::forget();
    }
    match result {
        Ok(result) => Ok((result, pass)),
        Err(error) if pass.stopped => {
            let refusal = PyRuntimeError::new_err(ERROR);
            refusal.set_cause(py, Some(error));
            Err(refusal)
        }
        Err(error) => Err(error),
    }
}

fn met_program(error: &str) -> bool {
    GONE_THROUGH.iter().any(|text| error.contains(text))
}

/// Looks at the pass that is running in this thread.
fn with_running<T>(look: impl FnOnce(&mut Pass) -> T) -> T {
    RUNNING.with_borrow_mut(|running| match running.last_mut() {
        Some(running) => look(&mut running.pass),
        None => look(&mut { Pass::UNKNOWN }),
    })
}

/// The executor that the pass makes next is that of a program whose results are small, or are not.
fn make_executor(py: Python<'_>, small: bool) -> PyResult<()> {
    let stretch = if small { Stretch::new(py)? } else { None };
    // What goes lets the flag be what it was, in Python: not while the list is borrowed.
    let gone = RUNNING.with_borrow_mut(|running| match running.last_mut() {
        Some(running) => std::mem::replace(&mut running.stretch, stretch),
        None => stretch,
    });
    drop(gone);
    Ok(())
}

/// Stops the pass that is running.
#[pyfunction(name = "_refuse_pass")]
fn refuse_pass() -> PyResult<()> {
    with_running(|pass| pass.stopped = true);
    Err(PyRuntimeError::new_err(ERROR))
}

/// Lets only one backward pass go through a run of a program. Paddle calls a hook on any result of a node whichever it is that
/// a pass comes through. The first pass of a scope makes its executor: `makes` says whether that is to come, and `small` whether
/// what the program computes is (see [`super::collector`]).
pub(super) fn note_run(results: &Bound<'_, PyAny>, makes: &Arc<AtomicBool>, small: bool) -> PyResult<()> {
    let makes = makes.load(Ordering::Relaxed).then(|| Arc::clone(makes));
    for result in results.try_iter()? {
        let result = result?;
        if takes_hook(&result)? {
            let first = AtomicU64::new(0);
            return hook(&result, move |py| {
                let this = with_running(|pass| {
                    pass.through_program = true;
                    pass.id
                });
                match first.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed) {
                    Err(first) if first != this => refuse_pass(),
                    _ if makes.as_ref().is_some_and(|makes| makes.swap(false, Ordering::Relaxed)) => {
                        make_executor(py, small)
                    }
                    _ => Ok(()),
                }
            });
        }
    }
    Ok(())
}

/// The first runs of a graph, operation by operation: up to a backward pass, or to the third run if none comes.
#[derive(Default)]
pub(super) struct Trial {
    /// Of each run, the backward passes that have gone through it.
    runs: Mutex<Vec<Arc<Passes>>>,
}

#[derive(Default)]
struct Passes(Mutex<Vec<Pass>>);

impl Trial {
    /// Takes down what goes through the results of a run.
    pub(super) fn note(&self, results: &Bound<'_, PyAny>) -> PyResult<()> {
        let passes = Arc::new(Passes::default());
        locked(&self.runs).push(Arc::clone(&passes));
        for result in results.try_iter()? {
            let (result, passes) = (result?, Arc::clone(&passes));
            if takes_hook(&result)? {
                hook(&result, move |_| {
                    passes.add(with_running(|pass| *pass));
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Whether it can be told how to run from here on.
    pub(super) fn is_over(&self) -> bool {
        let runs = locked(&self.runs);
        runs.len() >= 3 || runs.iter().any(|passes| !locked(&passes.0).is_empty())
    }

    /// Whether second passes may go through one of the runs.
    pub(super) fn is_gone_through_again(&self) -> bool {
        let again = |passes: &[Pass]| passes.len() > 1 || passes.iter().any(|pass| pass.keeps);
        locked(&self.runs).iter().any(|passes| again(&locked(&passes.0)))
    }
}

impl Passes {
    fn add(&self, pass: Pass) {
        let mut passes = locked(&self.0);
        if passes.iter().all(|known| known.id != pass.id) {
            passes.push(pass);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a backward pass may come to it.
fn takes_hook(result: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is = |name| result.getattr(name)?.is_truthy();
    Ok(!is(intern!(result.py(), "stop_gradient"))? && !is(intern!(result.py(), "is_leaf"))?)
}

/// Calls `on_pass` whenever a backward pass comes to the result.
fn hook(
    result: &Bound<'_, PyAny>,
    on_pass: impl Fn(Python<'_>) -> PyResult<()> + Send + Sync + 'static,
) -> PyResult<()> {
    let py = result.py();
    let hook = cpython::fastcall(py, "hook", "", move |py, _| on_pass(py).map(|()| py.None()))?;
    result.call_method1(intern!(py, "_register_grad_hook"), (hook,)).map(drop)
}
