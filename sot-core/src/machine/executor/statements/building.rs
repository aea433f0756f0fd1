//! Statements: the operations that the trace puts into the graph. Their inputs are in `inputs.rs`, their results in
//! `results.rs`.

use pyo3::exceptions::{PyAttributeError, PyNotImplementedError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyNotImplemented, PyTuple};
use rustc_hash::FxHashSet;

use super::results::{refuse_other_results, wrap_result, Results};
use crate::backend::{Backend, CallKind, GraphBuilder, SizesMatter};
use crate::entity::VarId;
use crate::error::{Flow, Reason, ReasonId, Unwind};
use crate::graph::StatementPlace;
use crate::guard::{ObjectState, Test};
use crate::ir::{Statement, StatementKind};
use crate::machine::executor::record::source_record;
use crate::machine::executor::{object_model, CallArgs, OpcodeExecutor, Refused};
use crate::operators;
use crate::registered;
use crate::tracker::TrackerId;

/// The statement that is being made: which arguments it accepts, and which objects it depends on.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is an answer of the backend about one kind of argument")]
pub(crate) struct StatementInProgress {
    /// True if it accepts arrays as values of the graph.
    pub(super) takes_arrays: bool,
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

impl<'py> StatementArguments<'py> {
    /// The values of the positional arguments, and those of the keywords.
    fn values(&self) -> impl Iterator<Item = Bound<'py, PyAny>> + '_ {
        self.positional.iter().chain(self.keywords.iter().flat_map(PyDictMethods::values))
    }
}

impl<'py> OpcodeExecutor<'py> {
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
        let begun = StatementInProgress::of(self.runtime.backend(), kind, callee);
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
        if let Some((object, test)) = self.runtime.backend().own_code().foundation(kind, callee)? {
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
            results = Results::of_followed_code(&self.trace, given.values().zip(args.all()), reached);
            refuse_other_results(self, &result, &results)?;
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
