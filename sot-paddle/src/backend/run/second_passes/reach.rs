//! Which parts of a graph a backward pass reaches from which results. A program is one node of the backward pass: it
//! releases the whole graph, and gives zeros to inputs that only unreached results depend on.

use std::collections::{BTreeSet, HashMap, HashSet};

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::carries_other_gradients::{id, stops_gradients};
use crate::backend::graph::gradient::GradientOperands;
use crate::backend::memory::views::VIEWS;
use crate::backend::paddle::operation;

/// Results of a program, by index.
pub(super) type Results = BTreeSet<usize>;

/// Operations whose derivative is infinite or NaN for some ordinary operands, such as that of a root at zero. There a
/// gradient of zero becomes NaN.
const MAKE_NAN_OF_ZEROS: [&str; 39] = [
    "pd_op.acos",
    "pd_op.acosh",
    "pd_op.asin",
    "pd_op.atan2",
    "pd_op.atanh",
    "pd_op.cholesky",
    "pd_op.cumprod",
    "pd_op.det",
    "pd_op.determinant",
    "pd_op.digamma",
    "pd_op.dist",
    "pd_op.divide",
    "pd_op.eig",
    "pd_op.eigh",
    "pd_op.elementwise_pow",
    "pd_op.erfinv",
    "pd_op.frobenius_norm",
    "pd_op.gammaln",
    "pd_op.inverse",
    "pd_op.kldiv_loss",
    "pd_op.lgamma",
    "pd_op.log",
    "pd_op.log10",
    "pd_op.log1p",
    "pd_op.log2",
    "pd_op.logit",
    "pd_op.lstsq",
    "pd_op.norm",
    "pd_op.p_norm",
    "pd_op.pow",
    "pd_op.prod",
    "pd_op.qr",
    "pd_op.reciprocal",
    "pd_op.remainder",
    "pd_op.rsqrt",
    "pd_op.slogdet",
    "pd_op.solve",
    "pd_op.sqrt",
    "pd_op.svd",
];

/// How a program's results depend on its operations, inputs and parameters.
pub(crate) struct Reach {
    /// All results with gradients.
    all: Results,
    /// For each operation, the results whose gradients flow to it.
    together: HashSet<Results>,
    /// The members of `together` of the operations in [`MAKE_NAN_OF_ZEROS`].
    singular: BTreeSet<Results>,
    /// For each value that the program does not compute, the results whose gradients flow to it.
    sources: HashMap<u64, Results>,
    /// The values of which the program makes views in eager mode, decided by the operations' names.
    viewed: HashSet<u64>,
}

/// An input or a parameter of a program, by index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProgramInput {
    Input(usize),
    Parameter(usize),
}

impl ProgramInput {
    /// Returns the tensor that a run was given for it.
    pub(crate) fn of<'py>(
        self,
        inputs: &Bound<'py, PyTuple>,
        parameters: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self {
            ProgramInput::Input(at) => inputs.get_item(at),
            ProgramInput::Parameter(at) => parameters.get_item(at),
        }
    }
}

/// An input or parameter that only some results depend on.
#[derive(Debug)]
pub(crate) struct PartlyUsedInput {
    pub(super) given: ProgramInput,
    pub(super) results: Results,
}

impl Reach {
    /// Follows gradients back from the results of a program.
    pub(crate) fn of(program: &Bound<'_, PyAny>, results: &Bound<'_, PyList>) -> PyResult<Self> {
        let (mut all, mut sources) = (Results::new(), HashMap::<u64, Results>::new());
        for (at, result) in results.iter().enumerate() {
            if !stops_gradients(&result)? {
                all.insert(at);
                sources.entry(id(&result)?).or_default().insert(at);
            }
        }
        let (mut together, mut singular, mut viewed) = (HashSet::new(), BTreeSet::new(), HashSet::new());
        for operation in operation::of_program(program)?.iter().rev() {
            let given: Vec<Bound<'_, PyAny>> = operation.call_method0("operands_source")?.extract()?;
            // An operation without operands is an input or a parameter.
            if given.is_empty() {
                continue;
            }
            let mut from = Results::new();
            for result in operation.call_method0("results")?.try_iter()? {
                let result = result?;
                if let Some(sources) =
                    sources.remove(&id(&result)?).filter(|_| !stops_gradients(&result).unwrap_or(true))
                {
                    from.extend(sources);
                }
            }
            if from.is_empty() {
                continue;
            }
            let name = operation.call_method0("name")?;
            if MAKE_NAN_OF_ZEROS.contains(&name.extract::<&str>()?.trim_end_matches('_')) {
                singular.insert(from.clone());
            }
            if VIEWS.contains(&name.extract()?) {
                viewed.insert(id(&given[0])?);
            }
            let operands = GradientOperands::of(operation, name.extract()?, given.len());
            for (at, operand) in given.iter().enumerate() {
                if operands.include(at) && !stops_gradients(operand)? {
                    sources.entry(id(operand)?).or_default().extend(&from);
                }
            }
            together.insert(from);
        }
        Ok(Reach { all, together, singular, sources, viewed })
    }

    /// For each operation that may make NaN of zeros and that only some results depend on, these results. A pass that
    /// reaches none of them does not go through the operation in eager mode; a program sends zeros through it.
    pub(crate) fn singular(&self) -> Vec<Results> {
        self.singular.iter().filter(|results| **results != self.all).cloned().collect()
    }

    /// True if two results have no differentiable operation in common. In eager mode, a pass that releases the graph
    /// releases only the operations that it goes through, so another pass may come from the other result.
    pub(crate) fn has_independent_results(&self) -> bool {
        let are_apart = |one: &usize, other: &usize| {
            !self.together.iter().any(|together| together.contains(one) && together.contains(other))
        };
        self.all.iter().any(|one| self.all.range(..one).any(|other| are_apart(one, other)))
    }

    /// The inputs and parameters that the program makes views of.
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

    /// The inputs and parameters that only some results depend on.
    pub(crate) fn partial(
        &self,
        inputs: &Bound<'_, PyList>,
        parameters: &Bound<'_, PyList>,
    ) -> PyResult<Vec<PartlyUsedInput>> {
        let mut found = Vec::new();
        for (given, value) in all_given(inputs, parameters) {
            if let Some(results) = self.sources.get(&id(&value)?).filter(|results| **results != self.all) {
                found.push(PartlyUsedInput { given, results: results.clone() });
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
