//! numpy on known values: scalars and data types are values, and a function of numpy on values is called if it gives one.
//! Arrays may be written and share memory; what makes one runs in CPython.

use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::tracker;
use sot_core::variable::VarId;

use crate::function::guard_identity;

/// Functions that do something.
const DOERS: &[&str] = &[
    "copyto",
    "put",
    "place",
    "putmask",
    "save",
    "savez",
    "savez_compressed",
    "savetxt",
    "seterr",
    "set_printoptions",
];

fn is_of_numpy(object: &Bound<'_, PyAny>) -> bool {
    let module = object.getattr_opt("__module__").ok().flatten();
    module.and_then(|module| module.extract::<String>().ok()).is_some_and(|module| module == "numpy")
}

/// Whether instances of the type are immutable values of numpy's.
pub fn is_value_type(ty: &Bound<'_, PyType>) -> bool {
    let named = ty.module().is_ok_and(|module| module == "numpy" || module == "numpy.dtypes");
    let is_kind = || {
        let numpy = cpython::import(ty.py(), "numpy")?;
        let base = |name: &str| ty.is_subclass(&numpy.getattr(name)?);
        // Records are written like arrays, and anything may be in an object.
        PyResult::Ok(base("dtype")? || base("generic")? && !base("void")? && !base("object_")?)
    };
    named && is_kind().unwrap_or(false)
}

/// Calls a function of numpy with values; `None` if it is none, or the values are not known.
pub fn call(cx: &mut OpcodeExecutor<'_>, this: VarId, callable: &Py<PyAny>, args: &CallArgs) -> Flow<Option<VarId>> {
    let function = callable.bind(cx.py).clone();
    if !is_of_numpy(&function) && !is_of_numpy(function.get_type().as_any()) {
        return Ok(None);
    }
    let name = function.getattr_opt("__name__")?.and_then(|name| name.extract::<String>().ok()).unwrap_or_default();
    if DOERS.contains(&&*name) {
        return Ok(None);
    }
    let Some((positional, keywords)) = cx.materialize_args(args)? else { return Ok(None) };
    guard_identity(cx, this, callable);
    match function.call(positional, Some(&keywords)) {
        Ok(value) if is_known(cx, &value) => cx.wrap_fresh(&value).map(Some),
        Ok(_) => {
            let text = format!("{} makes an array", tracker::name(&function));
            Err(Unwind::break_graph(ReasonId::UnsupportedCall, text))
        }
        Err(error) => Err(cx.raise(error)),
    }
}

fn is_known(cx: &OpcodeExecutor<'_>, value: &Bound<'_, PyAny>) -> bool {
    match value.cast_exact::<PyTuple>() {
        Ok(tuple) => tuple.iter().all(|item| is_known(cx, &item)),
        Err(_) => cx.is_constant(value) || is_value_type(&value.get_type()) || is_plain_class(value),
    }
}

fn is_plain_class(value: &Bound<'_, PyAny>) -> bool {
    value.cast::<PyType>().is_ok_and(|class| !cpython::is_heap_type(class))
}
