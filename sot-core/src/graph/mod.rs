//! The FunctionGraph: records tensor work as statements while the backend builds them, one by one.

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
pub use replay::said_min_size;

pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) value: Py<PyAny>,
    /// The memory it has, once that was asked for.
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
    units: Vec<unit::Unit>,
    building: Duration,
    /// Smaller graphs are made again one by one.
    min_size: MinSize,
    /// How many inputs are numbers.
    pub(crate) numbers: usize,
    /// How many arguments of statements are open sizes, or computed from such; one more if any tensor enters with one.
    sizes_taken: usize,
    /// The first statements, or all of them, as they are made again; `None` for one that cannot be.
    calls: Vec<Option<Call>>,
    values: Values,
    pub(crate) parameters: Vec<(SymbolId, VarId, Option<WeakRef>)>,
    /// Tensors from outside that are changed in place.
    pub(crate) writes: Vec<Write>,
    /// Where values have memory.
    memory: Option<Memory>,
    /// Whether some value that enters the graph is several symbols, which only a program keeps apart.
    ambiguous: bool,
    /// Whether some statement gives one of its arguments, as a module does that leaves its input alone.
    gives_argument: bool,
    /// Whether making a statement has changed what the trace had seen before: it is made anew when it ends.
    pub is_stale: bool,
    /// The sizes that are values of the graph, by the name of the tensor and the axis.
    sizes: HashMap<(String, usize), VarId>,
    /// The folder the graph is exported to.
    export_to: Option<PathBuf>,
    /// The framework's program of the finished graph, where somebody may ask for it.
    pub(crate) program: Option<Py<PyAny>>,
    /// What looks at the results of a finished graph that the program's own compiler runs.
    pub(crate) check: Option<CheckResults>,
    /// Of an exported graph: what the result of each statement is assigned to.
    targets: Vec<String>,
    /// Where the statements were made, if reports are to show it.
    places: Vec<StatementPlace>,
    drawn: Option<GraphReport>,
}

/// What a statement did to a tensor from outside.
pub(crate) struct Write {
    pub(crate) input: SymbolId,
    pub(crate) after: SymbolId,
    /// The number of statements before it.
    pub(crate) at: usize,
}

/// A point the graph can be rolled back to. The builder keeps the statements, which reach no output and are dropped, or
/// takes them back where values have memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GraphMark {
    pub(crate) statements: usize,
    operations: usize,
}

impl<'py> FunctionGraph<'py> {
    /// An empty graph; the backend is asked for a builder at the first statement.
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

    /// Lets the backend work, and counts the time it takes.
    pub(crate) fn build<T>(&mut self, work: impl FnOnce(&mut dyn GraphBuilder) -> PyResult<T>) -> PyResult<T> {
        let start = Instant::now();
        let result = self.builder().and_then(|builder| fault::in_backend(|| work(builder)));
        self.building += start.elapsed();
        result
    }

    /// What is known of a value of the graph; nothing of what is none.
    pub(crate) fn value_meta(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Option<TensorMeta>> {
        self.builder().and_then(|builder| fault::of_backend(|| builder.value_meta(object)))
    }

    /// Time the backend took so far for the statements.
    pub fn building(&self) -> Duration {
        self.building
    }

    /// The symbol of what enters the graph.
    pub(crate) fn add_input(&mut self, value: Py<PyAny>) -> SymbolId {
        let (id, is_new) = self.add_symbol(value);
        self.ambiguous |= !is_new;
        id
    }

    /// The symbol of a statement's result.
    pub(crate) fn add_result(&mut self, value: Py<PyAny>) -> SymbolId {
        let (id, is_new) = self.add_symbol(value);
        self.gives_argument |= !is_new;
        id
    }

    /// A symbol, and whether no other one is this value.
    fn add_symbol(&mut self, value: Py<PyAny>) -> (SymbolId, bool) {
        let id = SymbolId(self.symbols.len() as u32);
        let is_new = self.values.insert(&value, id);
        self.symbols.push(Symbol { name: format!("var_{}", id.0), value, memory: None });
        (id, is_new)
    }

    /// The name of a symbol in the StatementIR.
    pub fn name(&self, symbol: SymbolId) -> &str {
        &self.symbols[symbol.0 as usize].name
    }

    /// The backend's value of a symbol.
    pub fn value(&self, symbol: SymbolId) -> Bound<'py, PyAny> {
        self.symbols[symbol.0 as usize].value.bind(self.py).clone()
    }

