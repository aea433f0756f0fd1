//! Runs of programs, and what backward passes find of them. The first pass through one finds all it reads. A pass that
//! keeps the graph has the scope kept as well, what is in it, and copies of what the program was given: for the next
//! one it is put back into that scope, if that gives the same. Where it cannot be kept, the program runs again.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use sot_core::cpython::{self, WeakRef};

use super::copies;
use super::gradient_flags::{is_on, leaves_to_switch_off};
use super::late_hooks::LateHooks;
use super::made::MadeOutput;
use super::pass::{kept, make_executor, note_gradient, note_leaves, note_run, with_running, Pass, PassKind};
use super::reach::ProgramInput as Place;
use super::results::{self, ResultOf};
use super::watch::refuse_pass;
use super::{hook, locked, module, takes_hook, Hook};
use crate::backend::run::collector::Collector;
use crate::backend::run::{Graph, Inputs};

/// What a scope and the run that was last in it know of each other.
#[derive(Debug)]
pub(crate) struct Tenancy {
    /// The run that has the scope.
    run: AtomicU64,
    /// Whether that run keeps it: no other one is to have it.
    kept: AtomicBool,
    /// Whether the scope's first backward pass, which makes an executor of its own, is still to come.
    makes_executor: AtomicBool,
}

impl Tenancy {
    pub(crate) fn new() -> Self {
        Tenancy { run: AtomicU64::new(0), kept: AtomicBool::new(false), makes_executor: AtomicBool::new(true) }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Relaxed)
    }
}

/// A run of a program with gradients.
pub(crate) struct PastRun {
    /// Of two runs the later one has the greater number.
    pub(super) number: u64,
    tenancy: Arc<Tenancy>,
    collector: Collector,
    /// Whether some of its results come from what others do not.
    is_partial: bool,
    /// The last pass that has gone through it.
    pass: AtomicU64,
    /// What was in its scope, if that has been emptied before the first one (`sot._second_passes.SavedAll`, or `None`
    /// where it could not be held).
    emptied: Mutex<Option<Py<PyAny>>>,
    /// What it takes to do it again, until a pass lets go of it. The lock is never held over a call into Python.
    given: Mutex<Option<GivenValues>>,
    /// The results of the program that has filled the scope again: when they go, Paddle empties it.
    filled: Mutex<Option<Py<PyAny>>>,
    /// What its statements have given when they were called, each time: gradients of gradients come to those in the
    /// place of the results.
    called: Mutex<Vec<Py<PyDict>>>,
    pub(super) late: LateHooks,
    /// Outputs of the graph that were made from its results, if gradients come through one of them.
    pub(super) made: OnceLock<Vec<MadeOutput>>,
}

struct GivenValues {
    graph: Arc<Graph>,
    inputs: Py<PyTuple>,
    /// What its statements are given instead, if that is not the same.
    for_statements: Option<Py<PyTuple>>,
    parameters: Py<PyTuple>,
    scope: Py<PyList>,
    /// That of the random numbers before it, if it draws some.
    random_state: Option<Py<PyAny>>,
    /// `sot._second_passes.Kept` of all inputs and parameters, by identity: what they were when a pass first kept them.
    kept: Option<Py<PyDict>>,
    /// `sot._second_passes.Saved`: what the first pass found in the scope.
    saved: Option<Py<PyAny>>,
    _alive: Alive,
}

/// How many runs there are that no pass has let go of.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// Whether there are any.
pub(super) fn are_alive() -> bool {
    ALIVE.load(Ordering::Relaxed) > 0
}

/// Counts as one of those.
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

impl PastRun {
    /// One that has just been.
    pub(crate) fn new(
        graph: &Arc<Graph>,
        (inputs, parameters): (&Inputs<'_>, &Bound<'_, PyTuple>),
        (scope, tenancy): (Py<PyList>, Arc<Tenancy>),
        random_state: Option<Py<PyAny>>,
        collector: Collector,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        tenancy.run.store(number, Ordering::Relaxed);
        let given = GivenValues {
            graph: Arc::clone(graph),
            inputs: inputs.for_program.clone().unbind(),
            for_statements: inputs.for_statements.as_ref().map(|inputs| inputs.clone().unbind()),
            parameters: parameters.clone().unbind(),
            scope,
            random_state,
            kept: None,
            saved: None,
            _alive: Alive::new(),
        };
        PastRun {
            number,
            tenancy,
            collector,
            is_partial: !graph.flow.partial.is_empty(),
            pass: AtomicU64::new(0),
            emptied: Mutex::default(),
            given: Mutex::new(Some(given)),
            filled: Mutex::default(),
            called: Mutex::default(),
            late: LateHooks::default(),
            made: OnceLock::new(),
        }
    }

