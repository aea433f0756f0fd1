//! Boolean tensors in the index of a tensor. Eager mode compares each size of a mask with the dimension that it selects
//! from. A program compares the first size only, and writes elsewhere if others differ; if it writes through a mask
//! without dimensions, it raises at each run.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyString, PyTuple};
use sot_core::backend::SizesMatter;

use crate::backend::paddle::{meta, Paddle};

/// Refuses an index with a mask that does not fit the tensor, or that is not known to fit it, and writes through a mask
/// without dimensions.
pub(crate) fn refuse(paddle: &Paddle, callee: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> PyResult<()> {
    let Ok(method) = callee.cast::<PyString>() else { return Ok(()) };
    let method = method.to_str()?;
    if !["__getitem__", "__setitem__"].contains(&method) {
        return Ok(());
    }
    let Some(tensor) = meta::of_value(paddle, &args.get_item(0)?)? else { return Ok(()) };
    let index = args.get_item(1)?;
    let items = match index.cast::<PyTuple>() {
        Ok(items) => items.iter().collect(),
        Err(_) => vec![index],
    };
    if method == "__setitem__" {
        for item in &items {
            if meta::of_value(paddle, item)?.is_some_and(|meta| &*meta.dtype == "bool" && meta.shape.is_empty()) {
                let text = "a program cannot write through an index with a boolean tensor that has no dimensions";
                return Err(PyNotImplementedError::new_err(text));
            }
        }
    }
    if !items.iter().map(|item| is_mask(paddle, item)).collect::<PyResult<Vec<_>>>()?.contains(&true) {
        return Ok(());
    }
    let rank = tensor.shape.len();
    let taken: usize = items.iter().map(|item| dimensions(paddle, item)).sum::<PyResult<usize>>()?;
    if taken > rank {
        return Err(refused("has more dimensions than the tensor"));
    }
    let mut axis = 0;
    for item in &items {
        if item.is_instance_of::<PyEllipsis>() {
            axis += rank - taken;
            continue;
        }
        if is_mask(paddle, item)? {
            let mask = meta::of_value(paddle, item)?.map(|meta| meta.shape).unwrap_or_default();
            for (size, of) in mask.iter().zip(tensor.shape.iter().skip(axis)) {
                match (size, of) {
                    (Some(size), Some(of)) if size != of => return Err(refused("has a mask of another shape")),
                    (Some(_), None) | (None, Some(_)) => {
                        return Err(SizesMatter::new_err("a mask must have the sizes that it selects from"));
                    }
                    _ => {}
                }
            }
        }
        axis += dimensions(paddle, item)?;
    }
    Ok(())
}

fn refused(what: &str) -> PyErr {
    PyNotImplementedError::new_err(format!("an index that {what} is for eager mode to refuse"))
}

fn is_mask(paddle: &Paddle, item: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(meta::of_value(paddle, item)?.is_some_and(|meta| &*meta.dtype == "bool" && !meta.shape.is_empty()))
}

/// The number of dimensions that an item of an index stands for.
fn dimensions(paddle: &Paddle, item: &Bound<'_, PyAny>) -> PyResult<usize> {
    if item.is_none() || item.is_instance_of::<PyEllipsis>() || item.is_instance_of::<PyBool>() {
        return Ok(0);
    }
    match meta::of_value(paddle, item)? {
        Some(meta) if &*meta.dtype == "bool" => Ok(meta.shape.len()),
        _ => Ok(1),
    }
}