    /// Whether no earlier symbol is the same value.
    pub fn is_first(&self, symbol: SymbolId) -> bool {
        self.values.get(&self.value(symbol)) == Some(symbol)
    }

    /// What a method of the value gives, where that is known before the graph runs.
    pub fn answer(&mut self, symbol: SymbolId, method: &str) -> PyResult<Option<Py<PyAny>>> {
        let value = self.value(symbol);
        self.builder()?.answer(&value, method)
    }

    /// Whether the graph holds no statement.
    pub fn is_empty(&self) -> bool {
        self.ir.statements.is_empty()
    }

    /// The statements so far.
    pub fn ir(&self) -> &StatementIR {
        &self.ir
    }

    /// The variables that must be given at each call, in the order of the graph's inputs.
    pub fn inputs(&self) -> Vec<VarId> {
        self.inputs.iter().map(|(_, variable)| *variable).collect()
    }

    /// The present length.
    pub fn mark(&self) -> GraphMark {
        GraphMark { statements: self.ir.statements.len(), operations: self.operations() }
    }

    /// Forgets the statements after a mark, and the inputs whose variables are gone.
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

    /// The size of a tensor's dimension, if it is a value of the graph already.
    pub(crate) fn known_size(&self, tensor: &str, axis: usize) -> Option<VarId> {
        self.sizes.get(&(tensor.to_owned(), axis)).copied()
    }

    /// Notes that a statement is given an open size, or that a tensor with one enters.
    pub(crate) fn note_size_taken(&mut self) {
        self.sizes_taken += 1;
    }

    /// Notes the value that is the size of a dimension.
    pub(crate) fn note_size(&mut self, tensor: String, axis: usize, value: VarId) {
        self.sizes.insert((tensor, axis), value);
    }

    /// Makes one unit of the statements since a mark: the call of a function that stays together.
    pub fn end_unit(&mut self, function: &str, since: GraphMark) {
        let (start, end) = (since.statements, self.ir.statements.len());
        if start < end {
            self.units.push(unit::Unit { name: function.to_owned(), start, end });
        }
    }

    /// Whether any tensor from outside was used.
    pub fn has_inputs(&self) -> bool {
        !self.external.is_empty()
    }

    /// Whether it changes tensors from outside.
    pub fn writes_outside(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Ends the graph: the callable, and its StatementIR.
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
        // Calls one by one would leave behind what they did before one of them raises.
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

    /// The statements to be made again one by one, if all of them were kept and can be, and what they weigh.
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

    /// Tells the backend what tensors from outside have in the end, and says how many there are.
    pub(crate) fn write_back(&self, builder: &mut dyn GraphBuilder) -> usize {
        let is_last = |at: usize, write: &Write| self.writes[at + 1..].iter().all(|later| later.input != write.input);
        let last = self.writes.iter().enumerate().filter(|(at, write)| is_last(*at, write));
        let value = |symbol: SymbolId| &self.symbols[symbol.0 as usize].value;
        last.map(|(_, write)| builder.write_back(value(write.input), value(write.after))).count()
    }

    /// Whether the statements so far can be made again one by one.
    pub(crate) fn can_be_called(&self) -> bool {
        self.tells_values_apart() && self.calls.iter().all(Option::is_some)
    }

    /// Whether a call knows by a value which tensor it is given. What is given back and then changed in place would be
    /// two.
    fn tells_values_apart(&self) -> bool {
        let changes = |call: &Option<Call>| call.as_ref().is_some_and(|call| call.in_place);
        !(self.ambiguous || self.gives_argument && self.calls.iter().any(changes))
    }

    /// Keeps a statement as it was made.
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
