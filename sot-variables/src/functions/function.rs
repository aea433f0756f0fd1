//! Python functions: those of the program, and those made in the trace by `def` and `lambda`. A call is followed into
//! the body unless the backend knows the function.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyFunction, PyString, PyTuple, PyType};
use sot_core::backend::{CallKind, CallPolicy};
use sot_core::cpython::{self, Part};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, FunctionParts, Globals, Name, OpcodeExecutor, OpcodeInlineExecutor};
use sot_core::guard::{Identity, Test};
use sot_core::registered;
use sot_core::side_effects::key_of_entry;
use sot_core::tracker::{self, Key, Tracker, TrackerId};
use sot_core::translate;
use sot_core::variable::{Argument, Form, Rebuild};
use sot_core::variable::{VarId, Variable};

use crate::builtins::frame;
use crate::classes::stand_in;
use crate::containers::dict::DictVariable;
use crate::containers::tuple::TupleVariable;
use crate::functions::generator;
use crate::functions::method;
use crate::iterators::library;
use crate::numpy;
use crate::tensor::state_manager::StateManagerVariable;
use crate::tensor::TensorVariable;
use crate::weak;

sot_core::variable_kind! {
    "function",
    types: |py| Ok(vec![function_type(py)?.unbind()]),
    wrap: FunctionVariable::wrap
}

/// `CO_GENERATOR`
const GENERATOR: u32 = 0x20;

/// A function of the program.
pub struct FunctionVariable {
    object: Py<PyAny>,
}

fn function_type(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    cpython::import(py, "types")?.getattr("FunctionType")
}

impl FunctionVariable {
    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        Ok(Rc::new(FunctionVariable { object: object.clone().unbind() }))
    }

    /// A function made in the trace.
    pub fn build(cx: &mut OpcodeExecutor<'_>, new: NewFunction) -> Flow<VarId> {
        if cx.stack.frame().global_names.is_some() {
            let text = "a function whose globals are a dict made in the function";
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
        }
        let globals = cx.stack.frame().globals.share(cx.py);
        Ok(cx.produce(Rc::new(NewFunctionVariable { new, globals })))
    }

    /// What is known of the function's calls without following it, if anything is.
    fn call_as_known(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<Option<VarId>> {
        let object = self.object.bind(cx.py).clone();
        if cx.runtime.builtins.has(&object) {
            guard_identity(cx, this, &self.object);
            return cx.runtime.builtins.call(cx, &object, args).transpose();
        }
        let function = self.object.bind(cx.py).cast::<PyFunction>().map_err(PyErr::from)?;
        frame::refuse_looking(function)?;
        // The rest of a function that was followed is followed, whatever it looks like.
        if translate::is_resume_function(&cpython::function_code(function)) {
            return Ok(None);
        }
        if let Some(result) = call_by_policy(cx, this, &self.object, args)? {
            return Ok(Some(result));
        }
        if let Some(result) = numpy::call(cx, this, &self.object, args)? {
            return Ok(Some(result));
        }
        let function = function.clone();
        if let Some(implementation) = weak::dispatch(cx, this, &function, args)? {
            return Ok(Some(implementation));
        }
        if let Some(kept) = weak::call_method(cx, this, &function, args)? {
            return Ok(Some(kept));
        }
        let function = function.into_any();
        if is_pure(&function) {
            guard_identity(cx, this, &self.object);
            if let Some((positional, keywords)) = cx.materialize_args(args)? {
                return cx.fold(|_| function.call(positional, Some(&keywords))).map(Some);
            }
        }
        Ok(None)
    }

    fn follow(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        let function = self.object.bind(cx.py).cast::<PyFunction>().map_err(PyErr::from)?.clone();
        follow(cx, this, &function, args)
    }
}

