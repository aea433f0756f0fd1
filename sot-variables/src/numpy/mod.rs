//! numpy on known values. Scalars and data types are values, arrays made from known values are known (`array`), and
//! functions of numpy are folded on both. Results computed from small arrays from outside are known too; the contents
//! of these arrays are guarded.
//!
//! A call that warns, or would warn under some `numpy.errstate`, is left to CPython. So results do not depend on that
//! state, and the program gets its warnings.

pub(crate) mod array;
pub(crate) mod array_comparison;
pub mod small_array;

use pyo3::exceptions::PyFloatingPointError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};

use sot_core::cpython;
use sot_core::error::{Extent, Flow, Reason, ReasonId, Unwind};
use sot_core::executor::{warnings, CallArgs, OpcodeExecutor, Trace};
use sot_core::tracker;
use sot_core::variable::{Form, VarId};

use crate::functions::function::guard_identity;
use crate::numpy::array::ArrayVariable;
use crate::numpy::small_array::{array_type, Arguments};

/// Types, functions and methods with side effects, with results that depend on more than their arguments, or with
/// results from uninitialised memory.
const DOERS: &[&str] = &[
    "shares_memory",
    "may_share_memory",
    "empty",
    "empty_like",
    "load",
    "loadtxt",
    "genfromtxt",
    "fromfile",
    "fromregex",
    "save",
    "savez",
    "savez_compressed",
    "savetxt",
    "tofile",
    "dump",
    "geterr",
    "geterrcall",
    "geterrobj",
    "seterr",
    "seterrcall",
    "seterrobj",
    "getbufsize",
    "setbufsize",
    "get_printoptions",
    "set_printoptions",
    "set_string_function",
    "set_numeric_ops",
    "_set_promotion_state",
    "array2string",
    "array_repr",
    "array_str",
    "info",
    "lookfor",
    "source",
    "who",
    "disp",
    "datetime64",
    "show_config",
    "show_runtime",
    "test",
    "resize",
    "setflags",
    "__repr__",
    "__str__",
    "__format__",
];

/// Modules whose functions only compute.
const MODULES: &[&str] = &["numpy", "numpy.linalg", "numpy.fft"];

fn name_of(function: &Bound<'_, PyAny>) -> PyResult<String> {
    let name = function.getattr_opt(intern!(function.py(), "__name__"))?;
    Ok(name.and_then(|name| name.extract().ok()).unwrap_or_default())
}

/// True if the function belongs to numpy and computes its result from the arguments alone.
fn computes(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = function.py();
    let is_ufunc = match cpython::builtin_type_name(function) {
        "ufunc" => true,
        "function" | "builtin_function_or_method" | "_ArrayFunctionDispatcher" => false,
        _ => return Ok(false),
    };
    let name = name_of(function)?;
    if is_ufunc {
        // Other ufuncs may have been made from functions of the program.
        let own = cpython::import(py, "numpy")?.getattr_opt(&*name)?;
        return Ok(own.is_some_and(|own| own.is(function)));
    }
    let module = function.getattr_opt(intern!(py, "__module__"))?.and_then(|module| module.extract::<String>().ok());
    Ok(module.is_some_and(|module| MODULES.contains(&&*module)) && !DOERS.contains(&&*name))
}

/// True if instances of the type are immutable values of numpy: scalars and data types.
pub fn is_value_type(ty: &Bound<'_, PyType>) -> bool {
    let named = ty.module().is_ok_and(|module| module == "numpy" || module == "numpy.dtypes");
    let is_kind = || {
        let numpy = cpython::import(ty.py(), "numpy")?;
        let base = |name: &str| ty.is_subclass(&numpy.getattr(name)?);
        // Fields of a record data type can be renamed, records are mutable, and an object scalar can hold anything.
        let is_of_records = || ty.is_subclass(&numpy.getattr("dtype")?.call1(("V1",))?.get_type());
        let is_dtype = base("dtype")? && !is_of_records()?;
        PyResult::Ok(is_dtype || base("generic")? && !base("void")? && !base("object_")?)
    };
    named && is_kind().unwrap_or(false)
}

/// True if operators of a numpy scalar or array return `NotImplemented` for the other operand, or if that operand's
/// own operators do the same.
pub(crate) fn leaves_operators_to(cx: &mut OpcodeExecutor<'_>, object: &Py<PyAny>, other: VarId) -> Flow<bool> {
    let object = object.bind(cx.py);
    let of_numpy = is_value_type(&object.get_type()) || small_array::is_of_numbers(object)?;
    Ok(of_numpy && (is_left_to(cx, other)? || is_array_of_the_graph(cx, other)?))
}

/// True if an operand is a tensor of a backend whose tensors are numpy arrays.
fn is_array_of_the_graph(cx: &mut OpcodeExecutor<'_>, operand: VarId) -> Flow<bool> {
    if cx.see(operand)?.form() != Form::Tensor {
        return Ok(false);
    }
    let ty = cx.type_of(operand)?;
    Ok(ty.is(array_type(cx.py)?))
}

/// True if operators of numpy return `NotImplemented` for an operand because its type has `__array_ufunc__ = None`.
pub(crate) fn is_left_to(cx: &mut OpcodeExecutor<'_>, operand: VarId) -> Flow<bool> {
    let ty = cx.type_of(operand)?;
    let Ok(ty) = ty.cast::<PyType>() else { return Ok(false) };
    let wish = cpython::type_lookup(ty, intern!(cx.py, "__array_ufunc__"));
    Ok(wish.is_some_and(|wish| wish.is_none()))
}

