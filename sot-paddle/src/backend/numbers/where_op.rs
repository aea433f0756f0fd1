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
use crate::backend::numbers::exact::OperandReplacer;
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
    let Some(condition) = metas[0].as_ref() else { return Ok(None) };
    let is_even = metas.iter().flatten().all(|meta| meta.shape == condition.shape);
    if is_even && metas.iter().all(Option::is_some) || &*condition.dtype != "bool" {
        return Ok(None);
    }
    let types = [number_type(paddle, &operands[1]), number_type(paddle, &operands[2])];
    if types.iter().any(Option::is_some) && is_made_a_vector(paddle, condition) {
        return Err(PyNotImplementedError::new_err(
            "where() of a number and a tensor without dimensions makes a vector",
        ));
    }
    let type_of = |at: usize| {
        let other = metas[3 - at].as_ref().map(|meta| Rc::clone(&meta.dtype)).or(types[2 - at].map(Rc::from));
        let dtype = types[at - 1].filter(|own| other.is_some_and(|other| are_compatible(own, &other)));
        let text = "where() of this number and this type runs in eager mode";
        dtype.ok_or_else(|| PyNotImplementedError::new_err(text))
    };
    let module = cpython::import(callee.py(), "paddle")?;
    let mut broadcast = Vec::new();
    if is_even {
        // No size is needed, so that sizes may be open.
        for (at, (operand, own)) in operands.iter().zip(&metas).enumerate() {
            broadcast.push(match own {
                Some(_) => operand.clone(),
                None => {
                    let given = (&operands[0], operand, type_of(at)?);
                    module.call_method1(intern!(callee.py(), "full_like"), given)?
                }
            });
        }
    } else {
        let Some(shapes) = metas.iter().flatten().map(shape).collect::<Option<Vec<_>>>() else { return Ok(None) };
        let mut wanted = shapes[0].clone();
        for shape in &shapes[1..] {
            wanted = module.call_method1(intern!(callee.py(), "broadcast_shape"), (wanted, shape))?.extract()?;
        }
        for (at, (operand, own)) in operands.iter().zip(&metas).enumerate() {
            broadcast.push(match own {
                Some(own) if shape(own).as_ref() == Some(&wanted) => operand.clone(),
                Some(_) => module.call_method1(intern!(callee.py(), "broadcast_to"), (operand, &wanted))?,
                None => module.call_method1(intern!(callee.py(), "full"), (&wanted, operand, type_of(at)?))?,
            });
        }
    }
    module.call_method1(intern!(callee.py(), "where"), PyTuple::new(callee.py(), broadcast)?).map(Some)
}

/// Checks a new operation. If one of Paddle's own functions has called `where` with tensors of several shapes, `x` and
/// `y` are broadcast without adding zero. Only sums that are as new as the operation are replaced (`is_new`): older
/// ones are the program's.
pub(crate) fn keep_sign<'py>(
    replacer: &OperandReplacer<'_, 'py>,
    operation: &Bound<'py, PyAny>,
    name: &str,
    sources: &[Bound<'py, PyAny>],
    is_new: impl Fn(&Bound<'py, PyAny>) -> PyResult<bool>,
) -> PyResult<()> {
    let (true, [_, x, y]) = (name == "pd_op.where", sources) else { return Ok(()) };
    if !(is_new(x)? && is_new(y)?) {
        return Ok(());
    }
    let (Some((x_sum, x)), Some((y_sum, y))) = (sum_of(x)?, sum_of(y)?) else { return Ok(()) };
    let (Some(zeros), Some(other)) = (x.get(1), y.get(1)) else { return Ok(()) };
    if identity(replacer.paddle, zeros)? != identity(replacer.paddle, other)? || !is_all_zeros(zeros)? {
        return Ok(());
    }
    for (sum, operands) in [(&x_sum, &x), (&y_sum, &y)] {
        let wanted: Vec<i64> = sources[1].getattr(intern!(sum.py(), "shape"))?.extract()?;
        if wanted.iter().all(|size| *size >= 0) {
            replacer.replace_with(sum, operation, || {
                let paddle = cpython::import(sum.py(), "paddle")?;
                paddle.call_method1(intern!(sum.py(), "broadcast_to"), (&operands[0], wanted))
            })?;
        }
    }
    Ok(())
}

/// Returns the addition that has made a value, with its operands; `None` if another operation has made it.
#[allow(clippy::type_complexity, reason = "an operation and its operands")]
fn sum_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>)>> {
    let py = value.py();
    let operation = value.call_method0(intern!(py, "get_defining_op"))?;
    if operation.is_none() || operation.call_method0(intern!(py, "name"))?.extract::<&str>()? != "pd_op.add" {
        return Ok(None);
    }
    let operands = operation.call_method0(intern!(py, "operands_source"))?.extract()?;
    Ok(Some((operation, operands)))
}

/// True if the operations that made a value show that all its numbers are zero: those that `where` adds.
fn is_all_zeros(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    let operation = value.call_method0(intern!(py, "get_defining_op"))?;
    if operation.is_none() {
        return Ok(false);
    }
    let operands: Vec<Bound<'_, PyAny>> = operation.call_method0(intern!(py, "operands_source"))?.extract()?;
    match (operation.call_method0(intern!(py, "name"))?.extract::<&str>()?, &operands[..]) {
        ("pd_op.add", [one, other]) => Ok(is_all_zeros(one)? && is_all_zeros(other)?),
        ("pd_op.cast", [of]) | ("pd_op.full_like", [_, of]) => is_all_zeros(of),
        ("pd_op.full", _) => operation.call_method0(intern!(py, "attrs"))?.get_item("value")?.eq(0),
        _ => Ok(false),
    }
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

/// True if `where` of a number makes a tensor of more dimensions than this condition has.
pub(crate) fn is_made_a_vector(paddle: &Paddle, condition: &TensorMeta) -> bool {
    condition.shape.len() < paddle.release.where_dimensions
}

/// True if a number of one type is accepted beside a tensor or number of another.
fn are_compatible(own: &str, other: &str) -> bool {
    own == other || own.contains("float") && other.contains("float")
}