/// Simulates the body of a function.
fn follow<'py>(
    cx: &mut OpcodeExecutor<'py>,
    this: VarId,
    function: &Bound<'py, PyFunction>,
    args: &CallArgs,
) -> Flow<VarId> {
    let of = cx.vars.tracker(this);
    let parts = parts_of(cx, this, function)?;
    let before = cx.graph.mark();
    if cx.trackers.is_made(of) {
        // What a decorator wrote into a class of the trace has code that dies with the trace: it cannot be gone on
        // with.
        cx.claims.take();
    }
    let result = OpcodeInlineExecutor::new(cx).call(&parts, args)?;
    if parts.code.code.flags & GENERATOR != 0 {
        generator::name_after(cx, result, this)?;
    }
    if translate::is_asked_for(&cpython::function_code(function)) {
        cx.graph.end_unit(&parts.code.code.name, before);
    }
    Ok(result)
}

/// Calls what builds graph: one statement, or what the body of a function in Python does.
fn call_api<'py>(
    cx: &mut OpcodeExecutor<'py>,
    this: VarId,
    callable: &Bound<'py, PyAny>,
    args: &CallArgs,
) -> Flow<VarId> {
    let name = tracker::name(callable);
    match callable.cast::<PyFunction>() {
        Ok(function) => {
            let follow = |cx: &mut OpcodeExecutor<'py>| follow(cx, this, function, args);
            cx.call_graph_or_follow((CallKind::Api, callable), &name, args, follow)
        }
        Err(_) => cx.call_graph(CallKind::Api, callable, &name, args),
    }
}

/// Calls a function that its author has marked as one statement, where it cannot be followed.
fn follow_or_call<'py>(
    cx: &mut OpcodeExecutor<'py>,
    this: VarId,
    function: &Bound<'py, PyFunction>,
    args: &CallArgs,
) -> Flow<VarId> {
    let mut plain = true;
    for argument in args.all() {
        let payload = cx.see(argument)?;
        let tensor = cx.vars.as_kind::<TensorVariable>(argument);
        // Gradients would not flow through what is decided in a program.
        plain &= tensor.map_or(payload.constant().is_some(), |tensor| !tensor.meta().gradient.flows);
    }
    let found = if plain { cx.runtime.backend.statement_of(function)? } else { None };
    let Some((callee, reads)) = found else { return follow(cx, this, function, args) };
    let call = |cx: &mut OpcodeExecutor<'py>| {
        guard_identity(cx, this, &function.clone().into_any().unbind());
        let parts = parts_of(cx, this, function)?;
        for name in &reads {
            let read = cx.find_global_in(&parts.globals, &Rc::from(name.as_str()))?;
            let bound = cpython::function_globals(function).get_item(name.as_str())?;
            let (Some(read), Some(bound)) = (read, bound) else {
                return Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("the global '{name}' is gone")));
            };
            if cx.see(read)?.object().is_none_or(|object| !object.is(&bound)) {
                return Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("the global '{name}' is another")));
            }
            guard_identity(cx, read, bound.as_unbound());
        }
        cx.call_graph(CallKind::Api, &callee, &tracker::name(function), args)
    };
    cx.follow_or_call(function, |cx| follow(cx, this, function, args), call)
}

/// Calls a method of tensors on its first argument. A function in Python that is given something else is followed.
fn call_unbound<'py>(
    cx: &mut OpcodeExecutor<'py>,
    callable: &Bound<'py, PyAny>,
    name: &str,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    if let Some((&receiver, rest)) = args.positional.split_first() {
        let ty = cx.see(receiver)?.python_type(cx);
        let found = cpython::type_lookup(ty.cast().map_err(PyErr::from)?, &PyString::intern(cx.py, name));
        if cx.vars.get(receiver).form() == Form::Tensor && found.is_some_and(|found| found.is(callable)) {
            let method = cx.get_attr(receiver, &Rc::from(name))?;
            let args = CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() };
            return cx.call(method, &args).map(Some);
        }
    }
    if callable.is_instance_of::<PyFunction>() {
        return Ok(None);
    }
    let why = format!("the method {name} of tensors, called on something else");
    Err(Unwind::break_graph(ReasonId::UnsupportedCall, why))
}

