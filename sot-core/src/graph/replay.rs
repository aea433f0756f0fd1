//! The calls of a graph, kept for replay on eager tensors. A graph of a few statements runs that way, because a run
//! of a program costs more than the calls. Objects of the user's are held by weak references only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use pyo3::exceptions::{PyReferenceError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySlice, PyString, PyTuple};

use super::undo::UndoneWrites;
use super::{SymbolId, Symbols};
use crate::backend::{Backend, CallKind, GraphBuilder, StateTest};
use crate::cpython::{self, WeakRef};

/// The statements of a graph so far, kept for replay.
#[derive(Default)]
pub(super) struct Recording {
    /// For each statement the call that replays it; `None` for a statement that cannot be replayed.
    calls: Vec<Option<Call>>,
}

impl Recording {
    /// Keeps the call of the next statement; `None` if the statement cannot be replayed.
    pub(super) fn push(&mut self, call: Option<Call>) {
        self.calls.push(call);
    }

    /// Removes the calls of the statements behind the first `statements`.
    pub(super) fn roll_back(&mut self, statements: usize) {
        self.calls.truncate(statements);
    }

    /// True if all statements can be replayed.
    pub(super) fn is_whole(&self) -> bool {
        self.calls.iter().all(Option::is_some)
    }

    /// True if some statement writes in place.
    pub(super) fn writes_in_place(&self) -> bool {
        self.calls.iter().flatten().any(|call| call.in_place)
    }

    /// Takes the calls of all `statements`, with their weight; `None` if one was not kept or cannot be replayed.
    pub(super) fn take(&mut self, statements: usize) -> Option<(Vec<Call>, usize)> {
        if self.calls.len() < statements {
            return None;
        }
        let calls: Vec<Call> = std::mem::take(&mut self.calls).into_iter().collect::<Option<_>>()?;
        let weight: isize = calls.iter().map(|call| call.weight).sum();
        Some((calls, usize::try_from(weight).unwrap_or(0)))
    }
}

/// One call of a replay.
pub(super) struct Call {
    /// Global state that the call is made under, if it differs from the state of the whole graph.
    pub(super) state: Option<Arc<dyn StateTest>>,
    callee: ReplayedCallee,
    arguments: Vec<ReplayArgument>,
    /// Names of the keyword arguments, which come last.
    keywords: Option<Py<PyTuple>>,
    result: Pattern,
    /// True if the first argument is the result.
    pub(super) in_place: bool,
    pub(super) writes: CallWrites,
    /// True if the call may raise although it did not in an earlier run ([`GraphBuilder::may_raise`]).
    pub(super) may_raise: bool,
    pub(super) weight: isize,
}

/// What a call with later calls writes to. It is saved before the call.
#[derive(Default)]
pub(super) struct CallWrites {
    /// Tensors from outside.
    written: Vec<SymbolId>,
    /// True if the call may write to other tensors, too.
    beside: bool,
    /// True if they are saved in each run; otherwise they are saved only until a run has succeeded.
    pub(super) are_always_saved: bool,
}

