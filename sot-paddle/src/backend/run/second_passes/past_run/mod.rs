//! Runs of programs, and the data that backward passes through them need. The first pass finds its data in the scope. A
//! pass that keeps the graph also keeps the scope, its contents ([`scope`]), and copies of the program's arguments. For
//! the next pass the contents are put back into the scope, if that gives the same result. If the scope cannot be kept,
//! the program runs again ([`repeat`]).

mod repeat;
mod scope;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use sot_core::cpython::{self, WeakRef};

use super::copies;
use super::gradient_flags::{is_on, leaves_to_switch_off};
use super::late_hooks::LateHooks;
use super::made::MadeOutput;
use super::pass::{make_executor, note_gradient, note_leaves, note_run, with_running, Pass, PassKind};
use super::results::{self, ResultOf};
use super::saved_inputs::{OverwrittenInputs, SavedVersions};
use super::tenancy::ScopeTenancy;
use super::watch::refuse_pass;
use super::{hook, module, takes_hook, Hook};
use crate::backend::run::collector::Collector;
use crate::backend::run::executors;
use crate::backend::run::{Graph, Inputs};

/// A run of a program with gradients.
pub(crate) struct PastRun {
    /// Numbers increase: a later run has a greater number.
    pub(super) number: u64,
    tenancy: Arc<ScopeTenancy>,
    /// [`executors::generation`] of the run.
    generation: u64,
    collector: Collector,
    /// True if some inputs or parameters matter to some of its results only.
    is_partial: bool,
    /// The id of the last pass that has gone through the run; 0 if none has.
    pass: AtomicU64,
    /// During the first pass: inputs and parameters that were written to since the run.
    overwritten: OverwrittenInputs,
    /// The former contents of the run's scope, if Paddle has emptied the scope before the first pass
    /// (`sot._second_passes.SavedAll`, or Python's `None` if the contents could not be held).
    emptied: Mutex<Option<Py<PyAny>>>,
    /// What is needed to repeat the run, until a pass releases it. The lock is never held over a call into Python.
    given: Mutex<Option<GivenValues>>,
    /// The results of the program that has filled the scope again. Paddle empties the scope when they are dropped.
    filled: Mutex<Option<Py<PyAny>>>,
    /// The results of the run's statements, one dict for each time that the statements were called. Second gradients
    /// reach these tensors instead of the results.
    called: Mutex<Vec<Py<PyDict>>>,
    pub(super) late: LateHooks,
    /// Outputs that were made from its results, if gradients flow through one of them.
    pub(super) made: OnceLock<Vec<MadeOutput>>,
}

struct GivenValues {
    graph: Arc<Graph>,
    inputs: Py<PyTuple>,
    /// The inputs for its statements, if these differ from those of the program.
    for_statements: Option<Py<PyTuple>>,
    parameters: Py<PyTuple>,
    scope: Py<PyList>,
    /// The state of the random numbers before the run, if it draws some.
    random_state: Option<Py<PyAny>>,
    versions: SavedVersions,
    /// `sot._second_passes.Kept` of all inputs and parameters, by identity: copies of their state when a pass first
    /// kept them.
    kept: Option<Py<PyDict>>,
    /// `sot._second_passes.Saved`: the contents of the scope that the first pass found.
    saved: Option<Py<PyAny>>,
    /// What [`PastRun::hold`] has found, until the first pass.
    held: Option<Py<PyAny>>,
    _alive: Alive,
}

impl GivenValues {
    /// The inputs and the parameters.
    fn tensors(&self, py: Python<'_>) -> (Py<PyTuple>, Py<PyTuple>) {
        (self.inputs.clone_ref(py), self.parameters.clone_ref(py))
    }
}

/// Number of runs that no pass has released.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// True if there are runs that no pass has released.
pub(super) fn are_alive() -> bool {
    ALIVE.load(Ordering::Relaxed) > 0
}

/// Counts one run in [`ALIVE`] while it lives.
struct Alive;

