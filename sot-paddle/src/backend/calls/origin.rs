//! Tells if a function is Paddle's own, or a replacement by the program. A decorator copies the names of the function
//! that it decorates, so only the origin of a function's code decides.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyFunction, PyModule, PyString, PyTuple, PyType};
use rustc_hash::FxHashSet;
use sot_core::cpython;

/// Packages that Paddle uses, besides the standard library.
const HELPERS: &[&str] = &["decorator", "google", "numpy", "opt_einsum", "sot", "typing_extensions"];

/// Prefix of the file names that the package `decorator` gives to generated code.
const GENERATED: &str = "<decorator-gen";

/// True if a file belongs to a package that Paddle uses.
pub(crate) fn is_of_helper(file: &str) -> bool {
    let package = file.rsplit_once("/site-packages/").and_then(|(_, path)| path.split(['/', '.']).next());
    file.starts_with(GENERATED) || package.is_some_and(|package| HELPERS.contains(&package))
}

/// The role of a value in a search for code.
pub(crate) enum Value<'py> {
    /// A function in Python.
    Function(Bound<'py, PyFunction>),
    /// An object that holds functions: a property, a method, a decorator's result.
    Holder(Vec<Bound<'py, PyAny>>),
    /// Code in C, a class, a module, or a value that is not called.
    Other,
}

/// Returns the role of the value.
pub(crate) fn value_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Value<'py>> {
    if let Ok(function) = value.cast_exact::<PyFunction>() {
        return Ok(Value::Function(function.clone()));
    }
    let class = value.get_type();
    let held: &[&str] = match (cpython::builtin_type_name(value), &*class.name()?.to_string_lossy()) {
        ("property", _) => &["fget", "fset", "fdel"],
        ("staticmethod" | "classmethod" | "method", _) => &["__func__"],
        (_, "partial" | "partialmethod" | "cached_property") if is_of_functools(&class)? => &["func"],
        (_, "_lru_cache_wrapper") if is_of_functools(&class)? => &["__wrapped__"],
        _ => return Ok(Value::Other),
    };
    let held = held.iter().map(|name| value.getattr(*name)).collect::<PyResult<Vec<_>>>()?;
    Ok(Value::Holder(held.into_iter().filter(|held| !held.is_none()).collect()))
}

/// Returns the Python functions of which one runs first when the value is called or looked up; empty if other code
/// runs first.
pub(crate) fn called_first<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyFunction>>> {
    match value_of(value)? {
        Value::Function(function) => Ok(vec![function]),
        Value::Holder(held) => {
            let found = held.iter().map(called_first).collect::<PyResult<Vec<_>>>()?;
            Ok(if found.iter().any(Vec::is_empty) { Vec::new() } else { found.concat() })
        }
        Value::Other if value.is_instance_of::<PyType>() => Ok(Vec::new()),
        Value::Other => {
            let call = cpython::type_lookup(&value.get_type(), &PyString::intern(value.py(), "__call__"));
            Ok(call.and_then(|call| call.cast_into_exact::<PyFunction>().ok()).into_iter().collect())
        }
    }
}

/// True if the value is an instance of a Python class, such as the object that gives Paddle's operations their names.
/// Paddle itself replaces such objects by others of the same class.
pub(crate) fn is_instance(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_named = value.is_instance_of::<PyType>() || value.is_instance_of::<PyModule>();
    Ok(!is_named && matches!(value_of(value)?, Value::Other) && cpython::is_heap_type(&value.get_type()))
}

fn is_of_functools(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let functools = cpython::import(class.py(), "functools")?;
    Ok(functools.getattr_opt(class.name()?)?.is_some_and(|of_library| of_library.is(class)))
}

/// True if the value is not the program's: it belongs to Paddle, or to a package that Paddle uses.
pub(crate) fn is_own(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    own(value, &mut FxHashSet::default())
}

fn own(value: &Bound<'_, PyAny>, seen: &mut FxHashSet<usize>) -> PyResult<bool> {
    if !seen.insert(value.as_ptr() as usize) {
        return Ok(true);
    }
    match value_of(value)? {
        Value::Function(function) => match home(&function)? {
            FunctionOwner::Paddle => has_own_code(&function),
            // A function that a library has made from other functions has the owner of these functions.
            FunctionOwner::Helper => all_own(enclosed(&function)?, seen),
            FunctionOwner::Program => Ok(false),
        },
        Value::Holder(held) => all_own(held, seen),
        Value::Other if value.cast::<PyModule>().is_ok() => Ok(true),
        Value::Other => {
            let class = match value.cast::<PyType>() {
                Ok(class) => class.clone(),
                Err(_) => value.get_type(),
            };
            if !cpython::is_heap_type(&class) || !value.is_callable() {
                return Ok(true);
            }
            let module = class.getattr("__module__")?;
            let Ok(module) = module.cast::<PyString>() else { return Ok(false) };
            let is_mock = !value.is_instance_of::<PyType>() && module.to_str()?.starts_with("unittest");
            Ok(!is_mock && home_of(value.py(), module.to_str()?)? != FunctionOwner::Program)
        }
    }
}

