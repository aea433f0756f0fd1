//! FunctionGraph: records tensor work as statements, and hands each statement to the backend's builder at once.

mod building;
mod drawn;
mod export;
mod first_run;
mod inputs;
mod replay;
mod symbols;
mod undo;
mod unit;

use std::sync::atomic::AtomicBool;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::backend::{Backend, CallKind, GraphBuilder, KnownResult, MinProgramSize, TakenNumbers, TensorMeta};
use crate::compiler::{self, CheckResults};
use crate::entity::VarId;
use crate::fault;

use building::GraphBuilding;
use drawn::Drawing;
use export::Exporting;
use first_run::PromisedResults;
use inputs::GraphInputs;
use replay::{Call, Recording, Replay};
use symbols::Symbols;

pub(crate) use drawn::StatementPlace;

pub use crate::entity::SymbolId;
pub use crate::ir::{Exported, Statement, StatementIR, StatementKind};
pub use export::folder as export_folder;

/// The tensor work of one translation.
pub struct FunctionGraph<'py> {
    py: Python<'py>,
    /// The backend's builder of the statements.
    pub(crate) building: GraphBuilding<'py>,
    /// The names of the values.
    pub(crate) symbols: Symbols,
    /// What enters from outside.
    pub(crate) inputs: GraphInputs,
    /// The statements.
    pub(crate) ir: StatementIR,
    /// Calls of functions that made a part of the statements.
    units: Vec<unit::CallUnit>,
    /// The statements as calls on eager tensors.
    recording: Recording,
    /// Writes in place to tensors from outside.
    pub(crate) writes: Vec<Write>,
    /// True if making a statement changed an object that the trace had looked at. The trace is then repeated when it
    /// ends.
    pub is_stale: bool,
    exporting: Exporting,
    drawing: Drawing,
}

/// A finished graph.
pub(crate) struct CompiledGraph {
    /// Takes the inputs in order and returns a tuple of the outputs.
    pub(crate) callable: Py<PyAny>,
    pub(crate) ir: StatementIR,
    /// For the user's compiler, if there is one.
    pub(crate) for_compiler: Option<GraphForCompiler>,
}

/// What the user's compiler gets besides the StatementIR.
pub(crate) struct GraphForCompiler {
    /// The framework's program, if the backend has one.
    pub(crate) program: Option<Py<PyAny>>,
    /// Checks the results of what the compiler makes.
    pub(crate) check: CheckResults,
}

/// A write of a statement to a tensor from outside.
pub(crate) struct Write {
    pub(crate) input: SymbolId,
    pub(crate) after: SymbolId,
    /// Number of statements before the write.
    pub(crate) at: usize,
}

/// A point that the graph can be rolled back to. Statements behind it reach no output; the builder keeps them and
/// drops them at the end. Only where values have memory does the builder take them back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GraphMark {
    pub(crate) statements: usize,
    operations: usize,
}

impl<'py> FunctionGraph<'py> {
    /// Creates an empty graph. The backend is asked for a builder at the first statement.
    pub fn new(py: Python<'py>, backend: &'static dyn Backend) -> Self {
        FunctionGraph {
            py,
            building: GraphBuilding::new(py, backend),
            symbols: Symbols::default(),
            inputs: GraphInputs::default(),
            ir: StatementIR::default(),
            units: Vec::new(),
            recording: Recording::default(),
            writes: Vec::new(),
            is_stale: false,
            exporting: Exporting::new(),
            drawing: Drawing::default(),
        }
    }

    /// Returns the name of a symbol in the StatementIR.
    pub fn name(&self, symbol: SymbolId) -> &str {
        self.symbols.name(symbol)
    }