    /// Follows the passes that come to the results. Paddle calls the hooks on all results of a node whichever it is
    /// that a pass comes through, before the node. Results that no pass comes to are no longer the node's, which they
    /// would keep alive, and are leaves, as in eager mode.
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

    /// A pass comes to a result with this gradient; gives what is to go on instead.
    fn enter(self: &Arc<Self>, at: usize, gradient: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let py = gradient.py();
        let pass = with_running(|pass| {
            pass.through_program = true;
            *pass
        });
        let last = self.pass.swap(pass.id, Ordering::Relaxed);
        if last != pass.id {
            self.note_leaves(py)?;
            self.look_at_partial(py)?;
            self.begin(py, last == 0, pass)?;
        }
        if self.is_partial {
            self.note_reached(at, gradient)?;
        }
        self.late.take_down(pass, at, gradient)?;
        if pass.kind != PassKind::StopsAtPrograms {
            return Ok(None);
        }
        note_gradient(self, at, gradient);
        let _quiet = cpython::suspend(py);
        module(py)?.call_method1("nought", (gradient,)).map(|nought| Some(nought.unbind()))
    }

    /// Has the pass know the leaves that the run was given and that have no gradient.
    fn note_leaves(&self, py: Python<'_>) -> PyResult<()> {
        let given =
            locked(&self.given).as_ref().map(|given| (given.inputs.clone_ref(py), given.parameters.clone_ref(py)));
        if let Some((inputs, parameters)) = given {
            note_leaves(leaves_to_switch_off(inputs.bind(py))?);
            note_leaves(leaves_to_switch_off(parameters.bind(py))?);
        }
        Ok(())
    }

