//! Finished graphs and how they run. A call of a graph is one call of Paddle's executor, with everything prepared.
//! The graph holds its parameters weakly. Scopes, in which the executor keeps a run's variables, are lent to one run
//! at a time, because Paddle lets other threads run meanwhile.

pub(crate) mod chain;
pub(crate) mod collector;
pub(crate) mod executors;
pub(crate) mod garbage;
pub(crate) mod program_id;
pub(crate) mod saved_tensors;
pub(crate) mod second_passes;
pub(crate) mod version_counters;

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pyo3::exceptions::{PyReferenceError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use sot_core::backend::StateTest;
use sot_core::cpython::{self, WeakRef};

use crate::backend::graph::outputs::{pick, Origin, Output, StepNumbers, ViewCall};
use crate::backend::graph::statistics::Changes;
use crate::backend::memory::saved::Saved;
use crate::backend::memory::write_back::GraphWrites;
use crate::backend::numbers::number_inputs::NumberInputs;
use crate::backend::paddle::release::Runner;
use crate::backend::paddle::state::GlobalState;
use crate::backend::paddle::Paddle;
use crate::backend::run::collector::Collector;
use crate::backend::run::executors::{CountedProgram, Running};
use crate::backend::run::second_passes::{made_key, PastRun, ProgramFlow, SavedInput, ScopeTenancy};
use crate::backend::run::version_counters::VersionCounters;

/// Makes the Python callable of a graph.
pub(crate) fn callable(py: Python<'_>, graph: Graph) -> PyResult<Py<PyAny>> {
    let graph = Arc::new(graph);
    cpython::graph_function(py, move |py, args| graph.call(py, args).map(Bound::unbind))
}

/// A finished graph.
pub(crate) struct Graph {
    paddle: Arc<Paddle>,
    /// `None` if the graph computes nothing: all outputs are inputs or parameters.
    program: Option<Program>,
    inputs: usize,
    parameters: Vec<WeakRef>,
    scopes: Scopes,
    /// `None` if the outputs are the program's results, in their order.
    plan: Option<Vec<Output>>,
    /// True if some outputs are views with a gradient, but the graph is called with grad mode off: grad mode is then
    /// switched on while the views are made.
    views_force_grad: bool,
    /// What backward passes need to know about the graph.
    pub(crate) flow: ProgramFlow,
    writes: Option<GraphWrites>,
    statements: Option<Statements>,
}

/// The statements of a graph.
pub(crate) struct Statements {
    /// Calls the statements one by one.
    pub(crate) calls: Py<PyAny>,
    /// The global state under which the first statement was recorded.
    pub(crate) state: Arc<GlobalState>,
}

/// A program and the way it runs.
pub(crate) struct Program {
    /// Calls the executor.
    pub(crate) runner: Box<dyn Runner>,
    /// True if a backward pass may follow; the scope is kept for it.
    pub(crate) training: bool,
    pub(crate) collector: Collector,
    /// True if the program must run with grad mode on, even when the graph is called with grad mode off.
    pub(crate) forces_grad: bool,
    /// Indices of the inputs that no gradient flows to.
    pub(crate) detached: Vec<usize>,
    /// Inputs that are given as Python numbers or numpy arrays.
    pub(crate) numbers: NumberInputs,
    /// What the program changes besides its results.
    pub(crate) changes: Changes,
    /// The inputs and parameters that a backward pass reads.
    pub(crate) saved: Vec<SavedInput>,
    pub(crate) _counted: CountedProgram,
}

/// The arguments of one run.
pub(crate) struct Inputs<'py> {
    pub(crate) for_program: Bound<'py, PyTuple>,
    /// The arguments for the statements, if these differ from those of the program.
    pub(crate) for_statements: Option<Bound<'py, PyTuple>>,
}

impl Program {
    fn inputs<'py>(
        &self,
        py: Python<'py>,
        given: &[Bound<'py, PyAny>],
        writes: Option<&GraphWrites>,
    ) -> PyResult<Inputs<'py>> {
        let kept = writes.filter(|_| self.training);
        if self.detached.is_empty() && self.numbers.is_empty() && kept.is_none() {
            return Ok(Inputs { for_program: PyTuple::new(py, given)?, for_statements: None });
        }
        let mut inputs = given.to_vec();
        if let Some(writes) = kept {
            writes.keep_inputs(&mut inputs)?;
        }
        for &at in &self.detached {
            inputs[at] = inputs[at].call_method0(intern!(py, "detach"))?;
        }
        let for_statements = if self.numbers.is_empty() { None } else { Some(PyTuple::new(py, &inputs)?) };
        self.numbers.make(&mut inputs)?;
        Ok(Inputs { for_program: PyTuple::new(py, inputs)?, for_statements })
    }
}

