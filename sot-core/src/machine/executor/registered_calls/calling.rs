//! Calls of objects for which the program has registered a meaning (see [`crate::registered`]), on every backend.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyTuple, PyType};
use rustc_hash::FxHashSet;

use super::assigned_outside;
use super::hidden_tensors::{self, Hidden};
use super::kept_contents::KeptContents;
use crate::backend::CallKind;
use crate::cpython::{self, Part};
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::{Identity, ObjectState, StateOfFramework, Test};
use crate::machine::executor::{call, limits, names, object_model, CallArgs, OpcodeExecutor, Trace};
use crate::machine::variable::{Form, VarId};
use crate::registered::{self, Registration, RegistrationKind};
use crate::tracker::{self, ById, Key, Tracker, TrackerId};

/// Results of functions with an assumed result, over the attempts to translate one frame. A function is called once
/// for the same arguments.
#[derive(Default)]
pub(crate) struct AssumedResults(Vec<AssumedResult>);

struct AssumedResult {
    function: Py<PyAny>,
    args: Py<PyTuple>,
    keywords: Py<PyDict>,
    result: Py<PyAny>,
}

impl AssumedResults {
    fn get<'py>(&self, function: &Bound<'py, PyAny>, args: &RealArguments<'py>) -> Option<Bound<'py, PyAny>> {
        let py = function.py();
        let is_it = |known: &&AssumedResult| {
            known.function.is(function)
                && same_items(known.args.bind(py).iter(), args.0.iter())
                && same_items(known.keywords.bind(py).keys().iter(), args.1.keys().iter())
                && same_items(known.keywords.bind(py).values().iter(), args.1.values().iter())
        };
        Some(self.0.iter().find(is_it)?.result.bind(py).clone())
    }
}

/// Arguments as real objects.
type RealArguments<'py> = (Bound<'py, PyTuple>, Bound<'py, PyDict>);

fn same_items<'py>(
    left: impl ExactSizeIterator<Item = Bound<'py, PyAny>>,
    mut right: impl ExactSizeIterator<Item = Bound<'py, PyAny>>,
) -> bool {
    left.len() == right.len() && { left }.all(|one| right.next().is_some_and(|other| is_same(&one, &other)))
}

