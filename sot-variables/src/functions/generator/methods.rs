//! The methods of generators.

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyType;
use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{unwinding, CallArgs, OpcodeExecutor};
use sot_core::language::LANGUAGE;
use sot_core::variable::{Form, VarId};

use super::resuming::{close, send, stop_iteration, throw, Resumed};

builtin! { SEND = "types:GeneratorType.send" => |cx, args| {
    let [generator, value] = args.exactly("send")?;
    let resumed = send(cx, generator, value)?;
    outcome(cx, resumed)
} }

builtin! { CLOSE = "types:GeneratorType.close" => |cx, args| {
    let [generator] = args.exactly("close")?;
    let returned = close(cx, generator)?;
    let told = returned.filter(|_| LANGUAGE.close_gives_value);
    Ok(told.unwrap_or_else(|| cx.trace.none()))
} }

builtin! { THROW = "types:GeneratorType.throw" => |cx, args| {
    let [generator, ref thrown @ ..] = args.positional[..] else {
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "throw() without a generator"));
    };
    let exception = thrown_exception(cx, thrown)?;
    let resumed = throw(cx, generator, exception)?;
    outcome(cx, resumed)
} }

/// Returns the result of `send()`, `throw()` and the like, or raises `StopIteration`.
fn outcome(cx: &mut OpcodeExecutor<'_>, resumed: Resumed) -> Flow<VarId> {
    match resumed {
        Resumed::Yielded(value) => Ok(value),
        Resumed::Returned(value) => {
            let stop = stop_iteration(cx, value)?;
            Err(Unwind::Raise(stop))
        }
    }
}

/// Returns the exception that `throw(type, value, traceback)` throws, for all forms of its arguments.
fn thrown_exception(cx: &mut OpcodeExecutor<'_>, thrown: &[VarId]) -> Flow<VarId> {
    let refuse = || Unwind::break_graph(ReasonId::UnsupportedCall, "throw() with these arguments");
    let (&first, rest) = thrown.split_first().ok_or_else(refuse)?;
    let value = match rest.first() {
        Some(&value) if !cx.known(value)?.is_some_and(|value| value.is_none()) => Some(value),
        _ => None,
    };
    let is_class = cx.see(first)?.object().is_some_and(|object| object.bind(cx.py).is_instance_of::<PyType>());
    match value {
        // If the class raises when it is called, that exception is thrown instead.
        None if is_class => match cx.call(first, &CallArgs::default()) {
            // CPython throws a `TypeError` with a message of its own here.
            Ok(made) if !is_exception(cx, made)? => Err(refuse()),
            Err(Unwind::Raise(exception)) => Ok(exception),
            made => made,
        },
        // An exception from outside has a traceback, which throwing the exception changes.
        None if cx.see(first)?.form() == Form::Exception => Ok(first),
        Some(value) if is_class && cx.see(value)?.form() == Form::Exception => {
            let fits = unwinding::exception_matches(cx, value, first)?;
            fits.then_some(value).ok_or_else(refuse)
        }
        Some(value) if is_class && cx.see(value)?.form() != Form::Tuple => {
            let made = match cx.call(first, &CallArgs::positional(vec![value])) {
                Err(Unwind::Raise(exception)) => return Ok(exception),
                made => made?,
            };
            if is_exception(cx, made)? {
                Ok(made)
            } else {
                Err(refuse())
            }
        }
        _ => Err(refuse()),
    }
}

fn is_exception(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<bool> {
    let ty = cx.type_of(value)?;
    Ok(ty.cast::<PyType>().is_ok_and(|ty| cpython::is_subtype(ty, &cx.py.get_type::<PyBaseException>())))
}