/// Makes sure that the function stays what it is.
pub fn guard_identity(cx: &mut OpcodeExecutor<'_>, this: VarId, object: &Py<PyAny>) {
    let tracker = cx.vars.tracker(this);
    if cx.trackers.is_sourced(tracker) {
        cx.guards.add(tracker, Test::Is(Identity::of(object.bind(cx.py))));
    }
}

fn parts_of<'py>(cx: &mut OpcodeExecutor<'py>, this: VarId, function: &Bound<'py, PyFunction>) -> Flow<FunctionParts> {
    let of = cx.vars.tracker(this);
    let code = cpython::function_code(function);
    let part = cx.trackers.add(Tracker::Part { of, part: Part::Code });
    if cx.trackers.is_sourced(of) {
        cx.guards.add(part, Test::Is(Identity::of(code.as_any())));
    }
    let dict = cpython::function_globals(function);
    let tracker = cx.trackers.add(Tracker::Part { of, part: Part::Globals });
    let globals = cx.globals_of(&dict, Some(tracker))?;
    let closure = closure_of(cx, function, of);
    let defaults = cpython::function_defaults(function).map(Bound::unbind);
    let keyword_defaults = cpython::function_kwdefaults(function).map(Bound::unbind);
    let code = cx.met.code_unit(code.as_any())?;
    let first = code.code.arg_count as usize;
    Ok(FunctionParts {
        variable: this,
        function: Some(function.clone().unbind()),
        code,
        globals,
        closure,
        default: Box::new(move |cx, slot| default_at(cx, defaults.as_ref(), of, first, slot)),
        keyword_default: Box::new(move |cx, name| keyword_default(cx, keyword_defaults.as_ref(), of, name)),
    })
}

pub(crate) fn closure_of<'py>(
    cx: &mut OpcodeExecutor<'py>,
    function: &Bound<'py, PyFunction>,
    of: TrackerId,
) -> Vec<VarId> {
    let Some(cells) = cpython::function_closure(function) else { return Vec::new() };
    let of = cx.trackers.add(Tracker::Part { of, part: Part::Closure });
    let cells = cells.iter().enumerate();
    cells
        .map(|(index, cell)| {
            let tracker = cx.trackers.add(Tracker::Item { of, key: Key::Index(index as i64) });
            cx.wrap(&cell, tracker)
        })
        .collect()
}

/// The default of the positional parameter in `slot`, of `first` such parameters: defaults belong to the last ones.
fn default_at(
    cx: &mut OpcodeExecutor<'_>,
    defaults: Option<&Py<PyTuple>>,
    of: TrackerId,
    first: usize,
    slot: usize,
) -> Flow<Option<VarId>> {
    let Some(defaults) = defaults else { return Ok(lacks_part(cx, of, Part::Defaults)) };
    let defaults = defaults.bind(cx.py).clone();
    let of = cx.trackers.add(Tracker::Part { of, part: Part::Defaults });
    if cx.trackers.is_sourced(of) {
        cx.guards.add(of, Test::Length(defaults.len()));
    }
    let Some(index) = (slot + defaults.len()).checked_sub(first) else { return Ok(None) };
    let tracker = cx.trackers.add(Tracker::Item { of, key: Key::Index(index as i64) });
    Ok(Some(cx.wrap(&defaults.get_item(index)?, tracker)))
}

