//! Statements: the operations that the trace puts into the graph, with the tensors and numbers from outside they
//! take.

use pyo3::exceptions::{PyAttributeError, PyNotImplementedError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyNotImplemented, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};

use super::in_place;
use crate::backend::{Backend, CallKind, GraphBuilder, SizesMatter, TensorMeta};
use crate::cpython::WeakRef;
use crate::entity::{SymbolId, VarId};
use crate::error::{Flow, Reason, ReasonId, Unwind};
use crate::graph::StatementPlace;
use crate::guard::{Identity, ObjectState, Test};
use crate::ir::{Statement, StatementKind};
use crate::machine::executor::record::source_record;
use crate::machine::executor::{object_model, CallArgs, OpcodeExecutor, Refused, Trace};
use crate::machine::variable::GraphArgument;
use crate::operators;
use crate::registered;
use crate::tracker::{self, Tracker, TrackerId};

/// The statement that is being made: which arguments it accepts, and which objects it depends on.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is an answer of the backend about one kind of argument")]
pub(crate) struct StatementInProgress {
    /// True if it accepts arrays as values of the graph.
    takes_arrays: bool,
    /// True if it accepts open sizes as values of the graph.
    pub(in crate::machine::executor) takes_sizes: bool,
    /// How it uses integers.
    pub(in crate::machine::executor) integers: IntegerUse,
    /// True if it accepts a `float` that differs from call to call as a value of the graph.
    pub(in crate::machine::executor) takes_floats: bool,
    /// True if it gives a NaN another sign than the graph does.
    pub(in crate::machine::executor) signs_nan: bool,
    /// True if it may refuse such a `float` when that is not finite, or too large.
    pub(in crate::machine::executor) checks_floats: bool,
    /// Objects whose identity the statement depends on, with their trackers. They are guarded once the statement
    /// exists.
    pub(in crate::machine::executor) assumed_objects: Vec<(Py<PyAny>, TrackerId)>,
    /// Objects that a function which is one statement may read, with their trackers and their state before the call.
    pub(in crate::machine::executor) states: Vec<(Py<PyAny>, TrackerId, ObjectState)>,
    /// The addresses of the containers that a function which is one statement reaches besides its arguments. They are
    /// set before the statement begins.
    pub(in crate::machine::executor) reached: FxHashSet<usize>,
}

/// How a statement uses integers among its arguments.
#[derive(Clone, Copy, Default)]
pub(in crate::machine::executor) struct IntegerUse {
    /// True if zero, one and negative integers have no meaning of their own.
    pub(in crate::machine::executor) takes_all: bool,
    /// True if they are operands of an operator.
    pub(in crate::machine::executor) as_operands: bool,
}

impl IntegerUse {
    /// As operands of an operator for which no integer is special.
    pub(in crate::machine::executor) const OPERANDS: IntegerUse = IntegerUse { takes_all: true, as_operands: true };
}

impl StatementInProgress {
    /// A statement of which only the callee is known.
    fn of(backend: &dyn Backend, kind: CallKind, callee: &Bound<'_, PyAny>) -> Self {
        let open_values = backend.open_values();
        StatementInProgress {
            takes_sizes: open_values.takes_sizes(kind, callee),
            integers: IntegerUse {
                takes_all: open_values.takes_all_integers(kind, callee),
                as_operands: kind == CallKind::Method && operators::is_method_of_two(callee),
            },
            takes_floats: open_values.takes_floats(kind, callee),
            takes_arrays: open_values.takes_arrays(kind, callee),
            signs_nan: open_values.signs_nan(kind, callee),
            checks_floats: open_values.checks_floats(kind, callee),
            ..StatementInProgress::default()
        }
    }
}

/// The arguments of a statement: values of the graph and constants, and their texts in the StatementIR.
struct StatementArguments<'py> {
    positional: Bound<'py, PyTuple>,
    keywords: Option<Bound<'py, PyDict>>,
    texts: Vec<String>,
    keyword_texts: Vec<String>,
}

