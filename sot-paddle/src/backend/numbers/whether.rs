//! `where` with numbers, or with several shapes. Static mode broadcasts the operands by adding zero, which makes 0.0
//! of -0.0, and it accepts numbers of types that eager mode refuses. Here the operands are broadcast first, as in
//! eager mode.

use std::rc::Rc;

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyTuple};
use sot_core::backend::{CallKind, TensorMeta};
use sot_core::cpython;

use crate::backend::graph::builder::identity;
use crate::backend::numbers::exact::Mender;
use crate::backend::numbers::scalar;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// Returns the result of such a call; `None` for any other call. To be called in static mode.
pub(crate) fn call<'py>(
    paddle: &Paddle,
    (kind, callee): (CallKind, &Bound<'py, PyAny>),
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let is_call = matches!(kind, CallKind::Api | CallKind::Method) && scalar::name(callee)?.as_deref() == Some("where");
    let Some(operands) = is_call.then(|| bind(args, kwargs)).transpose()?.flatten() else { return Ok(None) };
    let metas = operands.iter().map(|operand| meta::of_value(paddle, operand)).collect::<PyResult<Vec<_>>>()?;
    let known = metas.iter().flatten().map(shape).collect::<Option<Vec<_>>>();
    let Some((shapes, condition)) = known.zip(metas[0].as_ref()) else { return Ok(None) };
    let is_even = metas.iter().all(Option::is_some) && shapes.iter().all(|shape| *shape == shapes[0]);
    if is_even || &*condition.dtype != "bool" {
        return Ok(None);
    }
    let module = cpython::import(callee.py(), "paddle")?;
    let mut wanted = shapes[0].clone();
    for shape in &shapes[1..] {
        wanted = module.call_method1(intern!(callee.py(), "broadcast_shape"), (wanted, shape))?.extract()?;
    }
    let types = [number_type(paddle, &operands[1]), number_type(paddle, &operands[2])];
    let mut broadcast = Vec::new();
    for (at, (operand, own)) in operands.iter().zip(&metas).enumerate() {
        broadcast.push(match own {
            Some(own) if shape(own).as_ref() == Some(&wanted) => operand.clone(),
            Some(_) => module.call_method1(intern!(callee.py(), "broadcast_to"), (operand, &wanted))?,
            None => {
                let other = metas[3 - at].as_ref().map(|meta| Rc::clone(&meta.dtype)).or(types[2 - at].map(Rc::from));
                let dtype = types[at - 1].filter(|own| other.is_some_and(|other| are_compatible(own, &other)));
                let refused =
                    || PyNotImplementedError::new_err("where() of this number and this type runs in eager mode");
                let given = (&wanted, operand, dtype.ok_or_else(refused)?);
                module.call_method1(intern!(callee.py(), "full"), given)?
            }
        });
    }
    module.call_method1(intern!(callee.py(), "where"), PyTuple::new(callee.py(), broadcast)?).map(Some)
}

/// Checks a new operation. If one of Paddle's own functions has called `where` with tensors of several shapes, `x` and
/// `y` are broadcast without adding zero.
pub(crate) fn keep_sign<'py>(
    mender: &Mender<'_, 'py>,
    operation: &Bound<'py, PyAny>,
    name: &str,
    sources: &[Bound<'py, PyAny>],
) -> PyResult<()> {
    let (true, [_, x, y]) = (name == "pd_op.where", sources) else { return Ok(()) };
    let (Some((x_sum, x)), Some((y_sum, y))) = (sum_with_noughts(x)?, sum_with_noughts(y)?) else { return Ok(()) };
    let (Some(noughts), Some(other)) = (x.get(1), y.get(1)) else { return Ok(()) };
    if identity(mender.paddle, noughts)? != identity(mender.paddle, other)? {
        return Ok(());
    }
    for (sum, operands) in [(&x_sum, &x), (&y_sum, &y)] {
        let wanted: Vec<i64> = sources[1].getattr(intern!(sum.py(), "shape"))?.extract()?;
        if wanted.iter().all(|size| *size >= 0) {
            mender.replace_with(sum, operation, || {
                let paddle = cpython::import(sum.py(), "paddle")?;
                paddle.call_method1(intern!(sum.py(), "broadcast_to"), (&operands[0], wanted))
            })?;
        }
    }
    Ok(())
}

/// Returns the addition that has made a value, with its operands; `None` if another operation has made it.
#[allow(clippy::type_complexity, reason = "an operation and its operands")]
fn sum_with_noughts<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>)>> {
    let py = value.py();
    let operation = value.call_method0(intern!(py, "get_defining_op"))?;
    if operation.is_none() || operation.call_method0(intern!(py, "name"))?.extract::<&str>()? != "pd_op.add" {
        return Ok(None);
    }
    let operands = operation.call_method0(intern!(py, "operands_source"))?.extract()?;
    Ok(Some((operation, operands)))
}

/// Returns condition, `x` and `y`.
fn bind<'py>(
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<[Bound<'py, PyAny>; 3]>> {
    let mut operands: Vec<Bound<'py, PyAny>> = args.iter().collect();
    for name in ["condition", "x", "y"].into_iter().skip(args.len()) {
        operands.extend(kwargs.map(|kwargs| kwargs.get_item(name)).transpose()?.flatten());
    }
    Ok(<[_; 3]>::try_from(operands).ok().filter(|operands| operands.iter().all(|operand| !operand.is_none())))
}

fn shape(meta: &TensorMeta) -> Option<Vec<i64>> {
    meta.shape.iter().copied().collect()
}

/// Returns the element type of the tensor that is made of a number.
fn number_type(paddle: &Paddle, operand: &Bound<'_, PyAny>) -> Option<&'static str> {
    if operand.is_exact_instance_of::<PyFloat>() {
        return Some(paddle.release.where_float);
    }
    operand.is_exact_instance_of::<PyInt>().then_some("int64")
}

/// True if a number of one type is accepted beside a tensor or number of another.
fn are_compatible(own: &str, other: &str) -> bool {
    own == other || own.contains("float") && other.contains("float")
}