    /// Returns the backend's value of a symbol.
    pub fn value(&self, symbol: SymbolId) -> Bound<'py, PyAny> {
        self.symbols.value(symbol).bind(self.py).clone()
    }

    /// Returns the first symbol of a value of the graph, if it has one.
    pub fn symbol_of(&self, value: &Bound<'_, PyAny>) -> Option<SymbolId> {
        self.symbols.first_of(value)
    }

    /// True if no earlier symbol has the same value.
    pub fn is_first(&self, symbol: SymbolId) -> bool {
        self.symbols.first_of(&self.value(symbol)) == Some(symbol)
    }

    /// The variable of the input that has a value of the builder.
    pub(crate) fn passed_variable(&self, value: &Bound<'_, PyAny>) -> Option<VarId> {
        self.inputs.variable_of(self.symbols.first_of(value)?)
    }

    /// Returns the meta of a symbol's value.
    pub fn meta(&mut self, symbol: SymbolId) -> PyResult<Option<TensorMeta>> {
        let value = self.value(symbol);
        self.building.value_meta(&value)
    }

    /// Returns the result of a method of the value, if it is known before the graph runs.
    pub fn answer(&mut self, symbol: SymbolId, method: &str) -> PyResult<Option<KnownResult>> {
        let value = self.value(symbol);
        self.building.builder()?.answer(&value, method)
    }

    /// True if the graph holds no statement.
    pub fn is_empty(&self) -> bool {
        self.ir.statements.is_empty()
    }

    /// The tensors, arrays and numbers that each call passes to the graph, in order: their variables and symbols.
    pub fn inputs(&self) -> Vec<(VarId, SymbolId)> {
        self.inputs.passed().zip(self.inputs.passed_symbols()).collect()
    }

    /// The statements so far.
    pub fn ir(&self) -> &StatementIR {
        &self.ir
    }

    /// The present length, to roll back to.
    pub fn mark(&self) -> GraphMark {
        GraphMark { statements: self.ir.statements.len(), operations: self.building.operations() }
    }

    /// Removes the statements behind a mark, and the inputs whose variables are gone.
    pub fn roll_back(&mut self, mark: GraphMark, first_gone: VarId) {
        self.building.take_back(mark.operations);
        self.inputs.roll_back(first_gone);
        self.ir.statements.truncate(mark.statements);
        self.units.retain(|unit| unit.end <= mark.statements);
        self.recording.roll_back(mark.statements);
        self.writes.retain(|write| write.at < mark.statements);
        self.exporting.roll_back(mark.statements);
        self.drawing.places.truncate(mark.statements);
    }

    /// Makes a unit of the statements since a mark: they belong to one call of a translated function.
    pub fn end_unit(&mut self, function: &str, since: GraphMark) {
        let (start, end) = (since.statements, self.ir.statements.len());
        if start < end {
            self.units.push(unit::CallUnit { name: function.to_owned(), start, end });
        }
    }

    /// True if the trace has met a tensor: there are statements or inputs.
    pub fn has_met_tensors(&self) -> bool {
        !self.is_empty() || !self.inputs.is_empty()
    }

    /// True if the graph changes tensors from outside.
    pub fn writes_outside(&self) -> bool {
        !self.writes.is_empty()
    }

    /// True if the graph changes tensors from outside, or draws random numbers where values have memory.
    pub fn has_effects(&self) -> bool {
        self.writes_outside() || self.building.has_effects()
    }

    /// Finishes the graph.
    pub(crate) fn finish(&mut self, name: &str, outputs: &[SymbolId]) -> PyResult<CompiledGraph> {
        let inputs: Vec<Py<PyAny>> = self.inputs.passed_symbols().map(|symbol| self.value(symbol).unbind()).collect();
        let values: Vec<Py<PyAny>> = outputs.iter().map(|symbol| self.value(*symbol).unbind()).collect();
        let mut ir = std::mem::take(&mut self.ir);
        name.clone_into(&mut ir.name);
        ir.inputs = self.inputs.passed_symbols().map(|symbol| self.name(symbol).to_owned()).collect();
        ir.outputs = outputs.iter().map(|symbol| self.name(*symbol).to_owned()).collect();
        self.export(&ir);
        self.draw(&ir);
        let statements = ir.statements.len();
        unit::fold(&mut ir, &std::mem::take(&mut self.units));
        // No replay where values have memory: if a call raises, the effects of earlier calls would remain.
        let replay = if self.building.has_memory() { None } else { self.replay(statements, outputs)? };
        let mut builder = self.building.take()?;
        let program = if compiler::is_any() { builder.program(self.py) } else { None };
        let writes = self.write_back(&mut *builder);
        let promised = PromisedResults::of(self.building.backend(), &*builder, name, &values, self.py)?;
        let for_compiler =
            compiler::is_any().then(|| GraphForCompiler { program, check: promised.clone().check_results() });
        let Some((replay, weight)) = replay else {
            let callable = fault::of_backend(|| builder.finish(self.py, name, &inputs, &values))?;
            return Ok(CompiledGraph { callable: promised.watch(self.py, callable)?, ir, for_compiler });
        };
        let calls = replay.callable(self.py)?;
        let training = self.needs_grad(&*builder, outputs)?;
        let taken = TakenNumbers { numbers: self.inputs.numbers(), sizes: self.inputs.sizes_taken() };
        if weight < MinProgramSize::now(self.building.backend()).of(training, &taken, writes, outputs.len()) {
            ir.replayed = Some("fewer than MIN_GRAPH_SIZE");
            return Ok(CompiledGraph { callable: calls, ir, for_compiler });
        }
        let finish = || builder.finish_with_calls(self.py, name, &inputs, &values, calls.clone_ref(self.py));
        let callable = promised.watch(self.py, fault::of_backend(finish)?)?;
        ir.replayed = callable.is(&calls).then_some("as the backend asks");
        Ok(CompiledGraph { callable, ir, for_compiler })
    }

    /// Returns the replay of the statements and its weight; `None` if a statement was not kept or cannot be replayed.
    fn replay(&mut self, statements: usize, outputs: &[SymbolId]) -> PyResult<Option<(Replay, usize)>> {
        if !self.tells_values_apart() {
            return Ok(None);
        }
        let Some((mut calls, weight)) = self.recording.take(statements) else { return Ok(None) };
        let Some(parameters) = self.inputs.take_parameter_objects() else { return Ok(None) };
        for call in &mut calls {
            call.state = call.state.take().filter(|state| !state.check(self.py));
        }
        // What a call writes to is saved if a later call may raise. Nothing is saved for the last call: what it has
        // written when it raises is what it writes again.
        let mut later_may_raise = false;
        for call in calls.iter_mut().rev() {
            call.writes.are_always_saved = later_may_raise;
            later_may_raise |= call.may_raise;
        }
        for (at, call) in calls.iter_mut().enumerate().take(statements.saturating_sub(1)) {
            let written = self.writes.iter().filter(|write| write.at == at).map(|write| write.input);
            fault::of_backend(|| call.save_writes(self.py, self.building.backend(), written))?;
        }
        // The only statement of a graph changes the random numbers only where it succeeds, or raises for some numbers.
        let may_draw_twice = statements > 1 || later_may_raise;
        let first = |symbol: &SymbolId| self.symbols.first_of(&self.value(*symbol)).unwrap_or(*symbol);
        let replay = Replay {
            backend: self.building.backend(),
            state: fault::of_backend(|| self.building.backend().state_test(self.py))?,
            inputs: self.inputs.passed_symbols().collect(),
            parameters,
            calls,
            outputs: outputs.iter().map(first).collect(),
            symbols: self.symbols.len(),
            draws: may_draw_twice && self.building.draws_random_numbers()?,
            has_succeeded: AtomicBool::new(false),
        };
        Ok(Some((replay, weight)))
    }

    fn needs_grad(&self, builder: &dyn GraphBuilder, outputs: &[SymbolId]) -> PyResult<bool> {
        for output in outputs {
            if fault::of_backend(|| builder.value_meta(&self.value(*output)))?.is_some_and(|meta| meta.gradient.flows) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Tells the backend the final value of each written tensor from outside. Returns the number of these tensors.
    pub(crate) fn write_back(&self, builder: &mut dyn GraphBuilder) -> usize {
        let is_last = |at: usize, write: &Write| self.writes[at + 1..].iter().all(|later| later.input != write.input);
        let last = self.writes.iter().enumerate().filter(|(at, write)| is_last(*at, write));
        let value = |symbol: SymbolId| self.symbols.value(symbol);
        last.map(|(_, write)| builder.write_back(value(write.input), value(write.after))).count()
    }

    /// True if all statements so far can be replayed.
    pub(crate) fn can_be_called(&self) -> bool {
        self.tells_values_apart() && self.recording.is_whole()
    }

    fn tells_values_apart(&self) -> bool {
        self.symbols.tell_values_apart(self.recording.writes_in_place())
    }

    /// Keeps a statement for replay.
    pub(crate) fn record(
        &mut self,
        callee: (CallKind, &Bound<'py, PyAny>),
        args: (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
        result: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let Some(builder) = self.building.begun() else { return Ok(()) };
        self.recording.push(Call::new(self.building.backend(), builder, &self.symbols, callee, args, result)?);
        Ok(())
    }
}