impl Graph {
    /// Makes a graph. `plan` says where each output is found, `results` is the number of results of the program.
    pub(crate) fn new(
        py: Python<'_>,
        paddle: &Arc<Paddle>,
        program: Option<Program>,
        (inputs, parameters): (usize, Vec<WeakRef>),
        (results, plan): (usize, Vec<Output>),
        flow: ProgramFlow,
        (writes, statements): (Option<GraphWrites>, Option<Statements>),
    ) -> PyResult<Self> {
        let views_force_grad = plan.iter().any(Output::is_view_with_gradient) && !paddle.grad_enabled(py)?;
        let as_they_come = plan.len() == results && plan.iter().enumerate().all(|(at, output)| output.is_result(at));
        Ok(Graph {
            paddle: Arc::clone(paddle),
            flow,
            scopes: Scopes::new(py, paddle, program.as_ref()),
            program,
            inputs,
            parameters,
            plan: (!as_they_come).then_some(plan),
            views_force_grad,
            writes,
            statements,
        })
    }

    /// Runs the graph.
    pub(crate) fn call<'py>(
        self: &Arc<Self>,
        py: Python<'py>,
        inputs: &[Bound<'py, PyAny>],
    ) -> PyResult<Bound<'py, PyAny>> {
        if inputs.len() != self.inputs {
            let text = format!("graph takes {} tensors and was given {}", self.inputs, inputs.len());
            return Err(PyTypeError::new_err(text));
        }
        let parameters = live_parameters(py, &self.parameters)?;
        let writes = match &self.writes {
            Some(writes) => match writes.exclusive_memory(inputs, &parameters)? {
                Some(places) => Some((writes, places)),
                None => return writes.calls.bind(py).call1(PyTuple::new(py, inputs)?),
            },
            None => None,
        };
        let (computed, past) = match &self.program {
            Some(program) => {
                let scope = match self.scopes.take_scope(py)? {
                    Some(scope) => scope,
                    None => match self.call_statements(py, inputs)? {
                        Some(outputs) => return Ok(outputs),
                        None => self.scopes.new_scope(py)?,
                    },
                };
                self.run(program, &program.inputs(py, inputs, self.writes.as_ref())?, &parameters, scope)?
            }
            None => (PyTuple::empty(py).into_any(), None),
        };
        let results = match &writes {
            Some((writes, places)) => {
                let results = writes.write(&self.paddle, places, &computed, (inputs, &parameters))?;
                if let Some(past) = &past {
                    let written = writes.each.iter().map(|write| &inputs[write.input]);
                    past.note_own_writes(&written.collect::<Vec<_>>(), py)?;
                }
                results
            }
            None => computed.clone(),
        };
        match &self.plan {
            None => Ok(results),
            Some(plan) => {
                let pick = || pick(&self.paddle, plan, &results, inputs, &parameters);
                let outputs = if self.views_force_grad { self.paddle.with_grad(py, pick)? } else { pick()? };
                if let Some(past) = past.filter(|_| !self.flow.made.is_empty()) {
                    let numbers = |at: usize| plan[at].numbers(&results, inputs, &parameters);
                    past.note_made(&self.flow.made, &computed, &outputs, numbers)?;
                }
                Ok(outputs)
            }
        }
    }

    fn run<'py>(
        self: &Arc<Self>,
        program: &Program,
        inputs: &Inputs<'py>,
        parameters: &Bound<'py, PyTuple>,
        scope: Scope,
    ) -> PyResult<(Bound<'py, PyAny>, Option<Arc<PastRun>>)> {
        let py = parameters.py();
        let _running = Running::begin(py);
        let changes = &program.changes;
        let given = (&inputs.for_program, parameters);
        let before = if changes.may_be_undone() { Some(Saved::of(&self.paddle, given, changes)?) } else { None };
        let run = || program.runner.run(&inputs.for_program, parameters, scope.tenancy.scopes.bind(py));
        let run = || if program.forces_grad { self.paddle.with_grad(py, run) } else { run() };
        // The first run in a scope makes the executor, which takes the collector that is set then.
        let run = || if scope.is_new { collector::with(py, program.collector, run) } else { run() };
        let run = || {
            let results = match (run(), &before) {
                (Err(error), Some(before)) => return before.put_back(&self.paddle).and(Err(error)),
                (results, _) => results?,
            };
            changes.note_success();
            scope.counters.separate(&self.paddle, &results)?;
            Ok(results)
        };
        if !program.training {
            let results = run();
            self.scopes.take_back(scope);
            return results.map(|results| (results, None));
        }
        let done = self.flow.random.around(py, run).and_then(|(results, random_state)| {
            let tenancy = Arc::clone(&scope.tenancy);
            Ok((results, PastRun::new(self, (inputs, parameters), tenancy, random_state, program.collector)?))
        });
        self.scopes.take_back(scope);
        let (results, past) = done?;
        let past = past.watch(&results)?;
        Ok((results, Some(past)))
    }

    pub(crate) fn paddle(&self) -> &Paddle {
        &self.paddle
    }

    /// The inputs and parameters that a backward pass reads.
    pub(crate) fn saved(&self) -> &[SavedInput] {
        self.program.as_ref().map_or(&[], |program| &program.saved)
    }

    /// Runs the program again, in a scope in which it has run before.
    pub(crate) fn run_again(
        &self,
        inputs: &Bound<'_, PyTuple>,
        parameters: &Bound<'_, PyTuple>,
        scope: &Bound<'_, PyList>,
    ) -> PyResult<Py<PyAny>> {
        let py = inputs.py();
        let Some(program) = &self.program else { return Ok(py.None()) };
        let _running = Running::begin(py);
        let run = || program.runner.run(inputs, parameters, scope);
        let results = if self.paddle.grad_enabled(py)? { run() } else { self.paddle.with_grad(py, run) };
        results.map(Bound::unbind)
    }

    /// Calls the graph's statements one by one in eager mode, and returns the outputs; `None` if they cannot be called.
    fn call_statements<'py>(
        &self,
        py: Python<'py>,
        inputs: &[Bound<'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(statements) = &self.statements else { return Ok(None) };
        match &self.writes {
            Some(writes) => writes.calls.bind(py).call1(PyTuple::new(py, inputs)?).map(Some),
            None => self.outputs_of(statements, PyTuple::new(py, inputs)?),
        }
    }

    /// Calls the statements in the state that they were recorded in; `None` if Paddle is not in that state afterwards.
    fn outputs_of<'py>(
        &self,
        statements: &Statements,
        given: Bound<'py, PyTuple>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = given.py();
        let before = GlobalState::now(py, &self.paddle)?;
        statements.state.restore(py)?;
        let outputs = if statements.state.check(py) { Some(statements.calls.bind(py).call1(given)) } else { None };
        before.restore(py)?;
        outputs.transpose()
    }

    /// Calls the graph's statements one by one and returns a dict: the program's results by index, and under
    /// [`made_key`] the outputs that are made from them. Returns `None` if the statements cannot be called. Inputs
    /// that the statements write to are copied first.
    pub(crate) fn call_again(&self, inputs: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let py = inputs.py();
        let Some(statements) = &self.statements else { return Ok(py.None()) };
        let mut inputs: Vec<_> = inputs.iter().collect();
        for write in self.writes.iter().flat_map(|writes| &writes.each) {
            let copied = || inputs[write.input].call_method0(intern!(py, "clone"));
            inputs[write.input] =
                if self.paddle.grad_enabled(py)? { copied()? } else { self.paddle.with_grad(py, copied)? };
        }
        let Some(outputs) = self.outputs_of(statements, PyTuple::new(py, &inputs)?)? else { return Ok(py.None()) };
        let results = PyDict::new(py);
        for (at, output) in outputs.try_iter()?.enumerate() {
            let output = output?;
            let planned = self.plan.as_ref().map(|plan| &plan[at]);
            match planned.map_or(Some(Origin::Result(at)), Output::as_it_is) {
                Some(Origin::Result(result)) => results.set_item(result, output)?,
                None => results.set_item(made_key(at), output)?,
                Some(_) => {}
            }
        }
        Ok(results.into_any().unbind())
    }

    /// Makes output `at` again from another tensor than the result, with the numbers of its run.
    pub(crate) fn make_again(
        &self,
        at: usize,
        source: &Bound<'_, PyAny>,
        numbers: &StepNumbers,
    ) -> PyResult<Py<PyAny>> {
        let py = source.py();
        let Some(output) = self.plan.as_ref().and_then(|plan| plan.get(at)) else { return Ok(py.None()) };
        let mut tensor = source.clone();
        for (ViewCall { step, .. }, numbers) in output.steps.iter().zip(numbers) {
            let numbers: Vec<_> = numbers.iter().map(|number| number.bind(py).clone()).collect();
            tensor = step.apply(&self.paddle, &tensor, &numbers)?;
        }
        Ok(tensor.unbind())
    }
}