/// True if a function of Paddle's still has Paddle's code.
fn has_own_code(function: &Bound<'_, PyFunction>) -> PyResult<bool> {
    static FOLDER: PyOnceLock<String> = PyOnceLock::new();
    let py = function.py();
    let folder = FOLDER.get_or_try_init(py, || {
        let paths = cpython::import(py, "paddle")?.getattr("__path__")?;
        PyResult::Ok(paths.get_item(0)?.extract::<String>()? + "/")
    })?;
    let file = cpython::function_code(function).getattr(intern!(py, "co_filename"))?.cast_into::<PyString>()?;
    let file = file.to_str()?;
    Ok(file.starts_with(folder) || file.starts_with(GENERATED))
}

fn all_own(values: Vec<Bound<'_, PyAny>>, seen: &mut FxHashSet<usize>) -> PyResult<bool> {
    for value in values {
        if !own(&value, seen)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the callables in the cells of a function, and the function that it says it wraps.
pub(crate) fn enclosed<'py>(function: &Bound<'py, PyFunction>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut found = Vec::new();
    if let Ok(cells) = function.getattr("__closure__")?.cast_into::<PyTuple>() {
        let held = cells.iter().filter_map(|cell| cpython::cell_contents(&cell));
        found.extend(held.filter(PyAnyMethods::is_callable));
    }
    if let Some(attributes) = cpython::instance_dict(function.as_any()) {
        found.extend(attributes.get_item("__wrapped__")?);
    }
    Ok(found)
}

/// True if code with these globals is Paddle's.
pub(crate) fn is_paddles(globals: &Bound<'_, PyDict>) -> PyResult<bool> {
    let module = globals.get_item("__name__")?.and_then(|module| module.extract::<String>().ok());
    module.map_or(Ok(false), |module| Ok(home_of(globals.py(), &module)? == FunctionOwner::Paddle))
}

/// The owner of a function.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FunctionOwner {
    Paddle,
    /// The standard library, or a package that Paddle uses.
    Helper,
    Program,
}

fn home(function: &Bound<'_, PyFunction>) -> PyResult<FunctionOwner> {
    let py = function.py();
    let globals = function.getattr(intern!(py, "__globals__"))?.cast_into::<PyDict>()?;
    let module = cpython::dict_get(&globals, intern!(py, "__name__"));
    match module.and_then(|module| module.cast_into::<PyString>().ok()) {
        Some(module) => home_of(py, module.to_str()?),
        None => Ok(FunctionOwner::Program),
    }
}

fn home_of(py: Python<'_>, module: &str) -> PyResult<FunctionOwner> {
    static KNOWN: LazyLock<Mutex<HashMap<String, FunctionOwner>>> = LazyLock::new(Mutex::default);
    let top = module.split('.').next().unwrap_or(module);
    if top == "paddle" {
        return Ok(FunctionOwner::Paddle);
    }
    if let Some(home) = KNOWN.lock().get(top) {
        return Ok(*home);
    }
    let home =
        if HELPERS.contains(&top) || is_of_library(py, top)? { FunctionOwner::Helper } else { FunctionOwner::Program };
    KNOWN.lock().insert(top.to_owned(), home);
    Ok(home)
}

/// True if a module belongs to the standard library.
fn is_of_library(py: Python<'_>, top: &str) -> PyResult<bool> {
    let sys = cpython::import(py, "sys")?;
    if let Some(names) = sys.getattr_opt("stdlib_module_names")? {
        return Ok(top != "__main__" && names.contains(top)?);
    }
    if sys.getattr("builtin_module_names")?.contains(top)? {
        return Ok(top != "__main__");
    }
    let file = |module: &Bound<'_, PyAny>| -> PyResult<Option<String>> {
        Ok(module.getattr_opt("__file__")?.and_then(|file| file.extract().ok()))
    };
    let Ok(module) = sys.getattr("modules")?.get_item(top) else { return Ok(false) };
    let Some((library, _)) = file(cpython::import(py, "os")?.as_any())?
        .and_then(|os| os.rsplit_once('/').map(|(folder, file)| (format!("{folder}/"), file.to_owned())))
    else {
        return Ok(false);
    };
    Ok(file(&module)?.is_some_and(|file| file.starts_with(&library) && !file.contains("site-packages")))
}
