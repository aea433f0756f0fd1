//! Outputs of a graph that other outputs are computed from. In eager mode the gradients of those flow through them, so
//! hooks on them see and may change these gradients. With a program, the hooks see only the gradient from outside.

use std::collections::{BTreeSet, HashMap};

use pyo3::prelude::*;

use crate::backend::graph::outputs::{Origin, Output};
use crate::backend::paddle::operation;

/// For each output, true if the gradient of another output flows through it.
pub(crate) fn carries_other_gradients(
    program: &Bound<'_, PyAny>,
    outputs: &[Py<PyAny>],
    plan: &[Output],
) -> PyResult<Vec<bool>> {
    let py = program.py();
    let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
    for (place, (output, planned)) in outputs.iter().zip(plan).enumerate() {
        let output = output.bind(py);
        // A tensor that was passed in is not computed by the program.
        let is_computed = !matches!(planned.as_it_is(), Some(Origin::Input(_) | Origin::Parameter(_)));
        if is_computed && !stops_gradients(output)? {
            places.entry(id(output)?).or_default().push(place);
        }
    }
    let mut carries_other_gradients = vec![false; outputs.len()];
    if places.len() < 2 {
        return Ok(carries_other_gradients);
    }
    // For each value, the outputs that it is computed from.
    let mut sources: HashMap<u64, BTreeSet<u64>> = HashMap::new();
    for operation in operation::of_program(program)? {
        let mut from = BTreeSet::new();
        for operand in operation.call_method0("operands_source")?.try_iter()? {
            from.extend(sources.get(&id(&operand?)?).into_iter().flatten());
        }
        for result in operation.call_method0("results")?.try_iter()? {
            let result = result?;
            if stops_gradients(&result)? {
                continue;
            }
            let (result, mut from) = (id(&result)?, from.clone());
            if places.contains_key(&result) {
                for &place in from.iter().flat_map(|source| &places[source]) {
                    carries_other_gradients[place] = true;
                }
                from.insert(result);
            }
            if !from.is_empty() {
                sources.insert(result, from);
            }
        }
    }
    Ok(carries_other_gradients)
}

/// True if no gradient flows through the value.
pub(super) fn stops_gradients(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(value.getattr("stop_gradient")?.is_truthy()? && !value.call_method0("is_combine")?.is_truthy()?)
}

pub(super) fn id(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    value.call_method0("hash")?.extract()
}