impl<'py> OpcodeExecutor<'py> {
    /// Returns the symbol of a tensor from outside: a parameter of the graph, or an input passed at each call.
    pub fn graph_input(&mut self, variable: VarId, tensor: &Bound<'py, PyAny>, meta: &TensorMeta) -> Flow<SymbolId> {
        if let Some(symbol) = self.trace.graph.inputs.symbol_of(variable) {
            return Ok(symbol);
        }
        let tracker = self.trace.vars.tracker(variable);
        let refuse = |error: PyErr| {
            Unwind::break_graph(ReasonId::BackendRefused, format!("a tensor cannot enter the graph: {error}"))
        };
        // A function is called with one parameter after another, so a parameter that is an argument is an input.
        let is_argument = matches!(self.trace.trackers.get(tracker), Tracker::Local { .. });
        let is_parameter = self.runtime.backend.is_parameter(tensor)
            && !is_argument
            && !in_place::is_written(self, tracker)
            && !self.trace.is_short_lived(tracker);
        let name = self.trace.graph.symbols.next_name();
        let make = |builder: &mut dyn GraphBuilder| {
            if is_parameter {
                builder.parameter(tensor)
            } else {
                builder.input(&name, tensor, meta)
            }
        };
        let value = self.trace.graph.building.build(make).map_err(refuse)?;
        let symbol = self.trace.graph.symbols.add_input(value);
        if is_parameter {
            self.trace.graph.inputs.add_parameter(symbol, variable, WeakRef::new(tensor, None).ok());
            self.trace.guards.add(tracker, Test::Is(Identity::of(tensor)));
        } else {
            self.trace.graph.inputs.pass(symbol, variable);
        }
        Ok(symbol)
    }

    /// Returns the symbol of a number that is passed at each call.
    pub(crate) fn number_input(&mut self, variable: VarId, number: &Bound<'py, PyAny>) -> PyResult<SymbolId> {
        if let Some(symbol) = self.trace.graph.inputs.symbol_of(variable) {
            return Ok(symbol);
        }
        // The program may compute the number once more, as in `a[i : i + n], b[i : i + n]`.
        let tracker = self.trace.vars.tracker(variable);
        let is_same = |other: VarId| self.trace.vars.tracker(other) == tracker;
        if let Some(symbol) = self.trace.graph.inputs.passed_number(is_same) {
            return Ok(symbol);
        }
        let name = self.trace.graph.symbols.next_name();
        let value = self.trace.graph.building.build(|builder| builder.number(&name, number))?;
        let symbol = self.trace.graph.symbols.add_input(value);
        self.trace.graph.inputs.pass_number(symbol, variable);
        Ok(symbol)
    }

    /// True if the statement that is being made accepts arrays that are passed at each call.
    pub fn takes_arrays(&self) -> bool {
        self.statement.takes_arrays
    }

    /// Returns an array as an argument of the statement that is being made, passed at each call. In `shape`, `None`
    /// stands for an open size. Returns `None` if the statement accepts no arrays.
    pub fn array_input(
        &mut self,
        variable: VarId,
        array: &Bound<'py, PyAny>,
        shape: &[Option<i64>],
    ) -> Flow<Option<GraphArgument>> {
        if !self.statement.takes_arrays {
            return Ok(None);
        }
        let known = self.trace.graph.inputs.symbol_of(variable);
        let symbol = if known.is_some() { known } else { new_array_input(self, variable, array, shape)? };
        Ok(symbol.map(|symbol| {
            let (value, text) = (self.trace.graph.value(symbol).unbind(), self.trace.graph.name(symbol).to_owned());
            GraphArgument { value, text, holds_tensor: true }
        }))
    }

