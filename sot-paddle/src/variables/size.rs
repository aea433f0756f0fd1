//! `paddle.Size`: the subclass of `list` that newer releases of Paddle return as a tensor's shape.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyList;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::tracker::TrackerId;
use sot_core::variable::Variable;
use sot_variables::tensor::shape::ShapeVariable;

sot_core::variable_kind! { "size", types: size_types, wrap: wrap }

/// Returns the type of shapes; nothing if this Paddle returns plain lists.
fn size_types(py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
    let shape = cpython::import(py, "paddle")?.call_method1("empty", ((1,),))?.getattr("shape")?;
    let ty = shape.get_type();
    Ok(if ty.is(py.get_type::<PyList>()) { Vec::new() } else { vec![ty.into_any().unbind()] })
}

fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
    let is_found = cx.trace.trackers.is_sourced(of);
    if is_found && cx.trace.has_differed(of) {
        return ShapeVariable::of_numbers(cx, object, of);
    }
    ShapeVariable::of(cx, object, is_found)
}