fn keyword_default(
    cx: &mut OpcodeExecutor<'_>,
    defaults: Option<&Py<PyDict>>,
    of: TrackerId,
    name: &Name,
) -> Flow<Option<VarId>> {
    let Some(defaults) = defaults else { return Ok(lacks_part(cx, of, Part::KwDefaults)) };
    let defaults = defaults.bind(cx.py).clone();
    let of = cx.trackers.add(Tracker::Part { of, part: Part::KwDefaults });
    if cx.identities.of(defaults.as_any()).is_some_and(|met| cx.effects.written().any(|written| written == met)) {
        let text = "a function whose defaults were written to";
        return Err(Unwind::break_graph(ReasonId::UnsupportedMutation, text));
    }
    let Some(value) = defaults.get_item(&**name)? else {
        if cx.trackers.is_sourced(of) {
            cx.guards.add(of, Test::LacksKey(Key::Str(Rc::clone(name))));
        }
        return Ok(None);
    };
    let tracker = cx.trackers.add(Tracker::Item { of, key: Key::Str(Rc::clone(name)) });
    Ok(Some(cx.wrap(&value, tracker)))
}

/// The function has no such defaults, which is assumed to stay so.
fn lacks_part(cx: &mut OpcodeExecutor<'_>, of: TrackerId, part: Part) -> Option<VarId> {
    if cx.trackers.is_sourced(of) {
        cx.guards.add(of, Test::LacksPart(part));
    }
    None
}

/// Whether the program may have a function followed of which the framework says this.
fn is_to_follow(policy: &CallPolicy) -> bool {
    matches!(policy, CallPolicy::Api | CallPolicy::Break(_) | CallPolicy::FollowOutside(_))
}

/// Calls something the backend has a say in; `None` if it is to be followed like any callable.
pub fn call_by_policy(
    cx: &mut OpcodeExecutor<'_>,
    this: VarId,
    object: &Py<PyAny>,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    let callable = object.bind(cx.py).clone();
    let policy = cx.call_policy(&callable, args)?;
    if is_to_follow(&policy) && callable.is_instance_of::<PyFunction>() && registered::is_followed(&callable) {
        return Ok(None);
    }
    match policy {
        CallPolicy::Follow => Ok(None),
        CallPolicy::Api => {
            guard_identity(cx, this, object);
            call_api(cx, this, &callable, args).map(Some)
        }
        CallPolicy::InPlace => {
            guard_identity(cx, this, object);
            cx.call_in_place(&callable, &tracker::name(&callable), args).map(Some)
        }
        CallPolicy::InPlaceIf { argument, at } => {
            guard_identity(cx, this, object);
            let name = tracker::name(&callable);
            let asked = args.at_or_named(at, argument).map(|asked| cx.truth(asked)).transpose()?;
            if asked == Some(true) {
                cx.call_in_place(&callable, &name, args).map(Some)
            } else {
                call_api(cx, this, &callable, args).map(Some)
            }
        }
        CallPolicy::FollowOrCall => match callable.cast::<PyFunction>() {
            Ok(function) => follow_or_call(cx, this, function, args).map(Some),
            Err(_) => Ok(None),
        },
        CallPolicy::Method(name) => {
            guard_identity(cx, this, object);
            call_unbound(cx, &callable, &name, args)
        }
        CallPolicy::Constant => {
            guard_identity(cx, this, object);
            match cx.materialize_args(args)? {
                Some((positional, keywords)) => cx.fold(|_| callable.call(positional, Some(&keywords))).map(Some),
                None => Err(Unwind::break_graph(
                    ReasonId::UnsupportedCall,
                    format!("{} of values not known while tracing", tracker::name(&callable)),
                )),
            }
        }
        CallPolicy::Make => {
            guard_identity(cx, this, object);
            let known = cx.materialize_args(args)?;
            // What can be hashed, the program cannot change behind the object's back.
            let known = known.filter(|(given, named)| {
                given.hash().is_ok() && named.values().iter().all(|value| value.hash().is_ok())
            });
            let Some((positional, keywords)) = known else {
                return Err(Unwind::break_graph(
                    ReasonId::UnsupportedCall,
                    format!("{} is made of values not known while tracing", tracker::name(&callable)),
                ));
            };
            match callable.call(positional, Some(&keywords)) {
                Ok(made) => {
                    let tracker = cx.trackers.add(Tracker::Produced);
                    Ok(Some(cx.wrap(&made, tracker)))
                }
                Err(error) => Err(cx.raise(error)),
            }
        }
        CallPolicy::Switch => {
            guard_identity(cx, this, object);
            cx.switch(this, &callable, args).map(Some)
        }
        CallPolicy::Manager => {
            guard_identity(cx, this, object);
            StateManagerVariable::make(cx, this, &callable, args).map(Some)
        }
        CallPolicy::FollowOutside(_) if !cx.switches.any() => Ok(None),
        CallPolicy::FollowOutside(why) | CallPolicy::Break(why) => {
            guard_identity(cx, this, object);
            if let Ok(class) = callable.cast::<PyType>() {
                translate::leave_making_alone(class);
            }
            Err(Unwind::break_graph(ReasonId::UnsupportedCall, why))
        }
        CallPolicy::Listed(which) => {
            guard_identity(cx, this, object);
            if let Ok(function) = callable.cast::<PyFunction>() {
                translate::leave_alone(&cpython::function_code(function), true);
            }
            let name = tracker::name(&callable);
            Err(Unwind::break_graph(ReasonId::BreakListed, format!("{name} is {which}")))
        }
    }
}