    /// Appends a statement and returns the variable of its result. `name` is the callee's text in the StatementIR.
    pub fn call_graph(
        &mut self,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        name: &str,
        args: &CallArgs,
    ) -> Flow<VarId> {
        self.statement(kind, callee, name, args)?.map_err(|refused| refused.unwind(self))
    }

    /// Like [`OpcodeExecutor::call_graph`], but returns a refusal by the backend as a value.
    pub(crate) fn statement(
        &mut self,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        name: &str,
        args: &CallArgs,
    ) -> Flow<Result<VarId, Refused>> {
        let reached = std::mem::take(&mut self.statement.reached);
        let begun = StatementInProgress::of(&*self.runtime.backend, kind, callee);
        // An argument can be a statement of its own, such as the size of a tensor.
        let outer = std::mem::replace(&mut self.statement, begun);
        let result = self.append_statement((kind, callee, name), args, reached);
        self.statement = outer;
        result
    }

    fn append_statement(
        &mut self,
        (kind, callee, name): (CallKind, &Bound<'py, PyAny>, &str),
        args: &CallArgs,
        reached: FxHashSet<usize>,
    ) -> Flow<Result<VarId, Refused>> {
        begin_graph(self, name)?;
        let given = graph_arguments(self, args)?;
        let before = self.trace.graph.building.builder()?.operations()?;
        let result = self.trace.graph.building.make_statement(|builder| {
            let result = builder.call(kind, callee, &given.positional, given.keywords.as_ref())?;
            if result.is(PyNotImplemented::get(callee.py())) {
                return Err(PyTypeError::new_err("it does not know its operands"));
            }
            Ok(result)
        });
        let result = match result {
            Ok(result) => result,
            Err(error) => return refusal(self, name, &error, before).map(Err),
        };
        if let Some((object, test)) = self.runtime.backend.own_code().foundation(kind, callee)? {
            let tracker = self.trace.trackers.constant(object);
            self.trace.guards.add(tracker, Test::Object(test));
        }
        for (object, tracker) in std::mem::take(&mut self.statement.assumed_objects) {
            object_model::guard_identity(self, object.bind(self.py), tracker);
        }
        if let Some(at) = given_back(kind, callee, &given.positional, &result) {
            return Ok(Ok(args.positional[at]));
        }
        let mut results = Results::default();
        if kind == CallKind::Api && registered::is_statement(callee) {
            results = Results::of_followed_code(&self.trace, args, &given, reached);
            refuse_other_results(self, &result, &results, &mut Vec::new())?;
        }
        record(self, (kind, callee), name, given, (&result, results)).map(Ok)
    }
}

/// Begins the graph, if this is its first statement. Breaks the graph if the backend cannot build one now.
fn begin_graph(cx: &mut OpcodeExecutor<'_>, name: &str) -> Flow<()> {
    match cx.trace.graph.building.builder() {
        Ok(_) => Ok(()),
        Err(error) if error.is_instance_of::<PyNotImplementedError>(cx.py) => {
            let text = format!("{name} cannot be put into a graph: {error}");
            Err(Unwind::break_graph(ReasonId::BackendRefused, text))
        }
        Err(error) => Err(error.into()),
    }
}

/// The values and texts of a statement's arguments.
fn graph_arguments<'py>(cx: &mut OpcodeExecutor<'py>, args: &CallArgs) -> Flow<StatementArguments<'py>> {
    let (mut positional, mut texts) = (Vec::new(), Vec::new());
    for &arg in &args.positional {
        let argument = cx.graph_argument(arg)?;
        positional.push(argument.value);
        texts.push(argument.text);
    }
    let (keywords, mut keyword_texts) = (PyDict::new(cx.py), Vec::new());
    for (keyword, arg) in &args.keywords {
        let argument = cx.graph_argument(*arg)?;
        keywords.set_item(&**keyword, argument.value)?;
        keyword_texts.push(format!("{keyword}: {}", argument.text));
    }
    Ok(StatementArguments {
        positional: PyTuple::new(cx.py, positional)?,
        keywords: (!keywords.is_empty()).then_some(keywords),
        texts,
        keyword_texts,
    })
}

