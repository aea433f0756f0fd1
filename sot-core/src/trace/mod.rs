//! The result of a simulation that has ended: the values that live on, the finished graph, and all that is needed to
//! write new code. Whatever can still add a guard, look into a value or fail happens while it is made. The code
//! generator only reads it.

mod break_details;
mod deaths;
mod reach;

use crate::backend::SizesMatter;
use crate::compiler;
use crate::error::Flow;
use crate::graph::{CompiledGraph, GraphForCompiler, StatementIR, SymbolId};
use crate::guard::Test;
use crate::machine::executor::{BreakPoint, Checkpoints, Frame, OpcodeExecutor, Trace};
use crate::machine::variable::VarId;
use crate::resume::ResumeSource;

use pyo3::prelude::*;

pub(crate) use crate::machine::executor::reachable::outlives;
pub use break_details::BreakDetails;
pub(crate) use reach::{replayed_values, written_objects};

/// A trace that has ended: it can be read but no longer changed. What is left of the machine are the checkpoints.
pub struct FinishedTrace<'a, 'py> {
    /// The variables, trackers and writes.
    pub trace: &'a Trace<'py>,
    /// The states to which the next attempt goes back for what new code cannot make.
    pub(crate) checkpoints: &'a Checkpoints,
    /// The graph, if a tensor of it lives on or it writes to a tensor from outside.
    pub graph: Option<FinishedGraph>,
}

/// The callable of a graph, with its inputs and outputs.
pub struct FinishedGraph {
    /// Takes the inputs and returns the outputs.
    pub callable: Py<PyAny>,
    /// The values that are passed to the callable.
    pub inputs: Vec<VarId>,
    /// The tensors that live on.
    pub outputs: Vec<VarId>,
    /// The statements of the graph.
    pub ir: StatementIR,
}

/// A trace whose frame returns.
pub struct ReturnTrace<'a, 'py> {
    /// The trace and the graph.
    pub finished: FinishedTrace<'a, 'py>,
    /// The return value of the frame.
    pub value: VarId,
    /// The variables of the frame that own the last reference to a value whose destruction runs code, in the order in
    /// which they are cleared.
    pub dying: Vec<VarId>,
}

/// A trace that ends in a graph break.
pub struct BreakTrace<'a, 'py> {
    /// The trace and the graph.
    pub finished: FinishedTrace<'a, 'py>,
    /// The frames where the graph breaks.
    pub at: &'a BreakPoint,
    /// The original code of each frame.
    pub sources: &'a [ResumeSource<'py>],
    /// The live values of the frames.
    pub live: Vec<VarId>,
    /// The values that the program has just dropped, and whose destruction is observable.
    pub dropped: Vec<VarId>,
    /// What the breaking instruction needs besides its operands.
    pub details: BreakDetails,
}

/// Ends the trace of a frame that returns `value`.
///
/// # Errors
///
/// A value that new code cannot make: a restart with a planned break, or a reason to leave the frame to CPython.
pub fn end_at_return<'a, 'py>(
    cx: &'a mut OpcodeExecutor<'py>,
    value: VarId,
    frame: &Frame,
    graph_name: &str,
) -> Flow<ReturnTrace<'a, 'py>> {
    reach::prepare(cx, &[value])?;
    let dying = deaths::owners_of_dying_values(cx, frame, value)?;
    reach::prepare(cx, &dying)?;
    let results: Vec<VarId> = [value].into_iter().chain(dying.iter().copied()).collect();
    // A frame whose graph nobody needs is left to CPython, which runs the operations.
    let graph = if is_needed(cx, &results) { finish_graph(cx, &results, graph_name)? } else { None };
    Ok(ReturnTrace { finished: FinishedTrace { trace: &cx.trace, checkpoints: &cx.checkpoints, graph }, value, dying })
}