/// Calls an object that is no function as it is known to a plug-in or the backend; `None` if it is to neither.
pub(crate) fn call_known_object(
    cx: &mut OpcodeExecutor<'_>,
    this: VarId,
    object: &Py<PyAny>,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    let callable = object.bind(cx.py).clone();
    if cx.runtime.builtins.has(&callable) {
        guard_identity(cx, this, object);
        return cx.runtime.builtins.call(cx, &callable, args).transpose();
    }
    call_by_policy(cx, this, object, args)
}

impl Variable for FunctionVariable {
    fn kind(&self) -> &'static str {
        "function"
    }

    fn form(&self) -> Form {
        Form::Function
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        self.object.bind(cx.py).get_type().into_any()
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        format!("FunctionVariable({})", tracker::name(self.object.bind(cx.py)))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        if &**name == "__call__" {
            return method::call_of(cx, this);
        }
        object_model::get_attr(cx, this, name)
    }

    /// To be told once more what it says is no write.
    fn set_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
        if let Some(value) = value.filter(|_| LABELS.contains(&&**name)) {
            if let Some(now) = self.get_attr(cx, this, name)? {
                let (now, value) = (cx.known(now)?, cx.known(value)?);
                if now.zip(value).is_some_and(|(now, value)| now.is(&value)) {
                    return Ok(());
                }
            }
        }
        object_model::set_attr(cx, this, name, value)
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        let outcome = self.call_as_known(cx, this, args);
        match cx.without_frames(outcome)? {
            Some(result) => Ok(result),
            None => self.follow(cx, this, args),
        }
    }
}

/// Functions of the standard library in Python that are pure where their arguments are known values.
const PURE: &[(&str, &[&str])] = &[
    ("json", &["dumps", "loads"]),
    ("textwrap", &["dedent", "indent", "fill", "wrap", "shorten"]),
    ("typing", &["get_origin", "get_args"]),
];

fn is_pure(function: &Bound<'_, PyAny>) -> bool {
    static FUNCTIONS: PyOnceLock<Vec<Py<PyAny>>> = PyOnceLock::new();
    let own = |py: Python<'_>| {
        let paths = PURE.iter().flat_map(|(module, names)| names.iter().map(move |name| (*module, *name)));
        paths.filter_map(|(module, name)| library(py, module, name).ok()).collect()
    };
    FUNCTIONS.get_or_init(function.py(), || own(function.py())).iter().any(|own| own.is(function))
}