/// The parameters and buffers as a tuple. Raises `ReferenceError` if one of them no longer exists.
pub(crate) fn live_parameters<'py>(py: Python<'py>, parameters: &[WeakRef]) -> PyResult<Bound<'py, PyTuple>> {
    cpython::referents(py, parameters)?
        .ok_or_else(|| PyReferenceError::new_err("a parameter or buffer of this graph no longer exists"))
}

/// The scopes of one graph. They are kept, because a new scope costs a new executor. A scope whose backward pass is
/// still to come is not lent. Paddle marks a scope as reusable a moment before the backward pass stops using it. After
/// training, a scope is therefore lent only to the thread that used it: there the pass has ended when the next forward
/// begins.
struct Scopes {
    make_scope: Py<PyAny>,
    /// Number of scopes that one run takes.
    each: usize,
    awaits_backward: bool,
    /// Scopes that no run uses. The lock is never held over a call into Python, which may switch threads.
    idle: Mutex<VecDeque<Scope>>,
}

/// The scopes that one run takes: one for each program of the graph. Most graphs have one program.
struct Scope {
    tenancy: Arc<ScopeTenancy>,
    user: Weak<()>,
    is_new: bool,
    /// [`executors::generation`] when the scope was made.
    generation: u64,
    counters: VersionCounters,
}

