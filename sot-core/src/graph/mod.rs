//! FunctionGraph: records tensor work as statements, and hands each statement to the backend's builder at once.

mod drawn;
mod export;
mod first_run;
mod memory;
mod replay;
mod unit;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rustc_hash::FxHashMap;

use crate::backend::{Backend, CallKind, GraphBuilder, TensorMeta};
use crate::compiler::{self, CheckResults};
use crate::cpython::WeakRef;
use crate::entity::VarId;
use crate::fault;
use crate::report::GraphReport;

use first_run::PromisedResults;
use memory::Memory;
use replay::{Call, MinSize, Replay, Values};

pub(crate) use drawn::StatementPlace;

pub use crate::entity::SymbolId;
pub use crate::ir::{Exported, Statement, StatementIR, StatementKind};
pub use export::folder as export_folder;
pub use replay::min_size_setting;

pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) value: Py<PyAny>,
    /// Memory of the value, once it was asked for.
    pub(crate) memory: Option<u64>,
}

/// The tensor work of one translation.
pub struct FunctionGraph<'py> {
    py: Python<'py>,
    backend: &'static dyn Backend,
    builder: Option<Box<dyn GraphBuilder>>,
    pub(crate) symbols: Vec<Symbol>,
    pub(crate) inputs: Vec<(SymbolId, VarId)>,
    pub(crate) external: FxHashMap<VarId, SymbolId>,
    pub(crate) ir: StatementIR,
    units: Vec<unit::CallUnit>,
    building: Duration,
    /// Minimum size of a graph that is compiled. A smaller graph is called operation by operation.
    min_size: MinSize,
    /// Number of inputs that are numbers.
    pub(crate) numbers: usize,
    /// Number of arguments of statements that are open sizes or computed from these, and one more for each tensor
    /// that enters with an open size.
    sizes_taken: usize,
    /// For each statement the call that replays it; `None` for a statement that cannot be replayed.
    calls: Vec<Option<Call>>,
    values: Values,
    pub(crate) parameters: Vec<(SymbolId, VarId, Option<WeakRef>)>,
    /// Writes in place to tensors from outside.
    pub(crate) writes: Vec<Write>,
    /// State of the memory protocol, if the backend's values have memory.
    memory: Option<Memory>,
    /// True if one value entered the graph as several symbols. Only a program keeps these apart, replay does not.
    ambiguous: bool,
    /// True if a statement returns one of its arguments, as a module does that leaves its input unchanged.
    gives_argument: bool,
    /// True if making a statement changed an object that the trace had looked at. The trace is then repeated when it
    /// ends.
    pub is_stale: bool,
    /// Variables of the sizes that are values of the graph, by name of the tensor and axis.
    sizes: HashMap<(String, usize), VarId>,
    /// The folder that the graph is exported to.
    export_to: Option<PathBuf>,
    /// The framework's program of the finished graph, if the user's compiler may ask for it.
    pub(crate) program: Option<Py<PyAny>>,
    /// Checks the results of a finished graph that the user's compiler runs.
    pub(crate) check: Option<CheckResults>,
    /// For an exported graph: the target that each statement's result is assigned to.
    targets: Vec<String>,
    /// Where each statement was made, if reports show it.
    places: Vec<StatementPlace>,
    drawn: Option<GraphReport>,
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
            backend,
            builder: None,
            symbols: Vec::new(),
            inputs: Vec::new(),
            external: FxHashMap::default(),
            ir: StatementIR::default(),
            units: Vec::new(),
            building: Duration::ZERO,
            min_size: MinSize::now(),
            numbers: 0,
            sizes_taken: 0,
            calls: Vec::new(),
            values: Values::default(),
            parameters: Vec::new(),
            writes: Vec::new(),
            memory: backend.value_memory().map(|_| Memory::default()),
            ambiguous: false,
            gives_argument: false,
            is_stale: false,
            sizes: HashMap::new(),
            export_to: export::folder(),
            program: None,
            check: None,
            targets: Vec::new(),
            places: Vec::new(),
            drawn: None,
        }
    }

    pub(crate) fn builder(&mut self) -> PyResult<&mut dyn GraphBuilder> {
        if self.builder.is_none() {
            self.builder = Some(fault::of_backend(|| self.backend.begin(self.py))?);
        }
        if let Some(error) = self.memory.as_mut().and_then(Memory::error) {
            return Err(error);
        }
        match &mut self.builder {
            Some(builder) => Ok(&mut **builder),
            None => Err(pyo3::exceptions::PyRuntimeError::new_err("the backend gave no builder")),
        }
    }

    /// Lets the backend's builder work, and measures its time.
    pub(crate) fn build<T>(&mut self, work: impl FnOnce(&mut dyn GraphBuilder) -> PyResult<T>) -> PyResult<T> {
        self.timed(|builder| fault::in_backend(|| work(builder)))
    }

    /// Returns the meta of a value of the graph; `None` if the object is no such value.
    pub(crate) fn value_meta(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Option<TensorMeta>> {
        self.timed(|builder| fault::of_backend(|| builder.value_meta(object)))
    }

    fn timed<T>(&mut self, work: impl FnOnce(&mut dyn GraphBuilder) -> PyResult<T>) -> PyResult<T> {
        let start = Instant::now();
        let result = self.builder().and_then(work);
        self.building += start.elapsed();
        result
    }

    /// Time that the backend has spent on the statements so far.
    pub fn building(&self) -> Duration {
        self.building
    }

    /// Adds a symbol for a value that enters the graph.
    pub(crate) fn add_input(&mut self, value: Py<PyAny>) -> SymbolId {
        let (id, is_new) = self.add_symbol(value);
        self.ambiguous |= !is_new;
        id
    }

    /// Adds a symbol for a statement's result.
    pub(crate) fn add_result(&mut self, value: Py<PyAny>) -> SymbolId {
        let (id, is_new) = self.add_symbol(value);
        self.gives_argument |= !is_new;
        id
    }

    /// Adds a symbol. Returns also whether no earlier symbol has this value.
    fn add_symbol(&mut self, value: Py<PyAny>) -> (SymbolId, bool) {
        let id = SymbolId(self.symbols.len() as u32);
        let is_new = self.values.insert(&value, id);
        self.symbols.push(Symbol { name: format!("var_{}", id.0), value, memory: None });
        (id, is_new)
    }

    /// Returns the name of a symbol in the StatementIR.
    pub fn name(&self, symbol: SymbolId) -> &str {
        &self.symbols[symbol.0 as usize].name
    }

    /// Returns the backend's value of a symbol.
    pub fn value(&self, symbol: SymbolId) -> Bound<'py, PyAny> {
        self.symbols[symbol.0 as usize].value.bind(self.py).clone()
    }

    /// True if no earlier symbol has the same value.
    pub fn is_first(&self, symbol: SymbolId) -> bool {
        self.values.get(&self.value(symbol)) == Some(symbol)
    }

    /// Returns the result of a method of the value, if it is known before the graph runs.
    pub fn answer(&mut self, symbol: SymbolId, method: &str) -> PyResult<Option<Py<PyAny>>> {
        let value = self.value(symbol);
        self.builder()?.answer(&value, method)
    }

    /// True if the graph holds no statement.
    pub fn is_empty(&self) -> bool {
        self.ir.statements.is_empty()
    }

    /// The statements so far.
    pub fn ir(&self) -> &StatementIR {
        &self.ir
    }

    /// Variables that new code passes to the graph, in the order of the graph's inputs.
    pub fn inputs(&self) -> Vec<VarId> {
        self.inputs.iter().map(|(_, variable)| *variable).collect()
    }

    /// The present length, to roll back to.
    pub fn mark(&self) -> GraphMark {
        GraphMark { statements: self.ir.statements.len(), operations: self.operations() }
    }

    /// Removes the statements behind a mark, and the inputs whose variables are gone.
    pub fn roll_back(&mut self, mark: GraphMark, first_gone: VarId) {
        self.take_back(mark.operations);
        self.ir.statements.truncate(mark.statements);
        self.units.retain(|unit| unit.end <= mark.statements);
        self.calls.truncate(mark.statements);
        self.targets.truncate(mark.statements);
        self.places.truncate(mark.statements);
        self.writes.retain(|write| write.at < mark.statements);
        self.parameters.retain(|(_, variable, _)| *variable < first_gone);
        self.inputs.retain(|(_, variable)| *variable < first_gone);
        self.external.retain(|variable, _| *variable < first_gone);
        self.sizes.retain(|_, variable| *variable < first_gone);
    }

    /// Returns the variable of a dimension's size, if the size is a value of the graph already.
    pub(crate) fn known_size(&self, tensor: &str, axis: usize) -> Option<VarId> {
        self.sizes.get(&(tensor.to_owned(), axis)).copied()
    }

    /// Counts an open size that is given to a statement, or a tensor that enters with an open size.
    pub(crate) fn note_size_taken(&mut self) {
        self.sizes_taken += 1;
    }

    /// Notes the variable that holds the size of a dimension.
    pub(crate) fn note_size(&mut self, tensor: String, axis: usize, value: VarId) {
        self.sizes.insert((tensor, axis), value);
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
        !self.is_empty() || self.has_inputs()
    }

    /// True if a tensor from outside was used.
    pub fn has_inputs(&self) -> bool {
        !self.external.is_empty()
    }

    /// True if the graph changes tensors from outside.
    pub fn writes_outside(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Finishes the graph. Returns its callable and its StatementIR.
    pub fn finish(&mut self, name: &str, outputs: &[SymbolId]) -> PyResult<(Py<PyAny>, StatementIR)> {
        let inputs: Vec<Py<PyAny>> = self.inputs.iter().map(|(symbol, _)| self.value(*symbol).unbind()).collect();
        let values: Vec<Py<PyAny>> = outputs.iter().map(|symbol| self.value(*symbol).unbind()).collect();
        let mut ir = std::mem::take(&mut self.ir);
        name.clone_into(&mut ir.name);
        ir.inputs = self.inputs.iter().map(|(symbol, _)| self.name(*symbol).to_owned()).collect();
        ir.outputs = outputs.iter().map(|symbol| self.name(*symbol).to_owned()).collect();
        self.export(&ir);
        self.draw(&ir);
        let statements = ir.statements.len();
        unit::fold(&mut ir, &std::mem::take(&mut self.units));
        // No replay where values have memory: if a call raises, the effects of earlier calls would remain.
        let replay = if self.has_memory() { None } else { self.replay(statements, outputs)? };
        self.builder()?;
        let mut builder = self
            .builder
            .take()
            .ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("the graph was already finished"))?;
        self.program = if compiler::is_any() { builder.program(self.py) } else { None };
        let writes = self.write_back(&mut *builder);
        let promised = PromisedResults::of(self.backend, &*builder, name, &values, self.py)?;
        self.check = compiler::is_any().then(|| promised.clone().check_results());
        let Some((replay, weight)) = replay else {
            let callable = fault::of_backend(|| builder.finish(self.py, name, &inputs, &values))?;
            return Ok((promised.watch(self.py, callable)?, ir));
        };
        let calls = replay.callable(self.py)?;
        let training = self.needs_grad(&*builder, outputs)?;
        let least = self.min_size.of(training, self.numbers, writes, outputs.len());
        if weight < least + self.min_size.of_sizes(self.sizes_taken) {
            ir.replayed = Some("fewer than MIN_GRAPH_SIZE");
            return Ok((calls, ir));
        }
        let finish = || builder.finish_with_calls(self.py, name, &inputs, &values, calls.clone_ref(self.py));
        let callable = promised.watch(self.py, fault::of_backend(finish)?)?;
        ir.replayed = callable.is(&calls).then_some("as the backend asks");
        Ok((callable, ir))
    }

    /// Returns the replay of the statements and its weight; `None` if a statement was not kept or cannot be replayed.
    fn replay(&mut self, statements: usize, outputs: &[SymbolId]) -> PyResult<Option<(Replay, usize)>> {
        let weight: Option<usize> = self.calls.iter().map(|call| Some(call.as_ref()?.weight)).sum();
        let Some(weight) = weight.filter(|_| self.tells_values_apart()) else { return Ok(None) };
        if self.calls.len() < statements {
            return Ok(None);
        }
        let mut parameters = Vec::new();
        for (symbol, _, weak) in std::mem::take(&mut self.parameters) {
            let Some(weak) = weak else { return Ok(None) };
            parameters.push((symbol, weak));
        }
        let mut calls: Vec<Call> = std::mem::take(&mut self.calls).into_iter().flatten().collect();
        for call in &mut calls {
            call.state = call.state.take().filter(|state| !state.check(self.py));
        }
        let replay = Replay {
            state: fault::of_backend(|| self.backend.state_test(self.py))?,
            inputs: self.inputs.iter().map(|(symbol, _)| *symbol).collect(),
            parameters,
            calls,
            outputs: outputs.iter().map(|&symbol| self.values.get(&self.value(symbol)).unwrap_or(symbol)).collect(),
            symbols: self.symbols.len(),
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
        let value = |symbol: SymbolId| &self.symbols[symbol.0 as usize].value;
        last.map(|(_, write)| builder.write_back(value(write.input), value(write.after))).count()
    }

    /// True if all statements so far can be replayed.
    pub(crate) fn can_be_called(&self) -> bool {
        self.tells_values_apart() && self.calls.iter().all(Option::is_some)
    }

    /// True if a value identifies its tensor in a replay. It does not if one value entered as several symbols, or if
    /// a statement returned its argument and some call writes in place.
    fn tells_values_apart(&self) -> bool {
        let changes = |call: &Option<Call>| call.as_ref().is_some_and(|call| call.in_place);
        !(self.ambiguous || self.gives_argument && self.calls.iter().any(changes))
    }

    /// Keeps a statement for replay.
    pub(crate) fn record(
        &mut self,
        callee: (CallKind, &Bound<'py, PyAny>),
        args: (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
        result: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let Some(builder) = &self.builder else { return Ok(()) };
        self.calls.push(Call::new(self.backend, &**builder, &self.values, callee, args, result)?);
        Ok(())
    }
}