/// The refusal of a call by the backend, whose builder had `before` operations.
fn refusal(cx: &mut OpcodeExecutor<'_>, name: &str, error: &PyErr, before: usize) -> Flow<Refused> {
    let for_sizes = error.is_instance_of::<SizesMatter>(cx.py);
    let text = match error.value(cx.py) {
        said if for_sizes => format!("{name}: {said}"),
        _ => format!("{name} cannot be put into the graph: {error}"),
    };
    Ok(Refused {
        reason: Reason::new(ReasonId::BackendRefused, text),
        for_sizes,
        by_callee: lacks_what_tensors_have(cx.py, error),
        leaves_operations: cx.trace.graph.building.builder()?.operations()? != before,
    })
}

/// Appends the statement of a call to the StatementIR and returns the variable of its result.
fn record<'py>(
    cx: &mut OpcodeExecutor<'py>,
    (kind, callee): (CallKind, &Bound<'py, PyAny>),
    name: &str,
    given: StatementArguments<'py>,
    (result, mut results): (&Bound<'py, PyAny>, Results),
) -> Flow<VarId> {
    let variable = wrap_result(cx, result, &mut results)?;
    let outputs = results.outputs;
    cx.trace.graph.record((kind, callee), (&given.positional, given.keywords.as_ref()), result)?;
    cx.trace.graph.note_target(result, &outputs)?;
    cx.trace.graph.ir.statements.push(Statement {
        kind: StatementKind::from(kind),
        callee: name.to_owned(),
        args: given.texts,
        kwargs: given.keyword_texts,
        outputs: outputs.iter().map(|symbol| cx.trace.graph.name(*symbol).to_owned()).collect(),
    });
    if let Some(place) = source_record::place_of_statement(cx) {
        let object =
            if matches!(kind, CallKind::Object(_)) { source_record::path_of_object(&cx.trace, callee) } else { None };
        cx.trace.graph.note_place(StatementPlace { place, object });
    }
    let must_be_called = cx.trace.graph.building.begun().is_some_and(GraphBuilder::must_be_called);
    if (must_be_called || cx.trace.graph.writes_outside()) && !cx.trace.graph.can_be_called() {
        let (after, reason) = if must_be_called {
            ("in a graph whose statements are called one by one", ReasonId::UnsupportedCall)
        } else {
            ("after a tensor from outside the graph was changed in place", ReasonId::UnsupportedMutation)
        };
        return Err(Unwind::break_graph(reason, format!("{name}, {after}, cannot be called again")));
    }
    Ok(variable)
}

fn new_array_input<'py>(
    cx: &mut OpcodeExecutor<'py>,
    variable: VarId,
    array: &Bound<'py, PyAny>,
    shape: &[Option<i64>],
) -> PyResult<Option<SymbolId>> {
    let name = cx.trace.graph.symbols.next_name();
    let Some(value) = cx.trace.graph.building.build(|builder| builder.array(&name, array, shape))? else {
        return Ok(None);
    };
    let symbol = cx.trace.graph.symbols.add_input(value);
    cx.trace.graph.inputs.pass(symbol, variable);
    Ok(Some(symbol))
}

/// The results of a statement while they are wrapped.
#[derive(Default)]
struct Results {
    outputs: Vec<SymbolId>,
    /// The variables of the objects wrapped so far, by address: an object that occurs twice is one variable.
    known: FxHashMap<usize, VarId>,
    /// True if a value may be given back that the graph had before, because code of the program has run.
    by_program: bool,
    /// The addresses of containers that existed before the call, and are no argument.
    from_before: FxHashSet<usize>,
}