/// Number of runs of one graph that may wait for their backward passes at the same time, each in a scope of its own.
/// Further calls run the statements in eager mode. An executor for a small program is made in 2 ms, and keeps some
/// 0.3 MB and a thread.
const MAX_WAITING: usize = 64;

/// Number of scopes that are looked at to find one whose backward pass is done. Those are put behind all others, so
/// the next call looks at the next ones.
const LOOKED_AT: usize = 8;

thread_local! {
    /// Stands for this thread: its weak references die with the thread.
    static THIS_THREAD: Arc<()> = Arc::new(());
}

impl Scopes {
    fn new(py: Python<'_>, paddle: &Paddle, program: Option<&Program>) -> Self {
        Scopes {
            make_scope: paddle.scope.clone_ref(py),
            each: program.map_or(0, |program| program.runner.scopes()),
            awaits_backward: program.is_some_and(|program| program.training),
            idle: Mutex::default(),
        }
    }

    /// Lends a scope. `None` if so many runs wait for their backward passes that a program no longer pays: each more
    /// would need an executor of its own.
    fn take_scope(&self, py: Python<'_>) -> PyResult<Option<Scope>> {
        let mut busy = Vec::new();
        while let Some(scope) = self.with_idle(VecDeque::pop_front) {
            if scope.tenancy.is_kept() || scope.generation != executors::generation() {
                continue;
            }
            let is_free =
                !self.awaits_backward || (scope.is_of_this_or_an_ended_thread() && scope.tenancy.is_reusable(py)?);
            if is_free {
                self.put_back(busy);
                return Ok(Some(scope));
            }
            busy.push(scope);
            if busy.len() == LOOKED_AT {
                break;
            }
        }
        self.put_back(busy);
        if self.awaits_backward && self.with_idle(|idle| idle.len()) >= MAX_WAITING {
            return Ok(None);
        }
        self.new_scope(py).map(Some)
    }

    fn new_scope(&self, py: Python<'_>) -> PyResult<Scope> {
        let scopes = (0..self.each).map(|_| self.make_scope.bind(py).call0()).collect::<PyResult<Vec<_>>>()?;
        let tenancy = Arc::new(ScopeTenancy::new(PyList::new(py, scopes)?.unbind()));
        if self.awaits_backward {
            executors::note_training_scope(&tenancy);
        }
        Ok(Scope {
            tenancy,
            user: Weak::new(),
            is_new: true,
            generation: executors::generation(),
            counters: VersionCounters::default(),
        })
    }

    /// Takes a scope back after a run. The scope used last is lent first: its executor is warm, and usually its
    /// backward pass is done.
    fn take_back(&self, mut scope: Scope) {
        scope.is_new = false;
        if self.awaits_backward {
            scope.user = THIS_THREAD.with(Arc::downgrade);
        }
        self.with_idle(|idle| idle.push_front(scope));
    }

    /// Puts back scopes that could not be lent, behind all others.
    #[inline]
    fn put_back(&self, busy: Vec<Scope>) {
        if !busy.is_empty() {
            self.with_idle(|idle| idle.extend(busy));
        }
    }

    fn with_idle<T>(&self, work: impl FnOnce(&mut VecDeque<Scope>) -> T) -> T {
        work(&mut self.idle.lock())
    }
}

impl Scope {
    /// True if the last user of the scope is this thread or a thread that has ended.
    fn is_of_this_or_an_ended_thread(&self) -> bool {
        let ours = THIS_THREAD.with(|this| std::ptr::eq(self.user.as_ptr(), Arc::as_ptr(this)));
        ours || self.user.strong_count() == 0
    }
}