    /// Has the pass know what only some results come from.
    fn look_at_partial(&self, py: Python<'_>) -> PyResult<()> {
        let given = locked(&self.given)
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

    /// A pass comes to it.
    fn begin(self: &Arc<Self>, py: Python<'_>, is_first: bool, pass: Pass) -> PyResult<()> {
        if !is_first {
            if !self.fill(py)? {
                return refuse_pass();
            }
            with_running(|pass| pass.is_second = true);
        } else if !self.fill_for_first_pass(py)? {
            return refuse_pass();
        }
        match pass.kind {
            PassKind::Keeps | PassKind::StopsAtPrograms => {
                note_run(self);
                self.keep(py)?;
            }
            PassKind::Leaves => {
                self.graph().inspect(|graph| graph.flow.chances.take());
                self.keep(py)?;
            }
            // The hooks are still to be called.
            PassKind::Frees if self.late.call_again() => {}
            PassKind::Frees => self.let_go(),
        }
        if self.tenancy.makes_executor.swap(false, Ordering::Relaxed) {
            make_executor(py, self.collector)?;
        }
        Ok(())
    }

    /// Lets passes bring to the inputs what varies, up to the end of the result. A program gives constants; nodes
    /// before it that are given such make nodes for second gradients that end the process when a pass comes to them.
    pub(super) fn vary_inputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Hook<'py>>> {
        let inputs = locked(&self.given).as_ref().map(|given| given.inputs.bind(py).clone());
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

    /// Adds tensors such that whoever asks for gradients by them asks for passes through this run. `false` if none may
    /// come.
    pub(super) fn sources<'py>(&self, py: Python<'py>, sources: &mut Vec<Bound<'py, PyAny>>) -> PyResult<bool> {
        let given =
            locked(&self.given).as_ref().map(|given| (given.inputs.clone_ref(py), given.parameters.clone_ref(py)));
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

    /// The graph, until a pass lets go of the run.
    pub(super) fn graph(&self) -> Option<Arc<Graph>> {
        locked(&self.given).as_ref().map(|given| Arc::clone(&given.graph))
    }

    /// Lets go of what it takes to do it again.
    pub(super) fn let_go(&self) {
        let given = locked(&self.given).take();
        drop(given);
    }

    /// What has stood for a result when its statements were called.
    pub(super) fn called<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let called: Vec<_> = locked(&self.called).iter().map(|results| results.clone_ref(py)).collect();
        let mut found = Vec::new();
        for results in called {
            match results.bind(py).get_item(at)? {
                Some(result) if takes_hook(&result)? => found.push(result),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Makes it possible to go through it again.
    fn keep(&self, py: Python<'_>) -> PyResult<()> {
        self.tenancy.kept.store(true, Ordering::Relaxed);
        self.keep_given(py)?;
        let found = match locked(&self.given).as_ref() {
            Some(given) if given.saved.is_none() => {
                (given.scope.clone_ref(py), given.inputs.clone_ref(py), given.parameters.clone_ref(py))
            }
            _ => return Ok(()),
        };
        let saved = {
            let _quiet = cpython::suspend(py);
            module(py)?.call_method1("save", found)?
        };
        if let Some(given) = locked(&self.given).as_mut() {
            given.saved = Some(saved.unbind());
        }
        Ok(())
    }

    /// What its scope holds for its first pass. `None` if there has been one, or the scope is empty already.
    pub(super) fn hold(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.pass.load(Ordering::Relaxed) != 0 || locked(&self.emptied).is_some() {
            return Ok(None);
        }
        let Some(scope) = locked(&self.given).as_ref().map(|given| given.scope.clone_ref(py)) else { return Ok(None) };
        let _quiet = cpython::suspend(py);
        module(py)?.call_method1("hold", (scope,)).map(|held| Some(held.unbind()))
    }

    /// Keeps what its scope held, if that has been emptied since, without a pass. Tells whether it has.
    pub(super) fn take_back(&self, held: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = held.py();
        if self.pass.load(Ordering::Relaxed) != 0 {
            return Ok(false);
        }
        let Some(scope) = locked(&self.given).as_ref().map(|given| given.scope.clone_ref(py)) else { return Ok(false) };
        let is_emptied = {
            let _quiet = cpython::suspend(py);
            module(py)?.call_method1("are_emptied", (scope,))?.is_truthy()?
        };
        if is_emptied {
            self.tenancy.kept.store(true, Ordering::Relaxed);
            *locked(&self.emptied) = Some(held.clone().unbind());
        }
        Ok(is_emptied)
    }

    /// Has the scope be as the run has left it. `false` if that is impossible.
    fn fill_for_first_pass(&self, py: Python<'_>) -> PyResult<bool> {
        let Some(held) = locked(&self.emptied).take() else { return Ok(true) };
        if held.is_none(py) || self.tenancy.run.load(Ordering::Relaxed) != self.number {
            return Ok(false);
        }
        let _quiet = cpython::suspend(py);
        held.bind(py).call_method0("fill").map(|_| true)
    }

    /// Makes it possible to call its statements again.
    pub(super) fn keep_given(&self, py: Python<'_>) -> PyResult<()> {
        let tensors = match locked(&self.given).as_ref() {
            Some(given) if given.kept.is_none() => (given.inputs.clone_ref(py), given.parameters.clone_ref(py)),
            _ => return Ok(()),
        };
        let kept = kept(py);
        let _quiet = cpython::suspend(py);
        module(py)?.call_method1("keep", (tensors.0, tensors.1, &kept))?;
        if let Some(given) = locked(&self.given).as_mut() {
            given.kept = Some(kept.unbind());
        }
        Ok(())
    }

    /// Whether the next pass finds what eager mode finds where the scope is as the first pass found it.
    fn may_be_filled(&self, py: Python<'_>) -> PyResult<bool> {
        let known = locked(&self.given).as_ref().and_then(|given| {
            let kept = given.kept.as_ref()?.clone_ref(py);
            Some((kept, Arc::clone(&given.graph), given.inputs.clone_ref(py), given.parameters.clone_ref(py)))
        });
        let Some((kept, graph, inputs, parameters)) = known else { return Ok(false) };
        let (inputs, parameters) = (inputs.bind(py), parameters.bind(py));
        let viewed = PyList::empty(py);
        for given in &graph.flow.viewed {
            viewed.append(match *given {
                Place::Input(at) => inputs.get_item(at)?,
                Place::Parameter(at) => parameters.get_item(at)?,
            })?;
        }
        let given = inputs.as_sequence().concat(parameters.as_sequence())?;
        let _quiet = cpython::suspend(py);
        module(py)?.call_method1("may_be_filled", (kept, given, viewed))?.is_truthy()
    }

    /// Has the scope be as the first pass found it. `false` if that is impossible.
    fn fill(&self, py: Python<'_>) -> PyResult<bool> {
        if self.tenancy.run.load(Ordering::Relaxed) != self.number {
            return Ok(false);
        }
        // These first: with them the scope is emptied.
        let former = locked(&self.filled).take();
        drop(former);
        if !self.may_be_filled(py)? {
            return Ok(false);
        }
        let saved = locked(&self.given).as_ref().and_then(|given| Some(given.saved.as_ref()?.clone_ref(py)));
        if let Some(saved) = saved.filter(|saved| !saved.is_none(py)) {
            let _quiet = cpython::suspend(py);
            saved.bind(py).call_method0("fill")?;
            return Ok(true);
        }
        let filled =
            self.again(py, |graph, inputs, _, parameters, scope| graph.run_again(inputs, parameters, scope))?;
        let is_filled = filled.is_some();
        *locked(&self.filled) = filled;
        Ok(is_filled)
    }

    /// What the graph's statements give, called one by one: of each result a tensor, or `None`. `None` if that is
    /// impossible or not the same.
    pub(super) fn call_again(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let results = self.again(py, |graph, _, inputs, _, _| graph.call_again(inputs))?;
        if let Some(results) = &results {
            if let Some(hooks) = self.late.get(py) {
                hooks.call_method1("put_on", (results,))?;
            }
            let called = results.bind(py).cast::<PyDict>()?.clone().unbind();
            locked(&self.called).push(called);
        }
        Ok(results)
    }

    /// The same for leaves in the memory of what it was given.
    pub(super) fn call_apart(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.again(py, |graph, _, inputs, parameters, _| {
            let (py, graph) = (inputs.py(), Arc::clone(graph));
            let call =
                cpython::fastcall(py, "call", "", move |py, inputs| graph.call_again(&PyTuple::new(py, inputs)?))?;
            Ok(cpython::import(py, "sot._late_hooks")?.call_method1("apart", (call, inputs, parameters))?.unbind())
        })
    }

    /// Does `work`, with what the program and what the statements were given. `None` if that may not give what it gave
    /// before.
    fn again(
        &self,
        py: Python<'_>,
        work: impl Fn(
                &Arc<Graph>,
                &Bound<'_, PyTuple>,
                &Bound<'_, PyTuple>,
                &Bound<'_, PyTuple>,
                &Bound<'_, PyList>,
            ) -> PyResult<Py<PyAny>>
            + Send
            + Sync
            + 'static,
    ) -> PyResult<Option<Py<PyAny>>> {
        let given = locked(&self.given).as_ref().and_then(|given| {
            let kept = given.kept.as_ref()?.clone_ref(py);
            let random_state = given.random_state.as_ref().map(|state| state.clone_ref(py));
            let (inputs, parameters) = (given.inputs.clone_ref(py), given.parameters.clone_ref(py));
            let for_statements = given.for_statements.as_ref().unwrap_or(&given.inputs).clone_ref(py);
            let inputs = (inputs, for_statements);
            Some((Arc::clone(&given.graph), inputs, parameters, given.scope.clone_ref(py), random_state, kept))
        });
        let Some((graph, (inputs, for_statements), parameters, scope, random_state, kept)) = given else {
            return Ok(None);
        };
        let tensors = (inputs.clone_ref(py), parameters.clone_ref(py));
        let work = cpython::fastcall(py, "again", "", move |py, _| {
            work(&graph, inputs.bind(py), for_statements.bind(py), parameters.bind(py), scope.bind(py))
        })?;
        let _quiet = cpython::suspend(py);
        let done = module(py)?.call_method1("again", (work, tensors.0, tensors.1, kept, random_state))?;
        Ok((!done.is_none()).then(|| done.unbind()))
    }
}
