//! Builtins whose arguments need not be known: one file per family. What only makes sense on known values has no
//! handler here; such calls are folded.

pub mod abc;
pub mod attribute;
pub mod basic;
pub mod cmp_to_key;
pub mod codecs;
pub mod collections;
pub mod contextvars;
pub mod conversion;
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
pub mod polyfill;
pub mod random;
pub mod regex;
pub mod set_methods;
pub mod steering;
pub mod str_methods;
pub mod traceback;
pub mod tuple_methods;
pub mod types;
mod unseen;
pub mod warnings;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;

/// A break at a call that is not simulated in this form.
pub fn cannot(what: &str) -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, what)
}

/// An object of `builtins`.
fn builtin_object<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    cpython::import(py, "builtins")?.getattr(name)
}

/// The receiver of a method and its arguments: `required` to `N` of them, none by name. A misfit gets CPython's own
/// error, from the same call on an empty object of the type.
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

/// Whether the value is `None`.
fn is_none(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<bool> {
    Ok(cx.known(value)?.is_some_and(|value| value.is_none()))
}

/// An optional argument where `None` means it was not given.
fn given(cx: &mut OpcodeExecutor<'_>, value: Option<VarId>) -> Flow<Option<VarId>> {
    match value {
        Some(value) if is_none(cx, value)? => Ok(None),
        other => Ok(other),
    }
}

/// An argument that `named` has checked to be there.
pub fn required(value: Option<VarId>) -> Flow<VarId> {
    value.ok_or_else(|| cannot("a call without a required argument"))
}

/// The variable of an object made while tracing by a pure call, containers included.
fn fresh<'py>(cx: &mut OpcodeExecutor<'py>, value: PyResult<Bound<'py, PyAny>>) -> Flow<VarId> {
    match value {
        Ok(value) => cx.wrap_fresh(&value),
        Err(error) => Err(cx.raise(error)),
    }
}

/// A known `int` argument.
pub fn known_index(cx: &mut OpcodeExecutor<'_>, value: VarId, what: &str) -> Flow<i64> {
    cx.known_int(value)?.ok_or_else(|| cannot(&format!("{what} with a number that is not known while tracing")))
}