#[derive(Debug)]
enum ReplayedCallee {
    Function(Py<PyAny>),
    /// A method of the first argument.
    Method(Py<PyString>),
    /// A method of an object that is not part of the graph.
    MethodOf(WeakRef, &'static str, Py<PyString>),
}

/// How an argument is built.
#[derive(Debug)]
enum ReplayArgument {
    Symbol(SymbolId),
    Constant(Py<PyAny>),
    Tuple(Vec<ReplayArgument>),
    List(Vec<ReplayArgument>),
    Slice(Box<[ReplayArgument; 3]>),
}

/// Positions of the symbols in a result.
#[derive(Debug)]
enum Pattern {
    Symbol(SymbolId),
    Items(Vec<Pattern>),
    Ignored,
}

impl Call {
    /// Returns the call; `None` if it cannot be replayed. Only tensors, constants and objects of the framework may be
    /// part of a call, no other objects of the user's.
    pub(super) fn new(
        backend: &dyn Backend,
        builder: &dyn GraphBuilder,
        symbols: &Symbols,
        (kind, callee): (CallKind, &Bound<'_, PyAny>),
        (args, kwargs): (&Bound<'_, PyTuple>, Option<&Bound<'_, PyDict>>),
        result: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Call>> {
        let Some(weight) = builder.weight(kind, callee, args)? else { return Ok(None) };
        let may_raise = builder.may_raise(kind, callee, (args, kwargs))?;
        let callee = match kind {
            CallKind::Api => ReplayedCallee::Function(callee.clone().unbind()),
            CallKind::InPlace if !callee.is_instance_of::<PyString>() => {
                ReplayedCallee::Function(callee.clone().unbind())
            }
            CallKind::Method | CallKind::InPlace => ReplayedCallee::Method(callee.cast::<PyString>()?.clone().unbind()),
            CallKind::Object(word) => {
                let method = PyString::intern(callee.py(), builder.object_method(callee)?).unbind();
                let Ok(object) = WeakRef::new(callee, None) else { return Ok(None) };
                ReplayedCallee::MethodOf(object, word, method)
            }
        };
        let mut given: Vec<Bound<'_, PyAny>> = args.iter().collect();
        let keywords = match kwargs {
            Some(kwargs) => {
                given.extend(kwargs.values());
                Some(PyTuple::new(args.py(), kwargs.keys())?.unbind())
            }
            None => None,
        };
        let Some(arguments) = templates(backend, symbols, given) else { return Ok(None) };
        if holds_dict(result) {
            return Ok(None);
        }
        Ok(Some(Call {
            state: builder.state(),
            callee,
            arguments,
            keywords,
            result: pattern(symbols, result),
            in_place: kind == CallKind::InPlace,
            writes: CallWrites::default(),
            may_raise,
            weight,
        }))
    }

    fn run<'py>(
        &self,
        py: Python<'py>,
        registers: &mut ReplayRegisters<'py>,
        (undo, has_succeeded): (&mut UndoneWrites<'py>, bool),
    ) -> PyResult<()> {
        let made = self.arguments.iter().map(|argument| argument.make(py, registers)).collect::<PyResult<Vec<_>>>()?;
        if self.writes.are_always_saved || !has_succeeded {
            for written in &self.writes.written {
                undo.save(&registers.get(*written)?)?;
            }
            if self.writes.beside {
                self.save_beside(py, &made, undo)?;
            }
        }
        let keywords = self.keywords.as_ref().map(|names| names.bind(py));
        let result = match &self.callee {
            ReplayedCallee::Function(function) => cpython::call_with_names(function.bind(py), &made, keywords)?,
            ReplayedCallee::Method(name) => cpython::call_method_with_names(name.bind(py), &made, keywords)?,
            ReplayedCallee::MethodOf(of, word, name) => {
                let gone = || PyReferenceError::new_err(format!("a {word} no longer exists"));
                let of = of.get(py).ok_or_else(gone)?;
                let arguments: Vec<_> = std::iter::once(of).chain(made.iter().cloned()).collect();
                cpython::call_method_with_names(name.bind(py), &arguments, keywords)?
            }
        };
        match made.first() {
            Some(changed) if self.in_place => self.result.take(changed.clone(), registers),
            _ => self.result.take(result, registers),
        }
    }

    /// Saves the tensors that the call writes to besides its operands.
    fn save_beside<'py>(
        &self,
        py: Python<'py>,
        args: &[Bound<'py, PyAny>],
        undo: &mut UndoneWrites<'py>,
    ) -> PyResult<()> {
        let Some(callee) = self.callee_outside(py) else { return Ok(()) };
        for tensor in undo.written_beside(&callee, args)? {
            undo.save(&tensor)?;
        }
        Ok(())
    }

    /// Makes the call save what it writes to before it runs.
    pub(super) fn save_writes(
        &mut self,
        py: Python<'_>,
        backend: &dyn Backend,
        written: impl Iterator<Item = SymbolId>,
    ) -> PyResult<()> {
        self.writes.written.extend(written);
        let callee = self.callee_outside(py);
        self.writes.beside = callee.map_or(Ok(false), |callee| backend.eager_tensors().writes_beside(&callee))?;
        Ok(())
    }

    /// The function or object that is called; `None` for a method of an operand.
    fn callee_outside<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match &self.callee {
            ReplayedCallee::Function(function) => Some(function.bind(py).clone()),
            ReplayedCallee::MethodOf(of, ..) => of.get(py),
            ReplayedCallee::Method(_) => None,
        }
    }
}

fn templates<'py>(
    backend: &dyn Backend,
    symbols: &Symbols,
    items: impl IntoIterator<Item = Bound<'py, PyAny>>,
) -> Option<Vec<ReplayArgument>> {
    items.into_iter().map(|item| template(backend, symbols, &item)).collect()
}

fn template(backend: &dyn Backend, symbols: &Symbols, object: &Bound<'_, PyAny>) -> Option<ReplayArgument> {
    if let Some(symbol) = symbols.first_of(object) {
        return Some(ReplayArgument::Symbol(symbol));
    }
    if cpython::is_atom(object) || backend.constants().is_unchanging(object) {
        return Some(ReplayArgument::Constant(object.clone().unbind()));
    }
    if let Ok(tuple) = object.cast_exact::<PyTuple>() {
        return templates(backend, symbols, tuple.iter()).map(ReplayArgument::Tuple);
    }
    if let Ok(list) = object.cast_exact::<PyList>() {
        return templates(backend, symbols, list.iter()).map(ReplayArgument::List);
    }
    if let Ok(slice) = object.cast_exact::<PySlice>() {
        let parts = ["start", "stop", "step"].map(|name| template(backend, symbols, &slice.getattr(name).ok()?));
        let [Some(start), Some(end), Some(step)] = parts else { return None };
        return Some(ReplayArgument::Slice(Box::new([start, end, step])));
    }
    None
}

/// True if the result contains a dict: tensors are not looked for in dicts.
fn holds_dict(result: &Bound<'_, PyAny>) -> bool {
    if let Ok(tuple) = result.cast::<PyTuple>() {
        return tuple.iter().any(|item| holds_dict(&item));
    }
    if let Ok(list) = result.cast::<PyList>() {
        return list.iter().any(|item| holds_dict(&item));
    }
    result.is_instance_of::<PyDict>()
}

fn pattern(symbols: &Symbols, result: &Bound<'_, PyAny>) -> Pattern {
    if let Some(symbol) = symbols.first_of(result) {
        return Pattern::Symbol(symbol);
    }
    if let Ok(tuple) = result.cast::<PyTuple>() {
        return Pattern::Items(tuple.iter().map(|item| pattern(symbols, &item)).collect());
    }
    if let Ok(list) = result.cast::<PyList>() {
        return Pattern::Items(list.iter().map(|item| pattern(symbols, &item)).collect());
    }
    Pattern::Ignored
}

impl ReplayArgument {
    fn make<'py>(&self, py: Python<'py>, registers: &ReplayRegisters<'py>) -> PyResult<Bound<'py, PyAny>> {
        let all =
            |items: &[ReplayArgument]| items.iter().map(|item| item.make(py, registers)).collect::<PyResult<Vec<_>>>();
        Ok(match self {
            ReplayArgument::Symbol(symbol) => registers.get(*symbol)?,
            ReplayArgument::Constant(object) => object.bind(py).clone(),
            ReplayArgument::Tuple(items) => PyTuple::new(py, all(items)?)?.into_any(),
            ReplayArgument::List(items) => PyList::new(py, all(items)?)?.into_any(),
            ReplayArgument::Slice(parts) => {
                let [start, end, step] = &**parts;
                let made = [start.make(py, registers)?, end.make(py, registers)?, step.make(py, registers)?];
                cpython::new_slice(py, made.each_ref())?
            }
        })
    }