/// True if both are one object, or equal values of a C type that may have several objects for a value.
fn is_same(one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> bool {
    let is_equal = || one.get_type().is(other.get_type()) && one.eq(other).unwrap_or(false);
    one.is(other) || cpython::is_atom(one) && is_equal()
}

impl<'py> OpcodeExecutor<'py> {
    /// Breaks the graph at a call for which the program has asked for a break.
    pub fn refuse_listed(&mut self, callable: &Bound<'py, PyAny>) -> Flow<()> {
        self.dependencies.object(callable);
        let Some(registration) = registered::break_of(callable) else { return Ok(()) };
        let name = tracker::name(callable);
        Err(Unwind::break_graph(ReasonId::BreakListed, format!("{name} {}", why(&registration, &self.runtime.package))))
    }

    /// Calls an object as the program has registered it; `None` if it is not registered. `variable` holds the object;
    /// `None` if the type of the first argument holds it.
    pub fn call_registered(
        &mut self,
        variable: Option<VarId>,
        callable: &Bound<'py, PyAny>,
        args: &CallArgs,
    ) -> Flow<Option<VarId>> {
        self.refuse_listed(callable)?;
        let Some(registration) = registered::call_of(callable) else { return Ok(None) };
        self.note_registered(&registration);
        if let Some(variable) = variable {
            object_model::guard_identity(self, callable, self.trace.vars.tracker(variable));
        }
        match &registration.kind {
            RegistrationKind::Pure => {
                let result = call::fold_registered(self, callable, args)?;
                if let Some(result) = result {
                    refuse_made_function(&self.trace, callable, result)?;
                    assume_code(self, variable, callable);
                }
                Ok(result)
            }
            RegistrationKind::ConstantResult => {
                assume_code(self, variable, callable);
                assume_result(self, callable, args).map(Some)
            }
            RegistrationKind::Substitute(by) => call_substitute(self, variable, by, args),
            RegistrationKind::Statement => call_as_statement(self, variable, callable, args).map(Some),
            _ => Ok(None),
        }
    }
}

/// Breaks the graph if a pure function gives a function with a closure, or another callable with a state, which a call
/// makes anew.
fn refuse_made_function(trace: &Trace<'_>, callable: &Bound<'_, PyAny>, result: VarId) -> Flow<()> {
    let payload = trace.vars.get(result);
    let Some(object) = payload.object().map(|object| object.bind(trace.py)) else { return Ok(()) };
    let has_state = match object.cast::<PyFunction>() {
        Ok(function) => cpython::function_closure(function).is_some(),
        Err(_) => {
            object.is_callable() && cpython::instance_dict(object).is_some() && !trace.runtime.is_constant(object)
        }
    };
    if !has_state || object.is_instance_of::<PyType>() {
        return Ok(());
    }
    let text =
        format!("{}, which is registered as pure, gives a function that may hold a state", tracker::name(callable));
    Err(Unwind::break_graph(ReasonId::UnsupportedCall, text))
}

/// Inlines the substitute of a function. A call of the function from within its substitute means the function itself,
/// so it returns `None`.
fn call_substitute(
    cx: &mut OpcodeExecutor<'_>,
    variable: Option<VarId>,
    by: &Py<PyAny>,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    let by = by.bind(cx.py).clone();
    if let Ok(function) = by.cast::<PyFunction>() {
        let code = cpython::function_code(function);
        if cx.stack.iter().any(|frame| frame.code.object.bind(cx.py).is(&code)) {
            return Ok(None);
        }
    }
    let by = wrap_registered(cx, &by);
    match variable {
        Some(variable) => cx.call_instead_of(variable, by, args).map(Some),
        None => cx.call(by, args).map(Some),
    }
}

/// Calls a function, and assumes that later calls return the same.
fn assume_result<'py>(cx: &mut OpcodeExecutor<'py>, function: &Bound<'py, PyAny>, args: &CallArgs) -> Flow<VarId> {
    let given = real_arguments(cx, function, args)?;
    if let Some(result) = cx.learnt.refusals.results.get(function, &given) {
        return Ok(wrap_registered(cx, &result));
    }
    let result = match function.call(&given.0, Some(&given.1)) {
        Ok(result) => result,
        Err(error) => return Err(cx.raise(error)),
    };
    let known = AssumedResult {
        function: function.clone().unbind(),
        args: given.0.unbind(),
        keywords: given.1.unbind(),
        result: result.clone().unbind(),
    };
    cx.learnt.refusals.results.0.push(known);
    Ok(wrap_registered(cx, &result))
}

/// Returns the variable of an object that a registration puts into the trace. What the object holds is guarded.
fn wrap_registered<'py>(cx: &mut OpcodeExecutor<'py>, object: &Bound<'py, PyAny>) -> VarId {
    if cx.runtime.is_constant(object) {
        return cx.trace.constant(object.clone().unbind());
    }
    let tracker = cx.trace.trackers.add(Tracker::Registered(ById(object.clone().unbind())));
    cx.trace.wrap(object, tracker)
}

/// Returns the arguments of a call as existing objects.
fn real_arguments<'py>(
    cx: &mut OpcodeExecutor<'py>,
    function: &Bound<'py, PyAny>,
    args: &CallArgs,
) -> Flow<RealArguments<'py>> {
    let positional = args.positional.iter().map(|&arg| real_argument(cx, function, arg));
    let positional = positional.collect::<Flow<Vec<_>>>()?;
    let keywords = PyDict::new(cx.py);
    for (name, arg) in &args.keywords {
        keywords.set_item(&**name, real_argument(cx, function, *arg)?)?;
    }
    Ok((PyTuple::new(cx.py, positional)?, keywords))
}

