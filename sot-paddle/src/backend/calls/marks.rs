//! Paddle's own marks on functions. `paddle.jit.marker.force_dynamic` makes calls run eagerly. Marks which say that a
//! function is the same in dynamic and static mode (`paddle.jit.not_to_static`, `paddle.jit.marker.unified`) do not:
//! the function's body is followed.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyList, PySet, PyString, PyType};

use sot_core::cpython;
use sot_core::error::Forbidden;
use sot_core::error::ReasonId;

/// The break list of `force_dynamic`, which keeps functions and layer classes in sets (since Paddle 3.1).
const FORCED: &str = "on Paddle's break list (paddle.jit.marker.force_dynamic)";

/// Returns which of Paddle's lists has a function, a layer or a class of layers.
pub(crate) fn listed(callable: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
    if callable.is_instance_of::<PyFunction>() {
        return Ok(is_in("break_graph_functions", callable)?.then_some(FORCED));
    }
    let class = callable.cast::<PyType>().map_or_else(|_| callable.get_type(), Clone::clone);
    Ok(is_in("break_graph_layer_classes", class.as_any())?.then_some(FORCED))
}

/// True if the set of `paddle_api_config` has the object. Releases without the set count as having an empty one.
fn is_in(set: &str, object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Some(config) = of_paddles_tracer(intern!(object.py(), "paddle.jit.sot.utils.paddle_api_config"))? else {
        return Ok(false);
    };
    match config.getattr_opt(set)? {
        Some(set) => {
            let set = set.cast_into::<PySet>()?;
            Ok(!set.is_empty() && set.contains(object)?)
        }
        None => Ok(false),
    }
}

/// Returns a module of Paddle's own tracer, if it has been imported. Until then it has no marks, and importing it takes
/// 0.1 s to 0.2 s.
fn of_paddles_tracer<'py>(name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyModule>>> {
    if !cpython::is_imported(name) {
        return Ok(None);
    }
    cpython::import(name.py(), &name.to_cow()?).map(Some)
}

/// True if a function is marked with `capture_control_flow`, so that AST mode converts it, or as unified for Paddle's
/// tracer.
pub(crate) fn is_statement(callable: &Bound<'_, PyAny>) -> PyResult<bool> {
    if !callable.is_instance_of::<PyFunction>() {
        return Ok(false);
    }
    let Some(options) = callable.getattr_opt("___jit_transform_options___")? else { return Ok(false) };
    if options.call_method0("need_capture_control_flow")?.is_truthy()? {
        return Ok(true);
    }
    let modes = options.getattr("ToStaticMode")?;
    Ok(!options.call_method1("need_transform", (modes.getattr("SOT")?,))?.is_truthy()?)
}

/// Returns the statement for a function that is marked so.
pub(crate) fn statement_of<'py>(function: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>, Vec<String>)>> {
    cpython::import(function.py(), "sot._captured")?.call_method1("statement_of", (function,))?.extract()
}

/// True if a function is one that AST mode has made for programs. In dynamic mode its loops would write to the tensors
/// that they begin with.
pub(crate) fn is_for_programs(callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    callee.hasattr(intern!(callee.py(), "_sot_is_for_programs"))
}

/// True if `paddle.jit.ignore_module` was given the module that `file` belongs to. Frames of such a file are not
/// translated on their own.
pub(crate) fn is_ignored(file: &str) -> bool {
    let ask = |py: Python<'_>| {
        // The question also comes while an exception of the program is propagating.
        let raised = PyErr::take(py);
        let is_ignored = is_in_ignored_module(py, file).unwrap_or(false);
        if let Some(raised) = raised {
            raised.restore(py);
        }
        is_ignored
    };
    Python::try_attach(ask).unwrap_or(false)
}

fn is_in_ignored_module(py: Python<'_>, file: &str) -> PyResult<bool> {
    let list = cpython::import(py, "paddle.jit.dy2static.convert_call_func")?.getattr("BUILTIN_LIKELY_MODULES")?;
    for module in list.cast_into::<PyList>()? {
        let Some(path) = module.getattr_opt("__file__")?.and_then(|path| path.extract::<String>().ok()) else {
            continue;
        };
        // A package has all files in its folder.
        let is_of = match path.strip_suffix("__init__.py") {
            Some(folder) => file.starts_with(folder),
            None => file == path,
        };
        if is_of {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True if `paddle.jit.sot.psdb` has marked the code, so that a break is an error. A branch on a tensor's value does
/// not count as a break there.
pub(crate) fn forbids(code: &Bound<'_, PyAny>, what: Forbidden, why: ReasonId) -> PyResult<bool> {
    let set = match what {
        Forbidden::Break if why == ReasonId::TensorTruth => return Ok(false),
        Forbidden::Break => "NO_BREAKGRAPH_CODES",
        Forbidden::Fallback => "NO_FALLBACK_CODES",
    };
    let Some(psdb) = of_paddles_tracer(intern!(code.py(), "paddle.jit.sot.psdb"))? else { return Ok(false) };
    let Some(set) = psdb.getattr_opt(set)? else { return Ok(false) };
    set.contains(code)
}
