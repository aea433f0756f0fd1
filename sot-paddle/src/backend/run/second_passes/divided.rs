//! Inputs that a program only divides by numbers. The backward operation of a division has the dividend as an operand,
//! but reads it only for the gradient of the divisor. In eager mode the division by a number is an operation of its
//! own that keeps no dividend, so the dividend may be written to before the backward pass.

use std::collections::{HashMap, HashSet};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::carries_other_gradients::id;
use crate::backend::paddle::operation;

/// Returns those of the named inputs and parameters that the backward part of a program has only as dividends of
/// numbers.
pub(super) fn only_divided_by_numbers(program: &Bound<'_, PyAny>, names: &[String]) -> PyResult<HashSet<String>> {
    let py = program.py();
    let block = program.getattr("backward_program")?.call_method0(intern!(py, "global_block"))?;
    let given: HashMap<String, Bound<'_, PyAny>> = block.call_method0("kwargs")?.cast::<PyDict>()?.extract()?;
    let mut divisors: HashMap<&String, Vec<u64>> = HashMap::new();
    for name in names {
        let Some(value) = given.get(name) else { continue };
        if let Some(of_this) = divisors_of(value)? {
            divisors.insert(name, of_this);
        }
    }
    if divisors.is_empty() {
        return Ok(HashSet::new());
    }
    let mut numbers = HashSet::new();
    for name in numbers_kept(&program.getattr("forward_program")?)? {
        if let Some(value) = given.get(&name) {
            numbers.insert(id(value)?);
        }
    }
    let is_by_numbers = |(_, divisors): &(&String, Vec<u64>)| divisors.iter().all(|divisor| numbers.contains(divisor));
    Ok(divisors.into_iter().filter(is_by_numbers).map(|(name, _)| name.clone()).collect())
}

/// Returns the divisors of all divisions whose backward operations have the value as their dividend; `None` if other
/// operations have the value, too.
fn divisors_of(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u64>>> {
    let py = value.py();
    let (own, mut divisors) = (id(value)?, Vec::new());
    for user in value.call_method0(intern!(py, "all_used_ops"))?.try_iter()? {
        let user = user?;
        if operation::name_of(&user)? != "pd_op.divide_grad" {
            return Ok(None);
        }
        let operands: Vec<Bound<'_, PyAny>> = user.call_method0(intern!(py, "operands_source"))?.extract()?;
        let operands = operands.iter().map(id).collect::<PyResult<Vec<_>>>()?;
        match operands[..] {
            [dividend, divisor, ..] if dividend == own && !operands[1..].contains(&own) => divisors.push(divisor),
            _ => return Ok(None),
        }
    }
    Ok(Some(divisors))
}

/// Returns the names under which the forward part of a program keeps numbers for the backward part.
fn numbers_kept(program: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let py = program.py();
    let mut names = Vec::new();
    for operation in operation::of_program(program)? {
        if operation::name_of(&operation)? != "builtin.shadow_output" {
            continue;
        }
        let kept = operation.call_method1(intern!(py, "operand_source"), (0,))?;
        if operation::constant_of(&kept)?.is_some() && kept.getattr(intern!(py, "shape"))?.len()? == 0 {
            names.push(operation.call_method0(intern!(py, "attrs"))?.get_item("output_name")?.extract()?);
        }
    }
    Ok(names)
}