/// Ends the trace at a graph break.
///
/// # Errors
///
/// As [`end_at_return`].
pub fn end_at_break<'a, 'py>(
    cx: &'a mut OpcodeExecutor<'py>,
    at: &'a BreakPoint,
    sources: &'a [ResumeSource<'py>],
    graph_name: &str,
) -> Flow<BreakTrace<'a, 'py>> {
    let details = BreakDetails::of(cx, at)?;
    let live = reach::live_values(&cx.trace, at, sources);
    for value in reach::all_reached(&cx.trace, &live) {
        cx.trace.vars.get(value).live_on(cx, value)?;
    }
    reach::prepare(cx, &live)?;
    reach::prepare(cx, &details.values())?;
    deaths::refuse_dropped(cx, &live)?;
    let graph = finish_graph(cx, &live, graph_name)?;
    let dropped = cx.all_dropped().collect();
    Ok(BreakTrace {
        finished: FinishedTrace { trace: &cx.trace, checkpoints: &cx.checkpoints, graph },
        at,
        sources,
        live,
        dropped,
        details,
    })
}

/// True if the graph has effects, or `results` or a write needs one of its tensors.
fn is_needed(cx: &mut OpcodeExecutor<'_>, results: &[VarId]) -> bool {
    cx.trace.graph.has_effects() || !reach::escaping_tensors(&cx.trace, results).is_empty()
}

/// Finishes the graph, unless it has no statements. Its outputs are the tensors that `results` or a write needs. A
/// graph without outputs runs, too: its operations may raise, or draw random numbers.
fn finish_graph(cx: &mut OpcodeExecutor<'_>, results: &[VarId], name: &str) -> Flow<Option<FinishedGraph>> {
    let (symbols, outputs): (Vec<SymbolId>, Vec<VarId>) =
        reach::escaping_tensors(&cx.trace, results).into_iter().unzip();
    if outputs.is_empty() && cx.trace.graph.is_empty() && !cx.trace.graph.has_effects() {
        return Ok(None);
    }
    assume_sharing(cx)?;
    let inputs: Vec<VarId> = cx.trace.graph.inputs.passed().collect();
    let has_effects = cx.trace.graph.has_effects();
    match cx.trace.graph.finish(name, &symbols) {
        Ok(graph) => {
            let (callable, ir) = compiled(&cx.trace, graph, (&inputs, has_effects))?;
            Ok(Some(FinishedGraph { callable, inputs, outputs, ir }))
        }
        Err(error) if error.is_instance_of::<SizesMatter>(cx.py) => Err(cx.settle_sizes(error.into())),
        Err(error) => Err(error.into()),
    }
}

/// Guards that the tensors which enter a graph that writes in place share memory as they do now.
fn assume_sharing(cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
    let Some(memory) = cx.runtime.backend().value_memory().filter(|_| cx.trace.graph.has_effects()) else {
        return Ok(());
    };
    let (mut tensors, mut trackers) = (Vec::new(), Vec::new());
    for variable in cx.trace.graph.inputs.passed().chain(cx.trace.graph.inputs.parameters()) {
        if let Some(object) = cx.trace.vars.get(variable).object() {
            tensors.push(object.bind(cx.py).clone());
            trackers.push(cx.trace.vars.tracker(variable));
        }
    }
    if let ([first, others @ ..], Some(test)) = (&trackers[..], memory.sharing_test(&tensors)?) {
        cx.trace.guards.add(*first, Test::Objects { others: others.into(), test });
    }
    Ok(())
}

/// Compiles the finished graph with the program's own compiler, if one is registered. A graph that writes in place
/// keeps the backend's callable.
fn compiled(
    trace: &Trace<'_>,
    graph: CompiledGraph,
    (inputs, has_effects): (&[VarId], bool),
) -> Flow<(Py<PyAny>, StatementIR)> {
    let py = trace.py;
    let CompiledGraph { callable, ir, for_compiler } = graph;
    let Some(GraphForCompiler { program, check }) = for_compiler.filter(|_| !has_effects) else {
        return Ok((callable, ir));
    };
    let given = |input: &VarId| trace.vars.get(*input).object().map(|object| object.bind(py).clone());
    let input = compiler::CompilerInput {
        ir: &ir,
        program: program.map(|program| program.into_bound(py)),
        inputs: inputs.iter().map(given).collect(),
        callable: &callable,
        check,
    };
    let made = compiler::compile(py, input)?;
    Ok((made.unwrap_or(callable), ir))
}
