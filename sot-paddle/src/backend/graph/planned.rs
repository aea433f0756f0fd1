//! Programs that are complete and not yet compiled. Compiling splits a program into forward and backward once, and
//! keeps what is needed to run it.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use sot_core::cpython::{self, WeakRef};
use sot_core::log;

use crate::backend::graph::merging;
use crate::backend::graph::outputs::Output;
use crate::backend::graph::pieces::{pieces, PieceInput, Pieces};
use crate::backend::graph::program_structure::ProgramStructure;
use crate::backend::graph::statistics;
use crate::backend::memory::write_back::GraphWrites;
use crate::backend::numbers::number_inputs::{GivenAs, NumberInputs};
use crate::backend::paddle::release::Runner;
use crate::backend::paddle::Paddle;
use crate::backend::run::chain::{Chain, Link};
use crate::backend::run::collector::Collector;
use crate::backend::run::executors::{self, CountedProgram};
use crate::backend::run::garbage;
use crate::backend::run::program_id;
use crate::backend::run::second_passes::{self, GradientFlow, ProgramInput, SavedInput};
use crate::backend::run::{self, Graph, Statements};

/// A program that is complete and not yet compiled. It holds its parameters weakly.
pub(crate) struct PlannedProgram {
    pub(crate) paddle: Arc<Paddle>,
    /// Inputs that are given as numbers or arrays.
    pub(crate) numbers: Vec<(usize, GivenAs)>,
    pub(crate) program: Py<PyAny>,
    pub(crate) inputs: Py<PyList>,
    pub(crate) parameters: Vec<WeakRef>,
    pub(crate) values: Py<PyList>,
    pub(crate) results: Py<PyList>,
    pub(crate) plan: Vec<Output>,
    pub(crate) flow: GradientFlow,
    pub(crate) writes: Option<GraphWrites>,
    pub(crate) statements: Option<Statements>,
}

impl PlannedProgram {
    /// True if any result can have a gradient. Values that are built without grad mode, or from nothing that needs a
    /// gradient, have none.
    pub(crate) fn needs_grad(&self, py: Python<'_>) -> PyResult<bool> {
        need_grad(self.results.bind(py))
    }

    /// Compiles the graph.
    pub(crate) fn compile(self, py: Python<'_>) -> PyResult<Graph> {
        executors::free_if_many(py)?;
        let parameters = run::live_parameters(py, &self.parameters)?.to_list();
        let results = self.results.bind(py);
        let program =
            if results.is_empty() { None } else { Some(garbage::collected(py, || self.split(results, &parameters))?) };
        let given = (self.inputs.bind(py).len(), self.parameters);
        let flow = self.flow.of_program(&self.plan);
        let outputs = (results.len(), self.plan);
        Graph::new(py, &self.paddle, program, given, outputs, flow, (self.writes, self.statements))
    }

    /// Splits the program into forward and backward and optimizes both. A long program is cut into pieces first.
    fn split(&self, results: &Bound<'_, PyList>, parameters: &Bound<'_, PyList>) -> PyResult<run::Program> {
        let py = results.py();
        let training = self.needs_grad(py)?;
        let (program, inputs, values) = (self.program.bind(py), self.inputs.bind(py), self.values.bind(py));
        let changes = statistics::changes(&self.paddle, program, (inputs, values))?;
        let pieces =
            if self.may_be_cut(training) { pieces(&self.paddle, program, (inputs, values, results))? } else { None };
        let Compiled { runner, detached, saved } = match pieces {
            Some(pieces) => self.chain(pieces, parameters)?,
            None => prepare(&self.paddle, program, (inputs, results), (parameters, values))?,
        };
        let collector = Collector::of(&self.paddle, program)?;
        if training {
            second_passes::watch(py)?;
        }
        // The program was made differentiable inside the trace, in a frame that begins without grad mode.
        let forces_grad = training && !self.paddle.grad_enabled(py)?;
        let numbers = NumberInputs::new(&self.paddle, inputs, &self.numbers)?;
        Ok(run::Program {
            changes,
            runner,
            saved,
            training,
            forces_grad,
            detached,
            numbers,
            collector,
            _counted: CountedProgram::new(),
        })
    }

    /// True if several programs can replace this one. With gradients, hooks on a result must see the same as with one
    /// program: so the program stays whole if one result is computed from another, or if some parameters belong to
    /// some results only.
    fn may_be_cut(&self, training: bool) -> bool {
        !training || self.flow.may_be_cut() && self.writes.is_none()
    }

