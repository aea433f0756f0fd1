//! Calls that the backend decides about: carries out each `CallPolicy`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyType};
use sot_core::backend::{CallKind, CallPolicy};
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::guard::Test;
use sot_core::registered;
use sot_core::tracker;
use sot_core::translate;
use sot_core::variable::VarId;

use crate::functions::function::{call_api, call_unbound, follow_or_call, guard_identity};
use crate::tensor::state_manager::StateManagerVariable;

/// True for policies that the program may override by registering the function to be followed.
fn is_to_follow(policy: &CallPolicy) -> bool {
    matches!(policy, CallPolicy::Api | CallPolicy::Break(_) | CallPolicy::ReadsValue(_) | CallPolicy::FollowOutside(_))
}

/// Calls a function that changes its first argument in place. An argument that is passed by keyword is put at its
/// position.
fn call_in_place<'py>(cx: &mut OpcodeExecutor<'py>, callable: &Bound<'py, PyAny>, args: &CallArgs) -> Flow<VarId> {
    let mut args = args.clone();
    if args.positional.is_empty() {
        let first = first_parameter(callable)?;
        if let Some(at) = args.keywords.iter().position(|(name, _)| Some(&**name) == first.as_deref()) {
            args.positional.push(args.keywords.remove(at).1);
        }
    }
    cx.call_in_place(callable, &tracker::name(callable), &args)
}

/// Returns the name of a function's first parameter. Decorators are looked through.
fn first_parameter(callable: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let py = callable.py();
    let mut function = callable.clone();
    while let Some(decorated) = cpython::generic_getattr(&function, intern!(py, "__wrapped__"))? {
        function = decorated;
    }
    let Ok(function) = function.cast::<PyFunction>() else { return Ok(None) };
    let names = cpython::function_code(function).getattr(intern!(py, "co_varnames"))?;
    Ok(names.extract::<Vec<String>>()?.into_iter().next())
}

/// Calls an object by the backend's policy. Returns `None` if the policy is to follow it like any other callable.
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
        CallPolicy::Follow => return Ok(None),
        CallPolicy::FollowOutside(_) if !cx.switches.any() => return Ok(None),
        CallPolicy::FollowOrCall => {
            return match callable.cast::<PyFunction>() {
                Ok(function) => follow_or_call(cx, this, function, args).map(Some),
                Err(_) => Ok(None),
            };
        }
        _ => guard_identity(cx, this, object),
    }
    match policy {
        CallPolicy::Follow | CallPolicy::FollowOrCall => Ok(None),
        CallPolicy::Api => call_api(cx, this, &callable, args).map(Some),
        CallPolicy::InPlace => call_in_place(cx, &callable, args).map(Some),
        CallPolicy::InPlaceIf { argument, at } => {
            let asked = args.at_or_named(at, argument).map(|asked| cx.truth(asked)).transpose()?;
            if asked == Some(true) {
                call_in_place(cx, &callable, args).map(Some)
            } else {
                call_api(cx, this, &callable, args).map(Some)
            }
        }
        CallPolicy::Method(name) => call_unbound(cx, &callable, &name, args),
        CallPolicy::Constant => fold(cx, &callable, args).map(Some),
        CallPolicy::Make => make(cx, &callable, args).map(Some),
        CallPolicy::Switch => cx.switch(this, &callable, args).map(Some),
        CallPolicy::Manager => StateManagerVariable::make(cx, this, &callable, args).map(Some),
        CallPolicy::FollowOutside(why) | CallPolicy::Break(why) => {
            if let Ok(class) = callable.cast::<PyType>() {
                translate::leave_making_alone(class);
            }
            Err(Unwind::break_graph(ReasonId::UnsupportedCall, why))
        }
        CallPolicy::ReadsValue(why) => Err(Unwind::break_graph(ReasonId::TensorValue, why)),
        CallPolicy::Listed(which) => {
            if let Ok(function) = callable.cast::<PyFunction>() {
                translate::leave_alone(&cpython::function_code(function), true);
            }
            let name = tracker::name(&callable);
            Err(Unwind::break_graph(ReasonId::BreakListed, format!("{name} is {which}")))
        }
    }
}

/// Calls an object that is not a function by a registered builtin or the backend's policy. Returns `None` if neither
/// applies.
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

/// Folds a call whose result depends on the arguments alone. Breaks the graph if an argument is not known.
fn fold<'py>(cx: &mut OpcodeExecutor<'py>, callable: &Bound<'py, PyAny>, args: &CallArgs) -> Flow<VarId> {
    match cx.materialize_args(args)? {
        Some((positional, keywords)) => cx.fold(|_| callable.call(positional, Some(&keywords))),
        None => {
            let text = format!("{} of values not known while tracing", tracker::name(callable));
            Err(Unwind::break_graph(ReasonId::UnsupportedCall, text))
        }
    }
}

/// Makes an object of the framework from known values. The values must be hashable, so that the program cannot change
/// them once the object holds them.
fn make<'py>(cx: &mut OpcodeExecutor<'py>, callable: &Bound<'py, PyAny>, args: &CallArgs) -> Flow<VarId> {
    let known = cx.materialize_args(args)?;
    let known =
        known.filter(|(given, named)| given.hash().is_ok() && named.values().iter().all(|value| value.hash().is_ok()));
    let Some((positional, keywords)) = known else {
        let text = format!("{} is made of values not known while tracing", tracker::name(callable));
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    };
    if let Some((object, test)) = cx.runtime.backend().own_code().foundation(CallKind::Api, callable)? {
        let tracker = cx.trace.trackers.constant(object);
        cx.trace.guards.add(tracker, Test::Object(test));
    }
    match callable.call(positional, Some(&keywords)) {
        Ok(made) => Ok(cx.trace.wrap_real(&made)),
        Err(error) => Err(cx.raise(error)),
    }
}
