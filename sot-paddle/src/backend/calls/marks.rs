//! Paddle's own mark of what must run for real: `paddle.jit.marker.force_dynamic`. That a function is the same in dynamic and in
//! static mode (`paddle.jit.not_to_static`, `paddle.jit.marker.unified`) is no such mark: its body is followed.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFunction, PySet, PyType};

use sot_core::cpython;

/// `force_dynamic` keeps functions and classes of layers in sets (since Paddle 3.1).
const FORCED: &str = "on Paddle's break list (paddle.jit.marker.force_dynamic)";

/// On which of Paddle's lists a function, a layer or a class of layers is.
pub(crate) fn listed(callable: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
    if callable.is_instance_of::<PyFunction>() {
        return Ok(is_in("break_graph_functions", callable)?.then_some(FORCED));
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