impl Alive {
    fn new() -> Self {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Alive
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for PastRun {
    fn drop(&mut self) {
        self.ends_waiting();
    }
}

impl PastRun {
    /// Records a run that has just ended.
    pub(crate) fn new(
        graph: &Arc<Graph>,
        (inputs, parameters): (&Inputs<'_>, &Bound<'_, PyTuple>),
        tenancy: Arc<ScopeTenancy>,
        random_state: Option<Py<PyAny>>,
        collector: Collector,
    ) -> PyResult<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        tenancy.run.store(number, Ordering::Relaxed);
        tenancy.awaits_pass.store(true, Ordering::Relaxed);
        let given = GivenValues {
            graph: Arc::clone(graph),
            inputs: inputs.for_program.clone().unbind(),
            for_statements: inputs.for_statements.as_ref().map(|inputs| inputs.clone().unbind()),
            parameters: parameters.clone().unbind(),
            scope: tenancy.scopes.clone_ref(inputs.for_program.py()),
            random_state,
            versions: SavedVersions::now(graph.paddle(), graph.saved(), &inputs.for_program, parameters)?,
            kept: None,
            saved: None,
            held: None,
            _alive: Alive::new(),
        };
        Ok(PastRun {
            number,
            tenancy,
            generation: executors::generation(),
            collector,
            is_partial: !graph.flow.partial.is_empty(),
            pass: AtomicU64::new(0),
            overwritten: OverwrittenInputs::default(),
            emptied: Mutex::default(),
            given: Mutex::new(Some(given)),
            filled: Mutex::default(),
            called: Mutex::default(),
            late: LateHooks::default(),
            made: OnceLock::new(),
        })
    }

    /// Watches the passes that reach the results. Before a node runs, Paddle calls the hooks on all of its results,
    /// whichever of them a pass comes through. Results that no pass reaches are detached from the node, which they
    /// would keep alive, and become leaves, as in eager mode.
    pub(crate) fn watch(self, results: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        let run = Arc::new(self);
        copies::note(&run);
        let is_only = results.len()? == 1;
        let mut found = Vec::new();
        for (at, result) in results.try_iter()?.enumerate() {
            let result = result?;
            if takes_hook(&result)? {
                let weak = Arc::downgrade(&run);
                let of = if is_only { ResultOf::Only(weak) } else { ResultOf::Program(weak, at) };
                found.push((WeakRef::new(&result, None)?, of));
                let run = Arc::clone(&run);
                hook(&result, move |gradient| run.enter(at, gradient))?;
            } else if is_on(&result)? {
                result.call_method0(intern!(result.py(), "detach_"))?;
            }
        }
        results::note_found(results.py(), found);
        Ok(run)
    }

    /// Called when a pass reaches a result with this gradient. Returns the gradient that goes on instead, if any.
    fn enter(self: &Arc<Self>, at: usize, gradient: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let py = gradient.py();
        let pass = with_running(|pass| {
            pass.through_program |= pass.ends_at != Some(self.number);
            *pass
        });
        if pass.ends_at == Some(self.number) {
            return Ok(None);
        }
        let last = self.pass.swap(pass.id, Ordering::Relaxed);
        if pass.id != Pass::UNKNOWN.id {
            self.ends_waiting();
        }
        if last == 0 {
            let held = self.given.lock().as_mut().and_then(|given| given.held.take());
            drop(held);
            self.note_overwritten(py)?;
        } else if last != pass.id {
            self.overwritten.set(Vec::new());
        }
        self.overwritten.refuse(at, gradient)?;
        if last != pass.id {
            self.note_leaves(py)?;
            self.look_at_partial(py)?;
            self.begin(py, last == 0, pass)?;
        }
        if self.is_partial {
            self.note_reached(at, gradient)?;
        }
        self.late.record_gradient(pass, at, gradient)?;
        if pass.kind != PassKind::StopsAtPrograms {
            return Ok(None);
        }
        note_gradient(self, at, gradient);
        let _quiet = cpython::suspend(py);
        module(py)?.call_method1("zeros_like", (gradient,)).map(|zeros| Some(zeros.unbind()))
    }

    fn ends_waiting(&self) {
        if self.tenancy.run.load(Ordering::Relaxed) == self.number {
            self.tenancy.awaits_pass.store(false, Ordering::Relaxed);
        }
    }

    /// Records the leaves without a gradient that the run was given with the running pass.
    fn note_leaves(&self, py: Python<'_>) -> PyResult<()> {
        let given = self.given.lock().as_ref().map(|given| given.tensors(py));
        if let Some((inputs, parameters)) = given {
            note_leaves(leaves_to_switch_off(inputs.bind(py))?);
            note_leaves(leaves_to_switch_off(parameters.bind(py))?);
        }
        Ok(())
    }

    /// Records the inputs and parameters that only some results depend on with the running pass.
    fn look_at_partial(&self, py: Python<'_>) -> PyResult<()> {
        let given = self
            .given
            .lock()
            .as_ref()
            .filter(|_| self.is_partial)
            .map(|given| (Arc::clone(&given.graph), given.inputs.clone_ref(py), given.parameters.clone_ref(py)));
        match given {
            Some((graph, inputs, parameters)) => {
                self.note_partial(&graph.flow.partial, inputs.bind(py), parameters.bind(py))
            }
            None => Ok(()),
        }
    }

    /// Notes that the graph has written to these inputs, after the run.
    pub(crate) fn note_own_writes(&self, written: &[&Bound<'_, PyAny>], py: Python<'_>) -> PyResult<()> {
        match self.given.lock().as_mut() {
            Some(GivenValues { graph, inputs, parameters, versions, .. }) => {
                let given = (inputs.bind(py), parameters.bind(py));
                versions.renew(graph.paddle(), graph.saved(), given, written)
            }
            None => Ok(()),
        }
    }

    /// Records the inputs and parameters that were written to since the run.
    fn note_overwritten(&self, py: Python<'_>) -> PyResult<()> {
        let overwritten = match self.given.lock().as_ref() {
            Some(GivenValues { graph, inputs, parameters, versions, .. }) => {
                versions.overwritten(graph.paddle(), graph.saved(), inputs.bind(py), parameters.bind(py))?
            }
            None => Vec::new(),
        };
        self.overwritten.set(overwritten);
        Ok(())
    }

    /// Called when a pass reaches the run for the first time.
    fn begin(self: &Arc<Self>, py: Python<'_>, is_first: bool, pass: Pass) -> PyResult<()> {
        if is_first {
            if !self.fill_for_first_pass(py)? {
                return refuse_pass();
            }
        } else {
            if !self.fill(py)? {
                return refuse_pass();
            }
            with_running(|pass| pass.is_second = true);
        }
        match pass.kind {
            PassKind::Keeps | PassKind::StopsAtPrograms => {
                note_run(self);
                self.keep(py)?;
            }
            PassKind::Leaves => {
                self.graph().inspect(|graph| graph.flow.keep_budget.spend());
                self.keep(py)?;
            }
            // The hooks are called later, and need the run.
            PassKind::Frees if self.late.call_again() => {}
            PassKind::Frees => self.release_given(),
        }
        if self.tenancy.makes_executor.swap(false, Ordering::Relaxed) {
            make_executor(py, self.collector)?;
        }
        Ok(())
    }

    /// Makes the gradients that reach the inputs variable, until the hooks in the result are removed. A program's
    /// gradients are constants; earlier nodes that get constants make nodes for second gradients that end the process
    /// when a pass reaches them.
    pub(super) fn vary_inputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Hook<'py>>> {
        let inputs = self.given.lock().as_ref().map(|given| given.inputs.bind(py).clone());
        let mut hooks = Vec::new();
        for input in inputs.iter().flatten() {
            if takes_hook(&input)? {
                hooks.push(hook(&input, |gradient| {
                    module(gradient.py())?.call_method1("varying", (gradient,)).map(|varying| Some(varying.unbind()))
                })?);
            }
        }
        Ok(hooks)
    }

    /// Adds tensors to `sources` such that a pass for gradients with respect to them goes through this run. `false` if
    /// no pass may reach it.
    pub(super) fn sources<'py>(&self, py: Python<'py>, sources: &mut Vec<Bound<'py, PyAny>>) -> PyResult<bool> {
        let given = self.given.lock().as_ref().map(|given| given.tensors(py));
        let Some((inputs, parameters)) = given else { return Ok(false) };
        for tensor in inputs.bind(py).iter().chain(parameters.bind(py).iter()) {
            let has_gradient = !tensor.getattr(intern!(py, "stop_gradient"))?.is_truthy()?;
            if !has_gradient || sources.iter().any(|source| source.is(&tensor)) {
                continue;
            }
            match results::origin(&tensor) {
                Some(ResultOf::Program(run, _)) => match run.upgrade() {
                    Some(run) if run.sources(py, sources)? => {}
                    _ => return Ok(false),
                },
                _ => sources.push(tensor),
            }
        }
        Ok(true)
    }

    /// The graph, until a pass releases the run.
    pub(super) fn graph(&self) -> Option<Arc<Graph>> {
        self.given.lock().as_ref().map(|given| Arc::clone(&given.graph))
    }

    /// Releases what is needed to repeat the run.
    pub(super) fn release_given(&self) {
        let given = self.given.lock().take();
        drop(given);
    }

    /// Returns the tensors that stood for result `at` when the statements were called.
    pub(super) fn called<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let called: Vec<_> = self.called.lock().iter().map(|results| results.clone_ref(py)).collect();
        let mut found = Vec::new();
        for results in called {
            match results.bind(py).get_item(at)? {
                Some(result) if takes_hook(&result)? => found.push(result),
                _ => {}
            }
        }
        Ok(found)
    }
}