fn real_argument<'py>(
    cx: &mut OpcodeExecutor<'py>,
    function: &Bound<'py, PyAny>,
    arg: VarId,
) -> Flow<Bound<'py, PyAny>> {
    let known = cx.materialize(arg)?;
    assume_given(cx, arg, &mut FxHashSet::default())?;
    if let Some(known) = known {
        return Ok(known);
    }
    let object = cx.see(arg)?.object().map(|object| object.bind(cx.py).clone());
    object.filter(|_| !cx.trace.effects.is_written(arg)).ok_or_else(|| {
        let name = tracker::name(function);
        let text = format!(
            "{name}, whose result is assumed, is called with a value that is known only when the graph has run"
        );
        Unwind::break_graph(ReasonId::UnsupportedCall, text)
    })
}

/// Guards which object an argument is, and which objects are in it, as far as they are not guarded by value.
fn assume_given(cx: &mut OpcodeExecutor<'_>, variable: VarId, seen: &mut FxHashSet<VarId>) -> Flow<()> {
    limits::refuse_deep_values()?;
    if !seen.insert(variable) {
        return Ok(());
    }
    let payload = cx.see(variable)?;
    let object = payload.object().map(|object| object.bind(cx.py).clone());
    let value = payload.materialize(&cx.trace);
    let is_value = match (&value, &object) {
        (Some(value), Some(object)) => value.is(object),
        (value, None) => value.is_some(),
        _ => false,
    };
    if is_value {
        return Ok(());
    }
    // The guards of these containers and of their items tell whether they are equal. A method may be bound anew.
    let is_container =
        matches!(payload.form(), Form::List | Form::Tuple | Form::Dict | Form::Set | Form::Deque | Form::Method);
    if let (None, Some(object), false) = (value, object, is_container) {
        object_model::guard_identity(cx, &object, cx.trace.vars.tracker(variable));
        return Ok(());
    }
    let children = cx.trace.vars.get(variable).children();
    children.into_iter().try_for_each(|held| assume_given(cx, held, seen))
}

/// Puts a call into the graph as one statement, and guards what a Python function reads besides its arguments.
fn call_as_statement<'py>(
    cx: &mut OpcodeExecutor<'py>,
    variable: Option<VarId>,
    callable: &Bound<'py, PyAny>,
    args: &CallArgs,
) -> Flow<VarId> {
    cx.statement.states.clear();
    let mut kept = KeptContents::default();
    refuse_hidden_tensors(&cx.trace, callable, &mut kept)?;
    if let Ok(function) = callable.cast::<PyFunction>() {
        refuse_assignment_outside(function)?;
        let of = tracker_of(cx, variable, callable);
        assume_reads(cx, function, of)?;
    }
    for arg in args.all() {
        assume_argument(cx, arg, &mut kept)?;
    }
    cx.statement.reached.clone_from(kept.addresses());
    let result = cx.call_graph(CallKind::Api, callable, &tracker::name(callable), args);
    for (object, tracker, before) in std::mem::take(&mut cx.statement.states) {
        let object = object.bind(cx.py);
        let prepared =
            if before.was_prepared(object) { state_of(&cx.trace, object)?.map(|(state, _)| state) } else { None };
        cx.trace.guards.add(tracker, Test::Object(Box::new(prepared.unwrap_or(before))));
    }
    match kept.restore()? {
        None => result,
        Some(place) => {
            let text = format!("a function that is one statement changes what it reads besides its arguments: {place}");
            Err(Unwind::break_graph(ReasonId::UnsupportedCall, text))
        }
    }
}

/// Guards the code and the defaults of a Python function, both of which a program may replace.
fn assume_code<'py>(cx: &mut OpcodeExecutor<'py>, variable: Option<VarId>, callable: &Bound<'py, PyAny>) {
    if let Ok(function) = callable.cast::<PyFunction>() {
        let of = tracker_of(cx, variable, callable);
        assume_parts(cx, function, of);
    }
}