    /// Compiles the pieces. Pieces that compute the same share one executor. With gradients each piece has its own
    /// executor, which keeps what its backward pass reads.
    fn chain(&self, pieces: Pieces<'_>, parameters: &Bound<'_, PyList>) -> PyResult<Compiled> {
        let py = parameters.py();
        let training = self.needs_grad(py)?;
        let count = pieces.pieces.len();
        let mut links: Vec<Link> = Vec::with_capacity(count);
        let mut all_saved = Vec::new();
        let mut compiled: Vec<(ProgramStructure, usize)> = Vec::new();
        for (at, piece) in pieces.pieces.into_iter().enumerate() {
            let like = compiled
                .iter()
                .find(|(program_structure, _)| !training && *program_structure == piece.program_structure);
            let (runner, detached, scope) = match like {
                Some(&(_, like)) => (Arc::clone(&links[like].runner), links[like].detached.clone(), links[like].scope),
                None => {
                    let own =
                        piece.parameters.iter().map(|&at| parameters.get_item(at)).collect::<PyResult<Vec<_>>>()?;
                    let own = PyList::new(py, own)?;
                    let (outside, inside) = ((&piece.inputs, &piece.results), (&own, &piece.values));
                    let Compiled { runner, detached, saved } = prepare(&self.paddle, &piece.program, outside, inside)?;
                    all_saved.extend(saved.iter().filter_map(|saved| match saved.place() {
                        ProgramInput::Input(at) => match piece.sources[at] {
                            PieceInput::Input(of_graph) => Some(saved.of_piece(ProgramInput::Input(of_graph))),
                            PieceInput::Computed(_) => None,
                        },
                        ProgramInput::Parameter(at) => {
                            Some(saved.of_piece(ProgramInput::Parameter(piece.parameters[at])))
                        }
                    }));
                    let scope = compiled.len();
                    compiled.push((piece.program_structure, at));
                    (runner.into(), detached, scope)
                }
            };
            let (sources, parameters) = (piece.sources, piece.parameters);
            links.push(Link { runner, scope, sources, detached, parameters, done_with: Vec::new() });
        }
        log::write(
            log::GRAPHS,
            &format!("[Graph]: a long program, run as {count}, of which {} differ", compiled.len()),
        );
        let runner = Box::new(Chain::new(links, pieces.results));
        Ok(Compiled { runner, detached: Vec::new(), saved: all_saved })
    }
}

/// A compiled program.
struct Compiled {
    runner: Box<dyn Runner>,
    /// Indices of the inputs that no gradient flows to.
    detached: Vec<usize>,
    /// The inputs and parameters that a backward pass reads.
    saved: Vec<SavedInput>,
}

/// Compiles one program.
fn prepare(
    paddle: &Paddle,
    program: &Bound<'_, PyAny>,
    (inputs, results): (&Bound<'_, PyList>, &Bound<'_, PyList>),
    (parameters, values): (&Bound<'_, PyList>, &Bound<'_, PyList>),
) -> PyResult<Compiled> {
    let py = results.py();
    let training = need_grad(results)?;
    let layer = paddle.partial_program_layer.bind(py).call1((program, inputs, results, (parameters, values)))?;
    layer.setattr("training", training)?;
    layer.setattr(if training { "_train_program_id" } else { "_infer_program_id" }, program_id::new())?;
    keep_gradients(&layer)?;
    let release = paddle.release;
    let optimize = || merging::optimize(release, &layer);
    paddle.static_mode.in_this_thread_only(&layer, release.static_methods, optimize)?;
    keep_outputs(&layer)?;
    let (detached, saved) = if training {
        (inputs_without_gradient(&layer)?, second_passes::read_backward(&layer)?)
    } else {
        (Vec::new(), Vec::new())
    };
    let runner = (release.runner)(&layer, results)?;
    layer.setattr("_params", PyList::empty(py))?;
    Ok(Compiled { runner, detached, saved })
}

fn need_grad(results: &Bound<'_, PyList>) -> PyResult<bool> {
    for result in results {
        if !result.getattr("stop_gradient")?.is_truthy()? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Keeps the gradients of parameters. Preparing a program sets the kind of its parameters' gradients, which drops
/// existing gradients, so only parameters without a gradient are prepared.
fn keep_gradients(layer: &Bound<'_, PyAny>) -> PyResult<()> {
    const SET_KIND: &str = "_set_grad_type";
    // Taken from the class: the layer would otherwise hold a reference to itself. The function does not use the layer.
    let set_kind = layer.get_type().getattr(SET_KIND)?.unbind();
    let careful = cpython::fastcall(layer.py(), SET_KIND, "", move |py, args| {
        let (parameters, program) = (&args[0], &args[1]);
        let (bare, kinds) = (PyList::empty(py), PyList::empty(py));
        for (parameter, gradient) in parameters.try_iter()?.zip(program.getattr("param_grad_values")?.try_iter()?) {
            let parameter = parameter?;
            if parameter.getattr("grad")?.is_none() {
                bare.append(parameter)?;
                kinds.append(gradient?)?;
            }
        }
        let narrowed = PyDict::new(py);
        narrowed.set_item("param_grad_values", kinds)?;
        narrowed.set_item("program", program.getattr("program")?)?;
        let program = cpython::import(py, "types")?.getattr("SimpleNamespace")?.call((), Some(&narrowed))?;
        set_kind.call1(py, (py.None(), bare, program))
    })?;
    layer.setattr(SET_KIND, careful)
}

/// Protects results from being overwritten. The executor lets an operation write over an operand that no backward
/// operation reads, even if that operand is a result of the program. So results are removed from the list of such
/// operands.
fn keep_outputs(layer: &Bound<'_, PyAny>) -> PyResult<()> {
    let names = layer.getattr("program")?.getattr("program_name_attr")?;
    let outputs = names.get_item("fo")?;
    let unread = names.get_item("no_need_buffers")?.cast_into::<PyList>()?;
    for (at, name) in unread.iter().enumerate().rev() {
        if outputs.contains(name)? {
            unread.del_item(at)?;
        }
    }
    Ok(())
}

/// Returns the inputs that could have a gradient and get none, because nothing differentiable is computed from them. A
/// program would give them a gradient of zeros; eager mode leaves `None`.
fn inputs_without_gradient(layer: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let program = layer.getattr("program")?;
    let values: Vec<Bound<'_, PyAny>> = program.getattr("x_values")?.extract()?;
    let gradients: Vec<String> = program.getattr("program_name_attr")?.get_item("bx_g")?.extract()?;
    let mut found = Vec::new();
    for (at, (value, gradient)) in values.iter().zip(gradients).enumerate() {
        if matches!(gradient.as_str(), "Fake_var" | "FakeValue") && !value.getattr("stop_gradient")?.is_truthy()? {
            found.push(at);
        }
    }
    Ok(found)
}
