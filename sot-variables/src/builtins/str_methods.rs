//! Methods of `str` and `bytes` that accept an iterable, whose items are known even if the iterable is not.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use sot_core::builtin;
use sot_core::error::Flow;
use sot_core::executor::{object_model, CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;

use super::{cannot, fresh};

builtin! { STR_JOIN = "str.join" => |cx, args| join(cx, args) }

builtin! { BYTES_JOIN = "bytes.join" => |cx, args| join(cx, args) }

fn join(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let [separator, iterable] = args.exactly("join")?;
    if !object_model::can_be_iterated(cx, iterable)? {
        return Err(cx.raise(PyTypeError::new_err("can only join an iterable")));
    }
    let mut items = Vec::new();
    for item in cx.unpack_all(iterable)? {
        match cx.materialize(item)? {
            Some(item) => items.push(item),
            None => return Err(cannot("join() of text that is not known while tracing")),
        }
    }
    let Some(separator) = cx.known(separator)? else { return Err(cannot("join() by an unknown separator")) };
    let joined = separator.call_method1("join", (PyList::new(cx.py, items)?,));
    fresh(cx, joined)
}