/// What `MAKE_FUNCTION` is given.
#[derive(Clone, Copy)]
pub struct NewFunction {
    /// The code object, a constant.
    pub code: VarId,
    /// The qualified name, where the interpreter passes it (before 3.11).
    pub name: Option<VarId>,
    /// Tuple of defaults.
    pub defaults: Option<VarId>,
    /// Dict of keyword-only defaults.
    pub keyword_defaults: Option<VarId>,
    /// Annotations: a dict, or a flat tuple of names and values (3.10+).
    pub annotations: Option<VarId>,
    /// Tuple of cells.
    pub closure: Option<VarId>,
}

/// A function made in the trace.
struct NewFunctionVariable {
    new: NewFunction,
    globals: Globals,
}

/// What CPython says of a label of the wrong type, for any function.
fn refuse_label(cx: &mut OpcodeExecutor<'_>, name: &Name, value: VarId) -> Flow<()> {
    let py = cx.py;
    let expected = match &**name {
        "__name__" | "__qualname__" => py.get_type::<PyString>(),
        "__annotations__" => py.get_type::<PyDict>(),
        "__type_params__" => py.get_type::<PyTuple>(),
        _ => return Ok(()),
    };
    let ty = cx.type_of(value)?;
    let fits = ty.cast::<PyType>().is_ok_and(|ty| cpython::is_subtype(ty, &expected));
    if fits || cx.known(value)?.is_some_and(|value| value.is_none() && &**name == "__annotations__") {
        return Ok(());
    }
    let function =
        cpython::import(py, "functools")?.getattr("wraps")?.cast_into::<PyFunction>().map_err(PyErr::from)?;
    let empty = function_type(py)?.call1((cpython::function_code(&function), PyDict::new(py)))?;
    // Any object of another type is refused in the same words.
    empty.setattr(&**name, py.get_type::<PyAny>().call0()?).map_err(|error| cx.raise(error))
}

impl NewFunctionVariable {
    fn parts(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<FunctionParts> {
        let code = cx.known(self.new.code)?;
        let code =
            code.ok_or_else(|| Unwind::break_graph(ReasonId::UnsupportedCall, "a function with unknown code"))?;
        let code = cx.met.code_unit(&code)?;
        let closure = match self.new.closure {
            Some(cells) => cx.unpack_all(cells)?,
            None => Vec::new(),
        };
        let (first, new) = (code.code.arg_count as usize, self.new);
        Ok(FunctionParts {
            variable: this,
            function: None,
            code,
            globals: self.globals.share(cx.py),
            closure,
            default: Box::new(move |cx, slot| {
                let Some(defaults) = new.defaults else { return Ok(None) };
                let defaults = cx.unpack_all(defaults)?;
                Ok((slot + defaults.len()).checked_sub(first).and_then(|index| defaults.get(index).copied()))
            }),
            keyword_default: Box::new(move |cx, name| {
                let Some(defaults) = new.keyword_defaults else { return Ok(None) };
                let found = cx.keyword_items(defaults)?.into_iter().find(|(key, _)| key == name);
                Ok(found.map(|(_, value)| value))
            }),
        })
    }
}

/// The parts of a function made in the trace.
pub(crate) fn parts_of_new(cx: &mut OpcodeExecutor<'_>, function: VarId) -> Flow<Option<FunctionParts>> {
    match cx.see_as::<NewFunctionVariable>(function)? {
        Some(new) => new.parts(cx, function).map(Some),
        None => Ok(None),
    }
}

/// A real function that stands for one made in the trace.
pub(crate) fn stand_in<'py>(
    cx: &mut OpcodeExecutor<'py>,
    function: VarId,
    exact: &mut bool,
) -> Flow<Option<Bound<'py, PyAny>>> {
    let Some(made) = cx.see_as::<NewFunctionVariable>(function)? else { return Ok(None) };
    let new = made.new;
    let part = |cx: &mut OpcodeExecutor<'py>, part: Option<VarId>, exact: &mut bool| match part {
        Some(part) => stand_in::of(cx, part, exact),
        None => Ok(cx.py.None().into_bound(cx.py)),
    };
    let (code, defaults) = (part(cx, Some(new.code), exact)?, part(cx, new.defaults, exact)?);
    let closure = part(cx, new.closure, exact)?;
    let globals = made.globals.dict.bind(cx.py).clone();
    let real = function_type(cx.py)?.call1((code, globals, cx.py.None(), defaults, closure))?;
    cx.stand_for(&real, function);
    if new.keyword_defaults.is_some() {
        real.setattr("__kwdefaults__", part(cx, new.keyword_defaults, exact)?)?;
    }
    if new.name.is_some() {
        real.setattr("__qualname__", part(cx, new.name, exact)?)?;
    }
    if let Some(annotations) = new.annotations {
        let annotations = annotations_dict(cx, annotations)?;
        real.setattr("__annotations__", stand_in::of(cx, annotations, exact)?)?;
    }
    for (name, value) in cx.effects.attributes_of(function) {
        let value = stand_in::of(cx, value, exact)?;
        match key_of_entry(&name) {
            Some(key) => real.getattr("__dict__")?.set_item(key, value)?,
            None => real.setattr(&*name, value)?,
        }
    }
    Ok(Some(real))
}

