//! What of a graph a backward pass comes to from which of its results. A program is one node of the backward pass: it
//! lets go of all of it, and gives zeros to what only results come from that it was not made for.

use std::collections::{BTreeSet, HashMap, HashSet};

use pyo3::prelude::*;
use pyo3::types::PyList;

use super::through::{ends, id};
use crate::backend::graph::gradient::OperandNames;
use crate::backend::memory::views::VIEWS;

/// Results of a program, by index.
pub(super) type Results = BTreeSet<usize>;

/// How a program's results come from its operations, inputs and parameters.
pub(crate) struct Reach {
    /// All that have gradients.
    all: Results,
    /// Of each operation those that it has gradients of.
    together: HashSet<Results>,
    /// Of each value that nothing in the program computes those that gradients come to it from.
    sources: HashMap<u64, Results>,
    /// The values of which there are views in eager mode, by the operations' names.
    viewed: HashSet<u64>,
}

/// What a program is given, by index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProgramInput {
    Input(usize),
    Parameter(usize),
}

/// What only some results come from.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(super) given: ProgramInput,
    pub(super) results: Results,
}

impl Reach {
    /// That of the values that a program gives.
    pub(crate) fn of(program: &Bound<'_, PyAny>, results: &Bound<'_, PyList>) -> PyResult<Self> {
        let (mut all, mut sources) = (Results::new(), HashMap::<u64, Results>::new());
        for (at, result) in results.iter().enumerate() {
            if !ends(&result)? {
                all.insert(at);
                sources.entry(id(&result)?).or_default().insert(at);
            }
        }
        let (mut together, mut viewed) = (HashSet::new(), HashSet::new());
        let operations: Vec<Bound<'_, PyAny>> = program.call_method0("global_block")?.getattr("ops")?.extract()?;
        for operation in operations.iter().rev() {
            let given: Vec<Bound<'_, PyAny>> = operation.call_method0("operands_source")?.extract()?;
            // What is given nothing is an input or a parameter.
            if given.is_empty() {
                continue;
            }
            let mut from = Results::new();
            for result in operation.call_method0("results")?.try_iter()? {
                let result = result?;
                if let Some(sources) = sources.remove(&id(&result)?).filter(|_| !ends(&result).unwrap_or(true)) {
                    from.extend(sources);
                }
            }
            if from.is_empty() {
                continue;
            }
            let name = operation.call_method0("name")?;
            if VIEWS.contains(&name.extract()?) {
                viewed.insert(id(&given[0])?);
            }
            let operands = OperandNames::of(operation, name.extract()?, given.len())?;
            for (at, operand) in given.iter().enumerate() {
                if operands.take_gradient(at) && !ends(operand)? {
                    sources.entry(id(operand)?).or_default().extend(&from);
                }
            }
            together.insert(from);
        }
        Ok(Reach { all, together, sources, viewed })
    }

    /// Whether two results come from no differentiable operation in common. A pass that lets go of the graph lets go,
    /// in eager mode, of the operations that it goes through: another one may come from the other result.
    pub(crate) fn has_apart(&self) -> bool {
        let are_apart = |one: &usize, other: &usize| {
            !self.together.iter().any(|together| together.contains(one) && together.contains(other))
        };
        self.all.iter().any(|one| self.all.range(..one).any(|other| are_apart(one, other)))
    }

    /// The inputs and parameters that there are views of.
    pub(crate) fn viewed(
        &self,
        inputs: &Bound<'_, PyList>,
        parameters: &Bound<'_, PyList>,
    ) -> PyResult<Vec<ProgramInput>> {
        let mut found = Vec::new();
        for (given, value) in all_given(inputs, parameters) {
            if self.viewed.contains(&id(&value)?) {
                found.push(given);
            }
        }
        Ok(found)
    }

    /// The inputs and parameters that only some results come from.
    pub(crate) fn partial(&self, inputs: &Bound<'_, PyList>, parameters: &Bound<'_, PyList>) -> PyResult<Vec<Partial>> {
        let mut found = Vec::new();
        for (given, value) in all_given(inputs, parameters) {
            if let Some(results) = self.sources.get(&id(&value)?).filter(|results| **results != self.all) {
                found.push(Partial { given, results: results.clone() });
            }
        }
        Ok(found)
    }
}

fn all_given<'py>(
    inputs: &Bound<'py, PyList>,
    parameters: &Bound<'py, PyList>,
) -> impl Iterator<Item = (ProgramInput, Bound<'py, PyAny>)> {
    let inputs = inputs.iter().enumerate().map(|(at, value)| (ProgramInput::Input(at), value));
    let parameters = parameters.iter().enumerate().map(|(at, value)| (ProgramInput::Parameter(at), value));
    inputs.chain(parameters)
}