impl Results {
    /// For a call that has run code of the program, which reaches these containers besides its arguments.
    fn of_followed_code(
        trace: &Trace<'_>,
        args: &CallArgs,
        given: &StatementArguments<'_>,
        reached: FxHashSet<usize>,
    ) -> Self {
        let mut results = Results { by_program: true, from_before: reached, ..Results::default() };
        let keywords = given.keywords.iter().flat_map(PyDictMethods::values);
        for (value, variable) in given.positional.iter().chain(keywords).zip(args.all()) {
            if !trace.runtime.is_constant(&value) {
                results.known.insert(value.as_ptr() as usize, variable);
                for held in held_by(&value) {
                    note_containers(&held, &mut results.from_before);
                }
            }
        }
        results
    }

    /// Returns the variable of an object that has one already.
    fn variable_of<'py>(&self, trace: &Trace<'py>, object: &Bound<'py, PyAny>) -> Option<VarId> {
        let known = self.known.get(&(object.as_ptr() as usize)).copied();
        if known.is_some() || !self.by_program {
            return known;
        }
        let symbol = trace.graph.symbol_of(object)?;
        let symbol_of = |variable| trace.vars.get(variable).symbol().or_else(|| trace.graph.inputs.symbol_of(variable));
        trace.vars.iter().map(|(variable, _)| variable).find(|variable| symbol_of(*variable) == Some(symbol))
    }
}

/// Returns what a list, tuple or dict holds.
fn held_by<'py>(object: &Bound<'py, PyAny>) -> Vec<Bound<'py, PyAny>> {
    if let Ok(items) = object.cast::<PyTuple>() {
        return items.iter().collect();
    }
    if let Ok(items) = object.cast::<PyList>() {
        return items.iter().collect();
    }
    object.cast::<PyDict>().map(|entries| entries.values().iter().collect()).unwrap_or_default()
}

/// Notes the addresses of a container and of those in it.
fn note_containers(object: &Bound<'_, PyAny>, found: &mut FxHashSet<usize>) {
    let is_container =
        object.is_instance_of::<PyList>() || object.is_instance_of::<PyDict>() || object.is_instance_of::<PyTuple>();
    if is_container && found.insert(object.as_ptr() as usize) {
        for held in held_by(object) {
            note_containers(&held, found);
        }
    }
}

/// Wraps a statement's result: graph values become tensors, containers become containers of variables.
fn wrap_result<'py>(cx: &mut OpcodeExecutor<'py>, result: &Bound<'py, PyAny>, results: &mut Results) -> Flow<VarId> {
    if let Some(known) = results.variable_of(&cx.trace, result) {
        return Ok(known);
    }
    let variable = wrap_new_result(cx, result, results)?;
    if !cx.runtime.is_constant(result) {
        results.known.insert(result.as_ptr() as usize, variable);
    }
    Ok(variable)
}

fn wrap_new_result<'py>(
    cx: &mut OpcodeExecutor<'py>,
    result: &Bound<'py, PyAny>,
    results: &mut Results,
) -> Flow<VarId> {
    if let Some(meta) = cx.trace.graph.building.value_meta(result)? {
        return Ok(wrap_value(cx, result, meta, &mut results.outputs));
    }
    if let Ok(items) = result.cast::<PyTuple>() {
        let variables = items.iter().map(|item| wrap_result(cx, &item, results)).collect::<Flow<Vec<_>>>()?;
        let tuple = cx.trace.tuple(variables);
        return if items.is_exact_instance_of::<PyTuple>() { Ok(tuple) } else { of_class(cx, items, tuple) };
    }
    if let Ok(items) = result.cast::<PyList>() {
        let items = items.iter().map(|item| wrap_result(cx, &item, results)).collect::<Flow<Vec<_>>>()?;
        return Ok(cx.trace.list(items));
    }
    if let Ok(entries) = result.cast_exact::<PyDict>() {
        let mut variables = Vec::new();
        for (name, item) in entries {
            let Ok(name) = name.extract::<String>() else {
                let text = "an operation whose result is a dict with keys that are not strings";
                return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
            };
            variables.push((name.into(), wrap_result(cx, &item, results)?));
        }
        let payload = (cx.runtime.factories.keyword_dict)(cx, variables)?;
        return Ok(cx.trace.produce(payload));
    }
    if registered::container_of(result.get_type().as_any()).is_some() {
        let name = tracker::name(result.get_type().as_any());
        let text = format!("an operation whose result is a {name}; results may be tensors in tuples, lists and dicts");
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    }
    cx.wrap_fresh(result)
}