/// Attributes that say something of a function and that its calls do not depend on.
const LABELS: &[&str] = &["__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "__type_params__"];

impl NewFunctionVariable {
    /// What C code keeps of a function and nothing has written.
    fn kept(&self, cx: &mut OpcodeExecutor<'_>, name: &Name) -> Flow<Option<VarId>> {
        let py = cx.py;
        let new = self.new;
        let code = cx.known(new.code)?;
        let code = |name: &str| match &code {
            Some(code) => code.getattr(name),
            None => Err(pyo3::exceptions::PyRuntimeError::new_err("a function without code")),
        };
        Ok(Some(match &**name {
            "__code__" => new.code,
            "__name__" => cx.constant(code("co_name")?.unbind()),
            "__qualname__" => match new.name {
                Some(name) => name,
                None => cx.constant(code("co_qualname")?.unbind()),
            },
            "__doc__" => {
                let first = code("co_consts")?.get_item(0).ok().filter(Bound::is_instance_of::<PyString>);
                cx.constant(first.map_or_else(|| py.None(), Bound::unbind))
            }
            "__module__" => match self.globals.dict.bind(py).get_item("__name__")? {
                Some(module) => {
                    let key = Key::Str("__name__".into());
                    let tracker = cx.trackers.add(Tracker::Item { of: self.globals.tracker, key });
                    cx.wrap(&module, tracker)
                }
                None => cx.none(),
            },
            "__globals__" => {
                let globals = self.globals.dict.bind(py).clone().into_any();
                cx.wrap(&globals, self.globals.tracker)
            }
            "__defaults__" => new.defaults.unwrap_or_else(|| cx.none()),
            "__kwdefaults__" => new.keyword_defaults.unwrap_or_else(|| cx.none()),
            "__closure__" => new.closure.unwrap_or_else(|| cx.none()),
            "__annotations__" => match new.annotations {
                Some(annotations) => annotations_dict(cx, annotations)?,
                None => {
                    let empty = DictVariable::from_keywords(cx, Vec::new())?;
                    cx.produce(empty)
                }
            },
            "__type_params__" if function_type(py)?.hasattr("__type_params__")? => cx.tuple(Vec::new()),
            _ => return Ok(None),
        }))
    }
}

sot_core::builtin! { GET = "types:FunctionType.__get__" => |cx, args| {
    let (function, object) = match args.positional[..] {
        [function, object] | [function, object, _] if args.keywords.is_empty() => (function, object),
        _ => return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "__get__() with these arguments")),
    };
    if cx.known(object)?.is_some_and(|object| object.is_none()) {
        return Ok(function);
    }
    let method = (cx.runtime.factories.method)(function, object);
    Ok(cx.produce(method))
} }