/// Returns the tracker of the variable that holds a function, or a constant tracker.
fn tracker_of<'py>(cx: &mut OpcodeExecutor<'py>, variable: Option<VarId>, callable: &Bound<'py, PyAny>) -> TrackerId {
    match variable {
        Some(variable) => cx.trace.vars.tracker(variable),
        None => cx.trace.trackers.constant(callable.clone().unbind()),
    }
}

fn assume_parts<'py>(cx: &mut OpcodeExecutor<'py>, function: &Bound<'py, PyFunction>, of: TrackerId) {
    let code = cpython::function_code(function);
    let defaults = cpython::function_defaults(function).map(Bound::into_any);
    let named = cpython::function_kwdefaults(function).map(Bound::into_any);
    let parts = [(Part::Code, Some(code.into_any())), (Part::Defaults, defaults), (Part::KwDefaults, named)];
    for (part, held) in parts {
        let tracker = cx.trace.trackers.add(Tracker::Part { of, part });
        match held {
            Some(held) => cx.trace.guards.add(tracker, Test::Is(Identity::of(&held))),
            None if cx.trace.trackers.is_sourced(of) => cx.trace.guards.add(of, Test::LacksPart(part)),
            None => {}
        }
    }
}

/// Guards a function's code, its defaults, its closure and the globals that its code names.
fn assume_reads<'py>(cx: &mut OpcodeExecutor<'py>, function: &Bound<'py, PyFunction>, of: TrackerId) -> Flow<()> {
    assume_parts(cx, function, of);
    let code = cpython::function_code(function);
    let named = cpython::function_kwdefaults(function).map(Bound::into_any);
    if let Some(named) = named.and_then(|named| named.cast_into::<PyDict>().ok()) {
        let of = cx.trace.trackers.add(Tracker::Part { of, part: Part::KwDefaults });
        for (name, value) in named.copy()? {
            let tracker = cx.trace.trackers.add(Tracker::Item { of, key: Key::of(&name) });
            assume_object(cx, &value, tracker)?;
        }
    }
    if let Some(cells) = cpython::function_closure(function) {
        let of = cx.trace.trackers.add(Tracker::Part { of, part: Part::Closure });
        for (index, cell) in cells.iter().enumerate() {
            let of = cx.trace.trackers.add(Tracker::Item { of, key: Key::Index(index as i64) });
            let Some(held) = cpython::cell_contents(&cell) else { continue };
            let tracker = cx.trace.trackers.add(Tracker::CellContents { of });
            assume_object(cx, &held, tracker)?;
        }
    }
    let globals = cpython::function_globals(function);
    let tracker = cx.trace.trackers.add(Tracker::Part { of, part: Part::Globals });
    let globals_of = names::globals_of(cx, &globals, Some(tracker))?;
    for name in hidden_tensors::globals_in(&code)? {
        let Some(bound) = globals.get_item(&name)? else { continue };
        let Some(read) = cx.trace.find_global_in(&globals_of, &name.as_str().into())? else { continue };
        assume_variable(cx, read, &bound)?;
    }
    Ok(())
}

fn assume_object<'py>(cx: &mut OpcodeExecutor<'py>, object: &Bound<'py, PyAny>, tracker: TrackerId) -> Flow<()> {
    let variable = cx.trace.wrap(object, tracker);
    assume_variable(cx, variable, object)
}

fn assume_variable<'py>(cx: &mut OpcodeExecutor<'py>, variable: VarId, object: &Bound<'py, PyAny>) -> Flow<()> {
    cx.see(variable)?;
    if !cx.runtime.is_constant(object) {
        object_model::guard_identity(cx, object, cx.trace.vars.tracker(variable));
    }
    assume_state(cx, variable, object)
}