/// Folds a call of a numpy function. Returns `None` for other functions, and if the values are not known.
pub fn call(cx: &mut OpcodeExecutor<'_>, this: VarId, callable: &Py<PyAny>, args: &CallArgs) -> Flow<Option<VarId>> {
    let function = callable.bind(cx.py).clone();
    if !computes(&function)? {
        return Ok(None);
    }
    let Some(arguments) = Arguments::of(cx, args)? else { return Ok(None) };
    guard_identity(cx, this, callable);
    known_result(cx, &function, arguments).map(Some)
}

/// Makes a scalar, data type or array of numpy.
pub(crate) fn make<'py>(cx: &mut OpcodeExecutor<'py>, class: &Bound<'py, PyType>, args: &CallArgs) -> Flow<VarId> {
    let looks_around = DOERS.contains(&&*name_of(class)?);
    match if looks_around { None } else { Arguments::of(cx, args)? } {
        Some(arguments) => known_result(cx, class, arguments),
        None => {
            let text = format!("{}() of values that are not known while tracing", tracker::name(class));
            Err(Unwind::break_graph(ReasonId::UnsupportedCall, text))
        }
    }
}

/// Folds a call of a method of an array made in the trace, of a numpy scalar, or a reading method of a small array
/// from outside. Returns `None` for other methods, and if the contents of the arguments are not to be guarded.
pub(crate) fn call_method<'py>(
    cx: &mut OpcodeExecutor<'py>,
    method: &Bound<'py, PyAny>,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    let Some(&receiver) = args.positional.first() else { return Ok(None) };
    let Some(owner) = method.getattr_opt(intern!(cx.py, "__objclass__"))? else { return Ok(None) };
    if !owner.cast::<PyType>().is_ok_and(|owner| owner.module().is_ok_and(|module| module == "numpy")) {
        return Ok(None);
    }
    let name = name_of(method)?;
    if name == "item" && args.positional.len() == 1 && args.keywords.is_empty() {
        if let Some(number) = cx.trace.number_of_scalar(method, receiver)? {
            return Ok(Some(number));
        }
    }
    if name == "resize" {
        let why = Reason::new(ReasonId::UnsupportedCall, "ndarray.resize, which counts the references to the array");
        return Err(cx.stack.leave_to_cpython(Reason { extent: Extent::Frame, ..why }));
    }
    if cx.trace.vars.as_kind::<ArrayVariable>(receiver).is_some() {
        if DOERS.contains(&&*name) {
            return Ok(None);
        }
    } else if let Some(object) = cx.see(receiver)?.object() {
        if computes(object.bind(cx.py))? {
            return call_method_of_function(cx, receiver, object, &name, args);
        }
        if !is_value_type(&object.bind(cx.py).get_type()) && !small_array::reads(method) {
            return Ok(None);
        }
    } else {
        return Ok(None);
    }
    let memo = cx.trace.none();
    let arguments = match args.positional[..] {
        // Copying an array without objects does not look at the memo.
        [array, _] if name == "__deepcopy__" => Arguments::of(cx, &CallArgs::positional(vec![array, memo]))?,
        _ => Arguments::of(cx, args)?,
    };
    let Some(arguments) = arguments else { return Ok(None) };
    known_result(cx, method, arguments).map(Some)
}

/// Folds a call of a ufunc method, such as `numpy.add.reduce(...)`.
fn call_method_of_function(
    cx: &mut OpcodeExecutor<'_>,
    this: VarId,
    function: &Py<PyAny>,
    name: &str,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    let args = CallArgs { positional: args.positional[1..].to_vec(), keywords: args.keywords.clone() };
    let Some(arguments) = Arguments::of(cx, &args)? else { return Ok(None) };
    guard_identity(cx, this, function);
    let method = function.bind(cx.py).getattr(name)?;
    known_result(cx, &method, arguments).map(Some)
}

fn known_result<'py>(
    cx: &mut OpcodeExecutor<'py>,
    function: &Bound<'py, PyAny>,
    arguments: Arguments<'py>,
) -> Flow<VarId> {
    let call = || function.call(arguments.positional.clone(), Some(&arguments.keywords));
    let result = quietly(cx.py, call)?;
    let refuse = |what: &str| {
        let text = format!("{} {what} an array", tracker::name(function));
        Err(Unwind::break_graph(ReasonId::UnsupportedCall, text))
    };
    let Some(mut known) = arguments.settle(cx)? else { return refuse("writes") };
    match result {
        Ok(value) => known.wrap(cx, &value)?.map_or_else(|| refuse("makes"), Ok),
        Err(error) => Err(cx.raise(error)),
    }
}

/// Runs a call, and breaks the graph if it warns. An exception that the call raises is returned.
pub(crate) fn quietly<'py>(
    py: Python<'py>,
    call: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> Flow<PyResult<Bound<'py, PyAny>>> {
    let options = PyDict::new(py);
    options.set_item("all", "raise")?;
    let state = cpython::import(py, "numpy")?.getattr("errstate")?.call((), Some(&options))?;
    state.call_method0("__enter__")?;
    let result = warnings::unless_it_warns(py, call);
    state.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
    match result? {
        Err(error) if error.is_instance_of::<PyFloatingPointError>(py) => {
            Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("numpy warns: {}", error.value(py))))
        }
        result => Ok(result),
    }
}

/// True if the object is a value, or a tuple or list of values.
pub(crate) fn is_known(trace: &Trace<'_>, value: &Bound<'_, PyAny>) -> bool {
    if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        return tuple.iter().all(|item| is_known(trace, &item));
    }
    if let Ok(list) = value.cast_exact::<PyList>() {
        return list.iter().all(|item| is_known(trace, &item));
    }
    trace.runtime.is_constant(value) || is_value_type(&value.get_type()) || is_plain_class(value)
}

fn is_plain_class(value: &Bound<'_, PyAny>) -> bool {
    value.cast::<PyType>().is_ok_and(|class| !cpython::is_heap_type(class))
}
