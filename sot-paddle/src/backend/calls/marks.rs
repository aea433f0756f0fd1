//! Paddle's own marks of what must run for real: `paddle.jit.marker.force_dynamic` and `paddle.jit.not_to_static`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFunction, PySet, PyType};

use sot_core::cpython;

/// `force_dynamic` keeps functions and classes of layers in sets (since Paddle 3.1).
const FORCED: &str = "on Paddle's break list (paddle.jit.marker.force_dynamic)";
const NOT_TO_STATIC: &str = "marked with paddle.jit.not_to_static";

/// On which of Paddle's lists a function, a layer or a class of layers is.
pub(crate) fn listed(callable: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
    if let Ok(function) = callable.cast::<PyFunction>() {
        if is_in("break_graph_functions", callable)? {
            return Ok(Some(FORCED));
        }
        return Ok(is_not_to_static(function)?.then_some(NOT_TO_STATIC));
    }
    let class = callable.cast::<PyType>().map_or_else(|_| callable.get_type(), Clone::clone);
    Ok(is_in("break_graph_layer_classes", class.as_any())?.then_some(FORCED))
}

/// Whether one of the sets of `paddle_api_config` holds the object. Releases without the set hold nothing.
fn is_in(set: &str, object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CONFIG: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let py = object.py();
    let config = CONFIG
        .get_or_try_init(py, || cpython::import(py, "paddle.jit.sot.utils.paddle_api_config").map(Bound::unbind))?;
    match config.bind(py).getattr_opt(set)? {
        Some(set) => {
            let set = set.cast_into::<PySet>()?;
            Ok(!set.is_empty() && set.contains(object)?)
        }
        None => Ok(false),
    }
}

/// `not_to_static` leaves options on the function: what it is skipped by since Paddle 3.1, a flag before. What is
/// `unified` with static mode is skipped too, but runs there as it is.
fn is_not_to_static(function: &Bound<'_, PyFunction>) -> PyResult<bool> {
    if let Some(options) = function.getattr_opt("__jst_not_to_static")? {
        return options.getattr("not_convert")?.is_truthy();
    }
    let Some(options) = function.getattr_opt("___jit_transform_options___")? else { return Ok(false) };
    let modes = cpython::import(function.py(), "paddle.jit.dy2static.utils")?
        .getattr("TransformOptions")?
        .getattr("ToStaticMode")?;
    let needs = |mode: &str| options.call_method1("need_transform", (modes.getattr(mode)?,))?.is_truthy();
    Ok(!needs("AST")? && needs("SOT")?)
}
