//! Builtins that accept arguments with unknown values, one file per family. Builtins that need known values have no
//! handler here: their calls are folded.

pub mod abc;
pub mod attribute;
pub mod basic;
pub mod cmp_to_key;
pub mod codecs;
pub mod collections;
pub mod contextvars;
pub mod conversion;
pub mod deque_methods;
pub mod dict_methods;
pub mod environment;
pub mod evaluation;
pub mod format;
pub mod frame;
pub mod functools;
pub mod getters;
pub mod hashes;
pub mod interpreter;
pub mod io;
pub mod iteration;
pub mod itertools;
pub mod linecache;
pub mod list_methods;
pub mod lock;
pub mod lru_cache;
pub mod math;
pub mod object;
pub mod operator;
pub mod output;
mod output_guard;
pub mod polyfill;
pub mod random;
pub mod regex;
pub mod set_methods;
pub mod steering;
pub mod str_methods;
pub mod traceback;
pub mod tuple_methods;
pub mod types;
pub mod warnings;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;

/// Returns a graph break at a call that is not simulated in this form.
pub fn cannot(what: &str) -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, what)
}

/// Returns an object of the module `builtins`.
fn builtin_object<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    cpython::builtin(py, name)
}

/// Returns the variable of a builtin as CPython has it, whatever the program has put in its place. Opcodes such as
/// those of f-strings call it without looking its name up.
pub fn original_builtin(cx: &mut OpcodeExecutor<'_>, name: &str) -> Flow<VarId> {
    let function = cpython::builtin(cx.py, name)?;
    let tracker = cx.trace.trackers.constant(function.clone().unbind());
    Ok(cx.trace.wrap(&function, tracker))
}

/// Returns the receiver of a method and its arguments: `required` to `N` positional ones and no keywords. For a wrong
/// number of arguments, raises CPython's own error, from the same call on an empty object of the type.
pub fn receive<const N: usize>(
    cx: &mut OpcodeExecutor<'_>,
    args: &CallArgs,
    ty: &str,
    name: &str,
    required: usize,
) -> Flow<(VarId, [Option<VarId>; N])> {
    let given = args.positional.len().saturating_sub(1);
    match args.positional.split_first() {
        Some((&receiver, rest)) if args.keywords.is_empty() && (required..=N).contains(&given) => {
            let mut slots = [None; N];
            for (slot, &value) in slots.iter_mut().zip(rest) {
                *slot = Some(value);
            }
            Ok((receiver, slots))
        }
        _ if args.keywords.is_empty() => Err(misuse(cx, ty, name, given)?),
        _ => Err(cannot(&format!("{ty}.{name}() with keywords"))),
    }
}

fn misuse(cx: &mut OpcodeExecutor<'_>, ty: &str, name: &str, given: usize) -> Flow<Unwind> {
    let empty = builtin_object(cx.py, ty)?.call0()?;
    let nones = PyTuple::new(cx.py, std::iter::repeat_with(|| cx.py.None()).take(given))?;
    Ok(match empty.call_method1(name, nones) {
        Err(error) => cx.raise(error),
        Ok(_) => cannot(&format!("{ty}.{name}() with these arguments")),
    })
}

/// True if the value is known to be `None`.
fn is_none(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<bool> {
    Ok(cx.known(value)?.is_some_and(|value| value.is_none()))
}

/// Returns an optional argument, where `None` counts as not given.
fn given(cx: &mut OpcodeExecutor<'_>, value: Option<VarId>) -> Flow<Option<VarId>> {
    match value {
        Some(value) if is_none(cx, value)? => Ok(None),
        other => Ok(other),
    }
}

/// Returns an argument whose presence `named` has checked.
pub fn required(value: Option<VarId>) -> Flow<VarId> {
    value.ok_or_else(|| cannot("a call without a required argument"))
}

/// Returns the variable of the result of a pure call made while tracing, containers included.
fn fresh<'py>(cx: &mut OpcodeExecutor<'py>, value: PyResult<Bound<'py, PyAny>>) -> Flow<VarId> {
    match value {
        Ok(value) => cx.wrap_fresh(&value),
        Err(error) => Err(cx.raise(error)),
    }
}

/// Returns the value of a known `int` argument; breaks the graph otherwise.
pub fn known_index(cx: &mut OpcodeExecutor<'_>, value: VarId, what: &str) -> Flow<i64> {
    cx.known_int(value)?.ok_or_else(|| cannot(&format!("{what} with a number that is not known while tracing")))
}
