//! Parameters of distributions that are numbers (`Normal(0.0, 1.0)`). Paddle copies them into tensors that it makes
//! empty.

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyList, PyTuple};
use sot_core::backend::CallKind;
use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;

builtin! { TO_TENSOR = "paddle.distribution.distribution:Distribution._to_tensor" => |cx, args| to_tensor(cx, args) }

/// Calls Paddle's own function for the tensors' values; the tensors become constants of the graph.
fn to_tensor(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let refuse = || {
        let text = "a distribution with parameters that are no known floats; give it tensors";
        Unwind::break_graph(ReasonId::UnsupportedCall, text)
    };
    let Some((_, parameters)) = args.positional.split_first() else { return Err(refuse()) };
    let mut given = vec![cx.py.None().into_bound(cx.py)];
    for &parameter in parameters {
        // For numbers that are no floats, Paddle warns.
        let known = cx.materialize(parameter)?.filter(is_of_floats).ok_or_else(refuse)?;
        given.push(known);
    }
    let paddle = cpython::import(cx.py, "paddle")?;
    let class = paddle.getattr("distribution")?.getattr("Distribution")?;
    let made = class.getattr("_to_tensor")?.call1(PyTuple::new(cx.py, given)?)?;
    let mut tensors = Vec::new();
    for tensor in made.try_iter()? {
        let tensor = tensor?;
        let values = tensor.call_method0("tolist")?;
        let values = match values.cast_into::<PyList>() {
            Ok(row) => row.to_tuple().into_any(),
            Err(error) => error.into_inner(),
        };
        let (values, dtype) = (cx.wrap_fresh(&values)?, cx.wrap_fresh(&tensor.getattr("dtype")?)?);
        let call = CallArgs { keywords: vec![("dtype".into(), dtype)], ..CallArgs::positional(vec![values]) };
        tensors.push(cx.call_graph(CallKind::Api, &paddle.getattr("to_tensor")?, "paddle.to_tensor", &call)?);
    }
    Ok(cx.trace.tuple(tensors))
}

/// True if a parameter is a float, or a list or tuple of floats.
fn is_of_floats(parameter: &Bound<'_, PyAny>) -> bool {
    let is_row = parameter.is_exact_instance_of::<PyList>() || parameter.is_exact_instance_of::<PyTuple>();
    let all = |row: &Bound<'_, PyAny>| {
        row.try_iter()
            .is_ok_and(|mut row| row.all(|item| item.is_ok_and(|item| item.is_exact_instance_of::<PyFloat>())))
    };
    parameter.is_exact_instance_of::<PyFloat>() || is_row && !parameter.is_empty().unwrap_or(true) && all(parameter)
}