/// The annotations as the function has them: from 3.10 on they are given as a flat tuple.
fn annotations_dict(cx: &mut OpcodeExecutor<'_>, annotations: VarId) -> Flow<VarId> {
    if cx.see(annotations)?.form() != Form::Tuple {
        return Ok(annotations);
    }
    let mut entries = Vec::new();
    for pair in cx.unpack_all(annotations)?.chunks_exact(2) {
        let name = cx.known_str(pair[0])?;
        let name = name.ok_or_else(|| Unwind::fallback(ReasonId::CannotRestore, "an annotation without a name"))?;
        entries.push((Rc::from(name), pair[1]));
    }
    let dict = DictVariable::from_keywords(cx, entries)?;
    Ok(cx.produce(dict))
}

/// The annotations for new code.
fn annotations_argument(cx: &OpcodeExecutor<'_>, annotations: VarId) -> Argument {
    let Some(flat) = cx.vars.as_kind::<TupleVariable>(annotations) else { return annotations.into() };
    let pairs = flat.items.chunks_exact(2);
    Argument::Dict(pairs.map(|pair| (pair[0].into(), pair[1].into())).collect())
}

impl Variable for NewFunctionVariable {
    fn kind(&self) -> &'static str {
        "function"
    }

    fn form(&self) -> Form {
        Form::Function
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        function_type(cx.py).unwrap_or_else(|_| cx.py.None().into_bound(cx.py))
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        format!("FunctionVariable(new, {})", cx.text(self.new.code))
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        if &**name == "__call__" {
            return method::call_of(cx, this);
        }
        if let Some(written) = cx.effects.attribute(this, name) {
            return Ok(written);
        }
        match self.kept(cx, name)? {
            Some(value) => {
                // One object, however often it is read.
                if &**name == "__annotations__" {
                    cx.effects.set_attribute(this, name, Some(value));
                }
                Ok(Some(value))
            }
            None => object_model::get_attr(cx, this, name),
        }
    }

    fn set_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
        if let Some(label) = value.filter(|_| LABELS.contains(&&**name)) {
            refuse_label(cx, name, label)?;
            cx.effects.set_attribute(this, name, value);
            return Ok(());
        }
        if &**name == "__dict__" {
            let text = "the __dict__ of a function is replaced";
            return Err(Unwind::break_graph(ReasonId::UnsupportedMutation, text));
        }
        object_model::set_attr(cx, this, name, value)
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        let parts = self.parts(cx, this)?;
        let result = OpcodeInlineExecutor::new(cx).call(&parts, args)?;
        if parts.code.code.flags & GENERATOR != 0 {
            generator::name_after(cx, result, this)?;
        }
        Ok(result)
    }

    fn children(&self) -> Vec<VarId> {
        let new = &self.new;
        [new.defaults, new.keyword_defaults, new.annotations, new.closure].into_iter().flatten().collect()
    }

    fn prepare(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<()> {
        self.new.annotations.map_or(Ok(()), |annotations| cx.see(annotations).map(drop))
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let make = function_type(cg.py())?.unbind();
        let py = cg.py();
        let or_none = |value: Option<VarId>| value.map_or_else(|| Argument::none(py), Argument::from);
        let (name, new) = (self.new.name, self.new);
        cg.begin_call(|cg| cg.load_const(make))?;
        cg.load(new.code)?;
        cg.load_globals(self.globals.tracker)?;
        cg.load_const(py.None())?;
        cg.load_argument(or_none(new.defaults))?;
        cg.load_argument(or_none(new.closure))?;
        cg.end_call(5)?;
        cg.define(this)?;
        if new.keyword_defaults.is_some() {
            cg.store_attr(this, "__kwdefaults__", new.keyword_defaults.map(Argument::from))?;
        }
        if name.is_some() {
            cg.store_attr(this, "__qualname__", name.map(Argument::from))?;
        }
        if let Some(annotations) = new.annotations {
            let annotations = annotations_argument(cg.cx(), annotations);
            cg.store_attr(this, "__annotations__", Some(annotations))?;
        }
        Ok(())
    }
}
