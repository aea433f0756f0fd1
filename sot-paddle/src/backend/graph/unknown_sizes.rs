//! Corrects the sizes of results. Where the sizes of operands are not known, static mode computes with -1, which stands
//! for an unknown size, as if it were a number. The sizes of `linspace` and `logspace` it takes for unknown even where
//! their number of elements is a constant, and those of signs and logarithms of determinants for those of the matrices.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;

use crate::backend::paddle::operation;

/// A size that is not known while tracing.
const UNKNOWN: i64 = -1;

/// Corrects the shape of the result of an operation. `is_final`: no other operation has taken the result yet.
pub(crate) fn correct(
    operation: &Bound<'_, PyAny>,
    name: &str,
    sources: &[Bound<'_, PyAny>],
    is_final: impl Fn(&Bound<'_, PyAny>) -> PyResult<bool>,
) -> PyResult<()> {
    if let ("pd_op.linspace" | "pd_op.logspace", [_, _, number, ..]) = (name, sources) {
        let result = operation.call_method1(intern!(operation.py(), "result"), (0,))?;
        return match constant(number)? {
            Some(number) if shape(&result)? == [UNKNOWN] && is_final(&result)? => set_shape(&result, vec![number]),
            _ => Ok(()),
        };
    }
    let is_always_wrong = name == "pd_op.slogdet";
    let is_wrong =
        || matches!(name, "pd_op.matmul" | "pd_op.fft_r2c" | "pd_op.fft_c2r" | "pd_op.cumsum" | "pd_op.logcumsumexp");
    if !is_always_wrong && !is_wrong() {
        return Ok(());
    }
    let shapes = sources.iter().map(shape).collect::<PyResult<Vec<_>>>()?;
    if !is_always_wrong && shapes.iter().all(|shape| !shape.contains(&UNKNOWN)) {
        return Ok(());
    }
    let result = operation.call_method1(intern!(operation.py(), "result"), (0,))?;
    let described = shape(&result)?;
    let correct = match (name, &shapes[..]) {
        ("pd_op.matmul", [left, right]) => of_product(&described, left, right),
        ("pd_op.slogdet", [matrices]) => of_determinants(matrices),
        ("pd_op.fft_r2c" | "pd_op.fft_c2r", [source]) => of_transform(&described, source),
        // A sum over all axes is flat.
        (_, [source, ..]) if described.len() == 1 && source.len() != 1 => vec![UNKNOWN],
        _ => described.clone(),
    };
    if correct == described {
        return Ok(());
    }
    if !is_final(&result)? {
        let text = format!("static mode takes the result of {name} with an unknown size for another tensor than it is");
        return Err(PyNotImplementedError::new_err(text));
    }
    set_shape(&result, correct)
}

fn set_shape(result: &Bound<'_, PyAny>, shape: Vec<i64>) -> PyResult<()> {
    let py = result.py();
    let pir = sot_core::cpython::import(py, "paddle.pir")?;
    let own = result.call_method0(intern!(py, "type"))?;
    let ty = pir.getattr(intern!(py, "create_shaped_type"))?.call1((own, shape))?;
    result.call_method1(intern!(py, "set_type"), (ty,)).map(drop)
}

/// Returns the integer of which a value is a constant tensor.
fn constant(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    let Some(operation) = operation::constant_of(value)? else { return Ok(None) };
    let number: f64 = operation.call_method0(intern!(value.py(), "attrs"))?.get_item("value")?.extract()?;
    Ok((number.fract() == 0.0 && (0.0..=f64::from(i32::MAX)).contains(&number)).then_some(number as i64))
}

/// The shape of a matrix product: all sizes but those of the matrices are broadcast.
fn of_product(described: &[i64], left: &[i64], right: &[i64]) -> Vec<i64> {
    let of_matrices = if left.len() > 1 && right.len() > 1 { 2 } else { 1 };
    let mut correct = described.to_vec();
    let batches = described.len().saturating_sub(of_matrices);
    for (at, size) in correct[..batches].iter_mut().enumerate() {
        let from_end = batches - at;
        let of = |shape: &[i64]| shape.len().checked_sub(2 + from_end).map_or(1, |at| shape[at]);
        *size = match (of(left), of(right)) {
            (UNKNOWN, UNKNOWN | 1) | (1, UNKNOWN) => UNKNOWN,
            (UNKNOWN, known) | (known, UNKNOWN) => known,
            _ => *size,
        };
    }
    correct
}

/// The shape of a Fourier transform: along an axis of unknown size, the size of the result is not known either.
fn of_transform(described: &[i64], source: &[i64]) -> Vec<i64> {
    let size = |(size, source): (&i64, &i64)| if *source == UNKNOWN && *size < 2 { UNKNOWN } else { *size };
    described.iter().zip(source).map(size).collect()
}

/// The shape of the signs and logarithms of determinants.
fn of_determinants(matrices: &[i64]) -> Vec<i64> {
    let batches = matrices.len().saturating_sub(2);
    std::iter::once(2).chain(matrices[..batches].iter().copied()).collect()
}

fn shape(value: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    match value.getattr_opt(intern!(value.py(), "shape"))? {
        Some(shape) => shape.extract(),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_products_are_broadcast() {
        assert_eq!(of_product(&[1, 6, 3], &[-1, 6, 4], &[1, 4, 3]), [-1, 6, 3]);
        assert_eq!(of_product(&[1, 6, 3], &[1, 6, 4], &[-1, 4, 3]), [-1, 6, 3]);
        assert_eq!(of_product(&[5, 6, 3], &[-1, 6, 4], &[5, 4, 3]), [5, 6, 3]);
        assert_eq!(of_product(&[-1, 2, 6, 3], &[-1, 1, 6, 4], &[2, 4, 3]), [-1, 2, 6, 3]);
        assert_eq!(of_product(&[-1, 6], &[-1, 6, 4], &[4]), [-1, 6]);
        assert_eq!(of_product(&[1, 3], &[4], &[-1, 4, 3]), [-1, 3]);
        assert_eq!(of_product(&[6, 3], &[6, -1], &[-1, 3]), [6, 3]);
    }

    #[test]
    fn there_are_two_numbers_for_a_determinant() {
        assert_eq!(of_determinants(&[3, 3]), [2]);
        assert_eq!(of_determinants(&[4, -1, 3, 3]), [2, 4, -1]);
    }

    #[test]
    fn transforms_of_unknown_sizes_have_unknown_sizes() {
        assert_eq!(of_transform(&[1, 4], &[-1, 4]), [-1, 4]);
        assert_eq!(of_transform(&[0, 4], &[-1, 4]), [-1, 4]);
        assert_eq!(of_transform(&[8, 4], &[-1, 4]), [8, 4]);
    }
}
