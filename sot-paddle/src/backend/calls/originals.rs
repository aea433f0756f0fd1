//! A copy of a method for programs that calls Paddle's own functions where the program has replaced them.
//!
//! Indexing an eager tensor ends in C. Indexing a value in a program is Python code, and calls `paddle.gather_nd`. A
//! wrapper that a library has put there does not run in eager mode, so it must not run when a statement is built: the
//! statement must be what Paddle's own function builds. The copy has copied globals, too, so that other threads see no
//! change.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyModule, PyString};
use sot_core::cpython;

use crate::backend::calls::origin;

/// Makes a copy of the function that finds Paddle's own functions as attributes of `paddle` under these names. `None`
/// if the value is not a plain function, or a name has no own function.
pub(crate) fn copy_with_originals<'py>(
    value: &Bound<'py, PyAny>,
    names: &[String],
) -> PyResult<Option<Bound<'py, PyFunction>>> {
    let py = value.py();
    let Ok(function) = value.cast_exact::<PyFunction>() else { return Ok(None) };
    let own = function.getattr(intern!(py, "__globals__"))?.cast_into::<PyDict>()?;
    let Some(paddle) = own.get_item("paddle")?.and_then(|held| held.cast_into::<PyModule>().ok()) else {
        return Ok(None);
    };
    let module = PyModule::new(py, "paddle")?;
    module.dict().update(paddle.dict().as_mapping())?;
    for name in names {
        let Some(original) = original(py, name)? else { return Ok(None) };
        module.dict().set_item(name, original)?;
    }
    let globals = own.copy()?;
    globals.set_item("paddle", &module)?;
    // Functions of the same file find each other in their globals.
    for (name, held) in own.iter() {
        if let Some(copied) = with_globals(&held, &own, &globals)? {
            globals.set_item(name, copied)?;
        }
    }
    with_globals(value, &own, &globals)
}

/// Returns Paddle's own function of the name, from the module from which `paddle` imports it.
fn original<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    // `paddle.tensor` is also a function, so the module is taken from `sys.modules`.
    let modules = cpython::import(py, "sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    let Some(tensor) = modules.get_item("paddle.tensor")?.and_then(|held| held.cast_into::<PyModule>().ok()) else {
        return Ok(None);
    };
    let Some(found) = cpython::dict_get(&tensor.dict(), PyString::intern(py, name).as_any()) else { return Ok(None) };
    Ok((found.is_callable() && origin::is_own(&found)?).then_some(found))
}

/// Makes a copy of a plain function with other globals. `None` for other values, and for functions with other globals
/// or a closure.
fn with_globals<'py>(
    value: &Bound<'py, PyAny>,
    own: &Bound<'py, PyDict>,
    globals: &Bound<'py, PyDict>,
) -> PyResult<Option<Bound<'py, PyFunction>>> {
    let py = value.py();
    let Ok(function) = value.cast_exact::<PyFunction>() else { return Ok(None) };
    let has_cells = !function.getattr(intern!(py, "__closure__"))?.is_none();
    if has_cells || !function.getattr(intern!(py, "__globals__"))?.is(own) {
        return Ok(None);
    }
    let get = |name: &str| function.getattr(name);
    let arguments = (get("__code__")?, globals, get("__name__")?, get("__defaults__")?);
    let copied = cpython::import(py, "types")?.getattr("FunctionType")?.call1(arguments)?;
    copied.setattr(intern!(py, "__kwdefaults__"), get("__kwdefaults__")?)?;
    Ok(Some(copied.cast_into()?))
}
