//! numpy on known values: scalars and data types are values, and a function of numpy on values is called if it gives one.
//! Arrays may be written and share memory; what makes one runs in CPython. What is computed of small ones from outside is known, as
//! long as these hold what they held.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple, PyType};

use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::tracker;
use sot_core::variable::VarId;

use crate::function::guard_identity;
use crate::small_array::{self, Arguments};

/// Functions that do something, or ask where arrays lie.
const DOERS: &[&str] = &[
    "shares_memory",
    "may_share_memory",
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
        // The fields of a record's data type can be renamed, records are written like arrays, and anything may be in an object.
        let is_of_records = || ty.is_subclass(&numpy.getattr("dtype")?.call1(("V1",))?.get_type());
        let is_dtype = base("dtype")? && !is_of_records()?;
        PyResult::Ok(is_dtype || base("generic")? && !base("void")? && !base("object_")?)
    };
    named && is_kind().unwrap_or(false)
}

/// Whether operators of a scalar of numpy's give `NotImplemented` for the other operand, whose type says that it wants none of
/// numpy's (`__array_ufunc__ = None`).
pub(crate) fn leaves_operators_to(cx: &mut OpcodeExecutor<'_>, scalar: &Py<PyAny>, other: VarId) -> Flow<bool> {
    if !is_value_type(&scalar.bind(cx.py).get_type()) {
        return Ok(false);
    }
    let ty = cx.type_of(other)?;
    let Ok(ty) = ty.cast::<PyType>() else { return Ok(false) };
    let wish = cpython::type_lookup(ty, intern!(cx.py, "__array_ufunc__"));
    Ok(wish.is_some_and(|wish| wish.is_none()))
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
    let Some(arguments) = Arguments::of(cx, args)? else { return Ok(None) };
    guard_identity(cx, this, callable);
    known_result(cx, &function, arguments).map(Some)
}

/// Calls a method of a small array that reads it; `None` if it is none, or what the array holds is not to be assumed.
pub(crate) fn call_method(
    cx: &mut OpcodeExecutor<'_>,
    method: &Bound<'_, PyAny>,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    if !small_array::reads(method) {
        return Ok(None);
    }
    let Some(arguments) = Arguments::of(cx, args)? else { return Ok(None) };
    known_result(cx, method, arguments).map(Some)
}

fn known_result<'py>(
    cx: &mut OpcodeExecutor<'py>,
    function: &Bound<'_, PyAny>,
    arguments: Arguments<'py>,
) -> Flow<VarId> {
    let result = function.call(arguments.positional.clone(), Some(&arguments.keywords));
    let refuse = |what: &str| {
        let text = format!("{} {what} an array", tracker::name(function));
        Err(Unwind::break_graph(ReasonId::UnsupportedCall, text))
    };
    if !arguments.are_as_before(cx)? {
        return refuse("writes");
    }
    match result {
        Ok(value) if is_known(cx, &value) => cx.wrap_fresh(&value.unbind().into_bound(cx.py)),
        Ok(_) => refuse("makes"),
        Err(error) => Err(cx.raise(error)),
    }
}

fn is_known(cx: &OpcodeExecutor<'_>, value: &Bound<'_, PyAny>) -> bool {
    if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        return tuple.iter().all(|item| is_known(cx, &item));
    }
    if let Ok(list) = value.cast_exact::<PyList>() {
        return list.iter().all(|item| is_known(cx, &item));
    }
    cx.is_constant(value) || is_value_type(&value.get_type()) || is_plain_class(value)
}

fn is_plain_class(value: &Bound<'_, PyAny>) -> bool {
    value.cast::<PyType>().is_ok_and(|class| !cpython::is_heap_type(class))
}