    fn symbols(&self, found: &mut Vec<SymbolId>) {
        match self {
            ReplayArgument::Symbol(symbol) => found.push(*symbol),
            ReplayArgument::Constant(_) => {}
            ReplayArgument::Tuple(items) | ReplayArgument::List(items) => {
                for item in items {
                    item.symbols(found);
                }
            }
            ReplayArgument::Slice(parts) => parts.iter().for_each(|part| part.symbols(found)),
        }
    }
}

impl Pattern {
    fn take<'py>(&self, result: Bound<'py, PyAny>, registers: &mut ReplayRegisters<'py>) -> PyResult<()> {
        match self {
            Pattern::Symbol(symbol) => registers.0[symbol.0 as usize] = Some(result),
            Pattern::Items(items) => {
                if result.len()? != items.len() {
                    return Err(PyRuntimeError::new_err("a call gave more or fewer results than in the trace"));
                }
                for (item, pattern) in result.try_iter()?.zip(items) {
                    pattern.take(item?, registers)?;
                }
            }
            Pattern::Ignored => {}
        }
        Ok(())
    }

    fn symbols(&self, found: &mut Vec<SymbolId>) {
        match self {
            Pattern::Symbol(symbol) => found.push(*symbol),
            Pattern::Items(items) => items.iter().for_each(|item| item.symbols(found)),
            Pattern::Ignored => {}
        }
    }
}

