//! Python functions of the program. A call is inlined unless the backend or a registered builtin knows the function.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyFunction, PyString, PyTuple};
use sot_core::backend::CallKind;
use sot_core::bytecode::flags::GENERATOR;
use sot_core::cpython::{self, Part};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{
    names, object_model, CallArgs, FunctionParts, Name, OpcodeExecutor, OpcodeInlineExecutor, Trace,
};
use sot_core::guard::{Identity, Test};
use sot_core::tracker::{self, Key, Tracker, TrackerId};
use sot_core::translate;
use sot_core::variable::{Form, VarId, Variable};

use crate::builtins::frame;
use crate::functions::call_policy::call_by_policy;
use crate::functions::generator;
use crate::functions::method;
use crate::functions::new_function::LABELS;
use crate::iterators::library;
use crate::numpy;
use crate::tensor::TensorVariable;
use crate::weak;

sot_core::variable_kind! {
    "function",
    types: |py| Ok(vec![function_type(py)?.unbind()]),
    wrap: FunctionVariable::wrap
}

/// A function of the program.
pub struct FunctionVariable {
    object: Py<PyAny>,
}

pub(super) fn function_type(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    cpython::import(py, "types")?.getattr("FunctionType")
}

impl FunctionVariable {
    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        Ok(Rc::new(FunctionVariable { object: object.clone().unbind() }))
    }

    /// Calls the function without inlining it, if a builtin, the backend or another rule knows it; `None` otherwise.
    fn call_as_known(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<Option<VarId>> {
        let object = self.object.bind(cx.py).clone();
        if cx.runtime.builtins.has(&object) {
            guard_identity(cx, this, &self.object);
            return cx.runtime.builtins.call(cx, &object, args).transpose();
        }
        let function = self.object.bind(cx.py).cast::<PyFunction>().map_err(PyErr::from)?;
        frame::refuse_frame_inspection(function)?;
        // A resume function is the rest of a function that was inlined, so it is inlined whatever the policy says of
        // its code.
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
        // An encoder or decoder of the program is called.
        let has_own_class = args.keywords.iter().any(|(name, _)| &**name == "cls");
        if is_pure(&function) && !has_own_class {
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

/// Inlines the function: simulates its body.
fn follow<'py>(
    cx: &mut OpcodeExecutor<'py>,
    this: VarId,
    function: &Bound<'py, PyFunction>,
    args: &CallArgs,
) -> Flow<VarId> {
    let of = cx.trace.vars.tracker(this);
    let parts = parts_of(cx, this, function)?;
    let before = cx.trace.graph.mark();
    if cx.trace.trackers.is_made(of) {
        // A function that a decorator put into a class made in the trace: its code dies with the trace, so a break
        // inside the call cannot be resumed.
        cx.claims.take();
    }
    let result = OpcodeInlineExecutor::new(cx).call(&parts, args)?;
    if parts.code.code.flags & GENERATOR != 0 {
        generator::name_after(cx, result, this)?;
    }
    if translate::is_asked_for(&cpython::function_code(function)) {
        cx.trace.graph.end_unit(&parts.code.code.name, before);
    }
    Ok(result)
}

/// Calls an API of the framework: records one statement, or inlines the body of a Python function.
pub(super) fn call_api<'py>(
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

/// Calls a function that its author has marked as one statement: inlines it, or records the statement where it cannot
/// be inlined.
pub(super) fn follow_or_call<'py>(
    cx: &mut OpcodeExecutor<'py>,
    this: VarId,
    function: &Bound<'py, PyFunction>,
    args: &CallArgs,
) -> Flow<VarId> {
    let mut plain = true;
    for argument in args.all() {
        let payload = cx.see(argument)?;
        let tensor = cx.trace.vars.as_kind::<TensorVariable>(argument);
        // Only if no argument carries gradients: they would not flow through control flow inside a program.
        plain &= tensor.map_or(payload.constant().is_some(), |tensor| !tensor.meta().gradient.flows);
    }
    let found = if plain { cx.runtime.backend().own_code().statement_of(function)? } else { None };
    let Some((callee, reads)) = found else { return follow(cx, this, function, args) };
    let call = |cx: &mut OpcodeExecutor<'py>| {
        guard_identity(cx, this, &function.clone().into_any().unbind());
        let parts = parts_of(cx, this, function)?;
        for name in &reads {
            let read = cx.trace.find_global_in(&parts.globals, &Rc::from(name.as_str()))?;
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

/// Calls a method of the tensor type on its first argument. Returns `None` for a Python function whose first argument
/// is not a tensor; such a function is inlined.
pub(super) fn call_unbound<'py>(
    cx: &mut OpcodeExecutor<'py>,
    callable: &Bound<'py, PyAny>,
    name: &str,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    if let Some((&receiver, rest)) = args.positional.split_first() {
        let ty = cx.see(receiver)?.python_type(&cx.trace);
        let found = cpython::type_lookup(ty.cast().map_err(PyErr::from)?, &PyString::intern(cx.py, name));
        if cx.trace.vars.get(receiver).form() == Form::Tensor && found.is_some_and(|found| found.is(callable)) {
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

/// Guards that the variable is this very object.
pub fn guard_identity(cx: &mut OpcodeExecutor<'_>, this: VarId, object: &Py<PyAny>) {
    let tracker = cx.trace.vars.tracker(this);
    if cx.trace.trackers.is_sourced(tracker) {
        cx.trace.guards.add(tracker, Test::Is(Identity::of(object.bind(cx.py))));
    }
}

fn parts_of<'py>(cx: &mut OpcodeExecutor<'py>, this: VarId, function: &Bound<'py, PyFunction>) -> Flow<FunctionParts> {
    let of = cx.trace.vars.tracker(this);
    let code = cpython::function_code(function);
    let part = cx.trace.trackers.add(Tracker::Part { of, part: Part::Code });
    if cx.trace.trackers.is_sourced(of) {
        cx.trace.guards.add(part, Test::Is(Identity::of(code.as_any())));
    }
    let dict = cpython::function_globals(function);
    let tracker = cx.trace.trackers.add(Tracker::Part { of, part: Part::Globals });
    let globals = names::globals_of(cx, &dict, Some(tracker))?;
    let closure = closure_of(cx, function, of);
    let defaults = cpython::function_defaults(function).map(Bound::unbind);
    let keyword_defaults = cpython::function_kwdefaults(function).map(Bound::unbind);
    let code = cx.code_unit(code.as_any())?;
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
    let of = cx.trace.trackers.add(Tracker::Part { of, part: Part::Closure });
    let cells = cells.iter().enumerate();
    cells
        .map(|(index, cell)| {
            let tracker = cx.trace.trackers.add(Tracker::Item { of, key: Key::Index(index as i64) });
            cx.trace.wrap(&cell, tracker)
        })
        .collect()
}

/// Returns the default of the positional parameter in `slot`. The function has `first` positional parameters;
/// defaults belong to the last of them.
fn default_at(
    cx: &mut OpcodeExecutor<'_>,
    defaults: Option<&Py<PyTuple>>,
    of: TrackerId,
    first: usize,
    slot: usize,
) -> Flow<Option<VarId>> {
    let Some(defaults) = defaults else { return Ok(lacks_part(cx, of, Part::Defaults)) };
    let defaults = defaults.bind(cx.py).clone();
    let of = cx.trace.trackers.add(Tracker::Part { of, part: Part::Defaults });
    if cx.trace.trackers.is_sourced(of) {
        cx.trace.guards.add(of, Test::Length(defaults.len()));
    }
    let Some(index) = (slot + defaults.len()).checked_sub(first) else { return Ok(None) };
    let tracker = cx.trace.trackers.add(Tracker::Item { of, key: Key::Index(index as i64) });
    Ok(Some(cx.trace.wrap(&defaults.get_item(index)?, tracker)))
}

fn keyword_default(
    cx: &mut OpcodeExecutor<'_>,
    defaults: Option<&Py<PyDict>>,
    of: TrackerId,
    name: &Name,
) -> Flow<Option<VarId>> {
    let Some(defaults) = defaults else { return Ok(lacks_part(cx, of, Part::KwDefaults)) };
    let defaults = defaults.bind(cx.py).clone();
    let of = cx.trace.trackers.add(Tracker::Part { of, part: Part::KwDefaults });
    if cx
        .trace
        .identities
        .of(defaults.as_any())
        .is_some_and(|met| cx.trace.effects.written().any(|written| written == met))
    {
        let text = "a function whose defaults were written to";
        return Err(Unwind::break_graph(ReasonId::UnsupportedMutation, text));
    }
    let Some(value) = defaults.get_item(&**name)? else {
        if cx.trace.trackers.is_sourced(of) {
            cx.trace.guards.add(of, Test::LacksKey(Key::Str(Rc::clone(name))));
        }
        return Ok(None);
    };
    let tracker = cx.trace.trackers.add(Tracker::Item { of, key: Key::Str(Rc::clone(name)) });
    cx.trace.guards.require(tracker);
    Ok(Some(cx.trace.wrap(&value, tracker)))
}

/// Guards that the function has no such part, and returns no default.
fn lacks_part(cx: &mut OpcodeExecutor<'_>, of: TrackerId, part: Part) -> Option<VarId> {
    if cx.trace.trackers.is_sourced(of) {
        cx.trace.guards.add(of, Test::LacksPart(part));
    }
    None
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

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.object.bind(trace.py).get_type().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("FunctionVariable({})", tracker::name(self.object.bind(trace.py)))
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

    /// Setting a label, such as `__name__`, to the value that it already has is no write.
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
        match cx.without_frame(|cx| self.call_as_known(cx, this, args))? {
            Some(result) => Ok(result),
            None => self.follow(cx, this, args),
        }
    }
}

/// Functions of the standard library, written in Python, that are pure if their arguments are known.
const PURE: &[(&str, &[&str])] =
    &[("json", &["dumps", "loads"]), ("textwrap", &["dedent", "indent"]), ("typing", &["get_origin", "get_args"])];

fn is_pure(function: &Bound<'_, PyAny>) -> bool {
    static FUNCTIONS: PyOnceLock<Vec<Py<PyAny>>> = PyOnceLock::new();
    let own = |py: Python<'_>| {
        let paths = PURE.iter().flat_map(|(module, names)| names.iter().map(move |name| (*module, *name)));
        paths.filter_map(|(module, name)| library(py, module, name).ok()).collect()
    };
    FUNCTIONS.get_or_init(function.py(), || own(function.py())).iter().any(|own| own.is(function))
}