/// Breaks the graph at results of a function that is one statement if they may hold values of the graph elsewhere than
/// in tuples, lists and dicts, such as in the closure of a function, or if they hold a list or dict that is not made by
/// the call, or that holds itself. `around` has the containers that the result is in.
fn refuse_other_results<'py>(
    cx: &mut OpcodeExecutor<'py>,
    result: &Bound<'py, PyAny>,
    results: &Results,
    around: &mut Vec<usize>,
) -> Flow<()> {
    if cx.runtime.is_constant(result) || cx.trace.graph.building.value_meta(result)?.is_some() {
        return Ok(());
    }
    let address = result.as_ptr() as usize;
    if results.known.contains_key(&address) {
        return Ok(());
    }
    let name = tracker::name(result.get_type().as_any());
    let refuse = |what: String| Err(Unwind::break_graph(ReasonId::UnsupportedCall, what));
    let is_tuple = result.is_instance_of::<PyTuple>();
    if !is_tuple && !result.is_instance_of::<PyList>() && !result.is_exact_instance_of::<PyDict>() {
        return refuse(format!(
            "a function that is one statement gives a {name}; tensors in tuples, lists and dicts are results"
        ));
    }
    if !is_tuple && results.from_before.contains(&address) {
        return refuse(format!("a function that is one statement gives a {name} that existed before the call"));
    }
    if around.contains(&address) {
        return refuse(format!("a function that is one statement gives a {name} that holds itself"));
    }
    around.push(address);
    for held in held_by(result) {
        refuse_other_results(cx, &held, results, around)?;
    }
    around.pop();
    Ok(())
}

/// Makes a named tuple of its class from the items.
fn of_class<'py>(cx: &mut OpcodeExecutor<'py>, object: &Bound<'py, PyTuple>, items: VarId) -> Flow<VarId> {
    let class = cx.wrap_fresh(object.get_type().as_any())?;
    let make = cx.py.get_type::<PyTuple>().getattr("__new__")?;
    cx.call_builtin(&make, &CallArgs::positional(vec![class, items]), false)
}

fn wrap_value<'py>(
    cx: &mut OpcodeExecutor<'py>,
    value: &Bound<'py, PyAny>,
    meta: TensorMeta,
    outputs: &mut Vec<SymbolId>,
) -> VarId {
    let symbol = cx.trace.graph.symbols.add_result(value.clone().unbind());
    outputs.push(symbol);
    let payload = (cx.runtime.factories.tensor)(symbol, meta);
    cx.trace.produce(payload)
}

/// True if Python code has asked a graph value for something that only a tensor has. A refusal with a message (a
/// failed assertion about the mode, arguments that do not fit each other) is final.
fn lacks_what_tensors_have(py: Python<'_>, error: &PyErr) -> bool {
    let is_lack = error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyAttributeError>(py);
    is_lack && error.traceback(py).is_some()
}

/// Returns the position of the argument that a statement returns unchanged, as a level does that passes its input on.
/// Such a call is no statement. An index always makes another tensor, even of all elements.
fn given_back(
    kind: CallKind,
    callee: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    result: &Bound<'_, PyAny>,
) -> Option<usize> {
    let takes = kind == CallKind::Method && callee.eq("__getitem__").unwrap_or(true);
    if takes || kind == CallKind::InPlace {
        return None;
    }
    args.iter().position(|arg| arg.is(result))
}