/// Breaks the graph if a function that is one statement would read a tensor that is no value of the graph.
fn refuse_hidden_tensors<'py>(
    trace: &Trace<'py>,
    object: &Bound<'py, PyAny>,
    kept: &mut KeptContents<'py>,
) -> Flow<()> {
    let text = match hidden_tensors::find(trace.runtime, object, kept)? {
        None => return Ok(()),
        Some(Hidden::Tensor(place)) => format!(
            "a function that is one statement reads a tensor besides its arguments, from {place}; pass the tensor"
        ),
        Some(Hidden::Unsearched) => {
            "a function that is one statement reaches more objects than are searched for tensors".to_owned()
        }
    };
    Err(Unwind::break_graph(ReasonId::UnsupportedCall, text))
}

/// Breaks the graph if a function that is one statement assigns to a variable outside of it, as each call must do.
fn refuse_assignment_outside(function: &Bound<'_, PyFunction>) -> Flow<()> {
    let text = match assigned_outside::find(&cpython::function_code(function)) {
        Ok(None) => return Ok(()),
        Ok(Some(name)) => {
            format!("a function that is one statement assigns to the variable '{name}', which is not its own")
        }
        Err(error) => format!("the bytecode of a function that is one statement cannot be read: {error}"),
    };
    Err(Unwind::break_graph(ReasonId::UnsupportedCall, text))
}

/// Guards the state of an argument that the statement is given as an object.
fn assume_argument<'py>(cx: &mut OpcodeExecutor<'py>, variable: VarId, kept: &mut KeptContents<'py>) -> Flow<()> {
    limits::refuse_deep_values()?;
    let payload = cx.see(variable)?;
    if payload.constant().is_some() || payload.form() == Form::Tensor {
        return Ok(());
    }
    let given = payload.graph_argument(cx, variable)?.value;
    let payload = cx.trace.vars.get(variable);
    match payload.object().filter(|object| object.is(&given)) {
        Some(object) => {
            let object = object.bind(cx.py);
            refuse_hidden_tensors(&cx.trace, object, kept)?;
            assume_state(cx, variable, object)
        }
        // The items of the argument are passed to the statement separately.
        None => payload.children().into_iter().try_for_each(|held| assume_argument(cx, held, kept)),
    }
}

/// Takes the state of an object from outside, which the statement may read. It is guarded when the call has been made.
fn assume_state<'py>(cx: &mut OpcodeExecutor<'py>, variable: VarId, object: &Bound<'py, PyAny>) -> Flow<()> {
    let tracker = cx.trace.vars.tracker(variable);
    let backend = cx.runtime.backend();
    if !cx.trace.trackers.is_sourced(tracker) || backend.is_tensor(object) || cpython::is_atom(object) {
        return Ok(());
    }
    let refuse =
        |why: &str| Unwind::break_graph(ReasonId::UnsupportedCall, format!("{} {why}", cx.trace.text(variable)));
    let (state, parts) =
        state_of(&cx.trace, object)?.ok_or_else(|| refuse("holds too much to be compared at each call"))?;
    let real = |written: VarId| cx.trace.vars.get(written).object().map(|object| object.as_ptr() as usize);
    if cx.trace.effects.written().filter_map(real).any(|written| parts.contains(&written)) {
        return Err(refuse("was written to, which a function that is one statement would not see"));
    }
    cx.statement.states.push((object.clone().unbind(), tracker, state));
    Ok(())
}

/// Returns the state of an object, and the addresses of what it holds; `None` if it holds too much.
fn state_of(trace: &Trace<'_>, object: &Bound<'_, PyAny>) -> PyResult<Option<(ObjectState, FxHashSet<usize>)>> {
    let backend = trace.runtime.backend();
    let framework = StateOfFramework {
        is_opaque: &|object| backend.is_tensor(object),
        notes: &|object| if backend.models().may_hold_tensors(object) { backend.models().notes() } else { &[] },
        is_own_model: &|object| backend.models().is_own(object),
    };
    ObjectState::of(object, &framework)
}

fn why(registration: &Registration, package: &str) -> String {
    match &registration.kind {
        RegistrationKind::Skipped => format!("is of a module that {package}.register.skip was given"),
        RegistrationKind::Disabled => format!("is left to CPython by {package}.disable"),
        _ => "is on the break list".to_owned(),
    }
}
