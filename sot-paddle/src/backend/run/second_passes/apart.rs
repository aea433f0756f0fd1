//! Results of a graph that a backward pass each may come to. One that lets go of the graph lets go, in eager mode, of the operations that it
//! goes through: another one may come from a result that has none in common with it. A program it lets go of as a whole.

use std::collections::{BTreeSet, HashMap, HashSet};

use pyo3::prelude::*;

use super::through::{ends, id};
use crate::backend::graph::gradient::Operands;

/// Whether two of these values, which a program computes, come from no differentiable operation in common.
pub(crate) fn are_apart(program: &Bound<'_, PyAny>, results: &Bound<'_, PyAny>) -> PyResult<bool> {
    // Of each value the results that gradients come to it from.
    let mut sources: HashMap<u64, BTreeSet<u64>> = HashMap::new();
    for result in results.try_iter()? {
        let result = result?;
        if !ends(&result)? {
            sources.insert(id(&result)?, BTreeSet::from([id(&result)?]));
        }
    }
    let all: BTreeSet<u64> = sources.keys().copied().collect();
    if all.len() < 2 {
        return Ok(false);
    }
    // The results that an operation has gradients of, for each operation.
    let mut together: HashSet<BTreeSet<u64>> = HashSet::new();
    let operations: Vec<Bound<'_, PyAny>> = program.call_method0("global_block")?.getattr("ops")?.extract()?;
    for operation in operations.iter().rev() {
        let mut from = BTreeSet::new();
        for result in operation.call_method0("results")?.try_iter()? {
            let result = result?;
            if let Some(sources) = sources.remove(&id(&result)?).filter(|_| !ends(&result).unwrap_or(true)) {
                from.extend(sources);
            }
        }
        let given: Vec<Bound<'_, PyAny>> = operation.call_method0("operands_source")?.extract()?;
        // What is given nothing is an input or a parameter.
        if from.is_empty() || given.is_empty() {
            continue;
        }
        let name = operation.call_method0("name")?;
        let operands = Operands::of(operation, name.extract()?, given.len())?;
        for (at, operand) in given.iter().enumerate() {
            if operands.take_gradient(at) && !ends(operand)? {
                sources.entry(id(operand)?).or_default().extend(&from);
            }
        }
        if from == all {
            return Ok(false);
        }
        together.insert(from);
    }
    let is_apart = |one: &u64, other: &u64| !together.iter().any(|all| all.contains(one) && all.contains(other));
    Ok(all.iter().any(|one| all.range(..one).any(|other| is_apart(one, other))))
}