/// Tensors of one run, by symbol.
struct ReplayRegisters<'py>(Vec<Option<Bound<'py, PyAny>>>);

impl<'py> ReplayRegisters<'py> {
    fn get(&self, symbol: SymbolId) -> PyResult<Bound<'py, PyAny>> {
        let value = self.0[symbol.0 as usize].clone();
        value.ok_or_else(|| PyRuntimeError::new_err("a tensor is used before it is made"))
    }
}

/// The calls of a graph, ready for replay.
pub(super) struct Replay {
    pub(super) backend: &'static dyn Backend,
    /// The global state of the whole graph.
    pub(super) state: Box<dyn StateTest>,
    pub(super) inputs: Vec<SymbolId>,
    pub(super) parameters: Vec<(SymbolId, WeakRef)>,
    pub(super) calls: Vec<Call>,
    pub(super) outputs: Vec<SymbolId>,
    pub(super) symbols: usize,
    /// True if a run may draw random numbers and raise afterwards.
    pub(super) draws: bool,
    /// True if a run has succeeded.
    pub(super) has_succeeded: AtomicBool,
}

impl Replay {
    /// Returns the callable: it takes the inputs in order and returns a tuple of the outputs.
    pub(super) fn callable(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let released = self.last_uses();
        cpython::graph_function(py, move |py, inputs| {
            let _quiet = cpython::suspend(py);
            self.run(py, inputs, &released).map(Bound::unbind)
        })
    }

    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &[Bound<'py, PyAny>],
        released: &[Vec<SymbolId>],
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut registers = ReplayRegisters(vec![None; self.symbols]);
        for (symbol, input) in self.inputs.iter().zip(inputs) {
            registers.0[symbol.0 as usize] = Some(input.clone());
        }
        for (symbol, parameter) in &self.parameters {
            let parameter = parameter.get(py);
            let gone = || PyReferenceError::new_err("a parameter or buffer of this graph no longer exists");
            registers.0[symbol.0 as usize] = Some(parameter.ok_or_else(gone)?);
        }
        let (mut switched, mut undo) = (None, UndoneWrites::new(self.backend));
        let has_succeeded = self.has_succeeded.load(Ordering::Relaxed);
        if self.draws {
            undo.save_random_state(py)?;
        }
        let called = self.calls.iter().zip(released).try_for_each(|(call, released)| {
            self.switch(py, &mut switched, call.state.as_deref())?;
            call.run(py, &mut registers, (&mut undo, has_succeeded))?;
            for symbol in released {
                registers.0[symbol.0 as usize] = None;
            }
            Ok(())
        });
        let restored = self.switch(py, &mut switched, None);
        if let Err(error) = called.and(restored) {
            undo.undo()?;
            return Err(error);
        }
        if !has_succeeded {
            self.has_succeeded.store(true, Ordering::Relaxed);
        }
        let outputs = self.outputs.iter().map(|symbol| registers.get(*symbol)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyTuple::new(py, outputs)?.into_any())
    }

    /// Switches the global state to the state that a call was built under.
    fn switch<'a>(
        &self,
        py: Python<'_>,
        now: &mut Option<&'a dyn StateTest>,
        wanted: Option<&'a dyn StateTest>,
    ) -> PyResult<()> {
        let same = match (*now, wanted) {
            (Some(now), Some(wanted)) => std::ptr::addr_eq(now, wanted),
            (now, wanted) => now.is_none() && wanted.is_none(),
        };
        if same {
            return Ok(());
        }
        *now = wanted;
        wanted.unwrap_or(&*self.state).restore(py)
    }

    /// For each call, the tensors that are not needed after it.
    fn last_uses(&self) -> Vec<Vec<SymbolId>> {
        let mut needed = self.outputs.clone();
        let mut released: Vec<Vec<SymbolId>> = Vec::new();
        for call in self.calls.iter().rev() {
            let mut here = Vec::new();
            call.arguments.iter().for_each(|argument| argument.symbols(&mut here));
            call.result.symbols(&mut here);
            here.extend(&call.writes.written);
            here.sort_unstable();
            here.dedup();
            here.retain(|symbol| !needed.contains(symbol));
            needed.extend(&here);
            released.push(here);
        }
        released.reverse();
        released
    }
}
