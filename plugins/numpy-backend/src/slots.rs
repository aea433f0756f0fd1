//! Methods that C code calls through a slot, as statements: methods of ufuncs that write to none of their arguments,
//! and methods of arrays that builtins call. `ufunc.at` has no handler, so it breaks the graph.

use pyo3::prelude::*;
use pyo3::types::PyString;
use sot_core::backend::CallKind;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;
use sot_variables::functions::function::guard_identity;

sot_core::builtin! { REDUCE = "numpy:ufunc.reduce" => |cx, args| call(cx, "reduce", args) }
sot_core::builtin! { ACCUMULATE = "numpy:ufunc.accumulate" => |cx, args| call(cx, "accumulate", args) }
sot_core::builtin! { REDUCEAT = "numpy:ufunc.reduceat" => |cx, args| call(cx, "reduceat", args) }
sot_core::builtin! { OUTER = "numpy:ufunc.outer" => |cx, args| call(cx, "outer", args) }

sot_core::builtin! { ABS = "numpy:ndarray.__abs__" => |cx, args| call_method(cx, "__abs__", args) }
sot_core::builtin! { DIVMOD = "numpy:ndarray.__divmod__" => |cx, args| call_method(cx, "__divmod__", args) }
sot_core::builtin! { RDIVMOD = "numpy:ndarray.__rdivmod__" => |cx, args| call_method(cx, "__rdivmod__", args) }

fn call_method(cx: &mut OpcodeExecutor<'_>, method: &str, args: &CallArgs) -> Flow<VarId> {
    let callee = PyString::intern(cx.py, method).into_any();
    cx.call_graph(CallKind::Method, &callee, method, args)
}

fn call(cx: &mut OpcodeExecutor<'_>, method: &str, args: &CallArgs) -> Flow<VarId> {
    let unknown = || Unwind::break_graph(ReasonId::UnsupportedCall, format!("ufunc.{method} of an unknown ufunc"));
    let (&receiver, rest) = args.positional.split_first().ok_or_else(unknown)?;
    let ufunc = cx.see(receiver)?.object().map(|ufunc| ufunc.clone_ref(cx.py)).ok_or_else(unknown)?;
    guard_identity(cx, receiver, &ufunc);
    let ufunc = ufunc.bind(cx.py).clone();
    let name: String = ufunc.getattr("__name__")?.extract()?;
    let rest = CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() };
    cx.call_graph(CallKind::Api, &ufunc.getattr(method)?, &format!("numpy.{name}.{method}"), &rest)
}
