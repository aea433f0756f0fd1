//! How gradients flow through a graph. Eager mode sees the flow operation by operation; a program does not show it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;

use super::carries_other_gradients::carries_other_gradients;
use super::made::OutputRecipe;
use super::random::Random;
use super::reach::{PartlyUsedInput, ProgramInput, Reach, Results};
use super::watch::expect_independent_passes;
use crate::backend::graph::outputs::{Origin, Output};

/// How gradients flow from the outputs of a graph to its inputs and parameters.
pub(crate) struct GradientFlow {
    /// For each output, true if the gradient of another output flows through it.
    pub(super) carries_other_gradients: Arc<[bool]>,
    /// True if two results have no differentiable operation in common.
    has_independent_results: bool,
    /// For each operation that may make NaN of zeros and that only some results depend on, these results.
    singular: Vec<Results>,
    /// The inputs and parameters that only some results depend on.
    pub(super) partial: Vec<PartlyUsedInput>,
    /// The inputs and parameters that the program makes views of.
    viewed: Vec<ProgramInput>,
}

impl GradientFlow {
    /// Finds the flow of a program with these `results`, from which `plan` makes `outputs`.
    pub(crate) fn of(
        program: &Bound<'_, PyAny>,
        (inputs, parameters): (&Bound<'_, PyList>, &Bound<'_, PyList>),
        results: &Bound<'_, PyList>,
        (outputs, plan): (&[Py<PyAny>], &[Output]),
    ) -> PyResult<Self> {
        let reach = Reach::of(program, results)?;
        Ok(GradientFlow {
            carries_other_gradients: carries_other_gradients(program, outputs, plan)?.into(),
            has_independent_results: reach.has_independent_results(),
            singular: reach.singular(),
            partial: reach.partial(inputs, parameters)?,
            viewed: reach.viewed(inputs, parameters)?,
        })
    }

    /// True if each operation must be a node of backward passes. That is so if two results have no differentiable
    /// operation in common. It is also so if an output is a view of an input and other outputs are computed from that
    /// view: the view is made outside the program.
    pub(super) fn must_be_replayed(&self, plan: &[Output]) -> bool {
        let is_view_of_given =
            |output: &Output| output.as_it_is().is_none() && !matches!(output.origin, Origin::Result(_));
        self.has_independent_results
            || plan
                .iter()
                .zip(self.carries_other_gradients.iter())
                .any(|(output, &carries)| carries && is_view_of_given(output))
    }

    /// True if a pass that reaches only these outputs could get NaN from a program, which sends zeros through the
    /// operations that the pass does not reach in eager mode.
    pub(super) fn may_make_nan(&self, plan: &[Output], reached: &BTreeSet<usize>) -> bool {
        let reached: Results = reached
            .iter()
            .filter_map(|&at| match plan.get(at)?.origin {
                Origin::Result(result) => Some(result),
                _ => None,
            })
            .collect();
        self.singular.iter().any(|results| results.is_disjoint(&reached))
    }

    /// True if hooks on the results see the same with several programs as with one.
    pub(crate) fn may_be_cut(&self) -> bool {
        !(self.has_independent_results || self.carries_other_gradients.contains(&true) || !self.partial.is_empty())
    }

    /// Returns what the graph keeps of the flow when it becomes a program.
    pub(crate) fn of_program(self, plan: &[Output]) -> ProgramFlow {
        if self.has_independent_results {
            expect_independent_passes();
        }
        let (mut carriers, mut made) = (Vec::new(), Vec::new());
        for (place, (output, &carries_other_gradients)) in
            plan.iter().zip(self.carries_other_gradients.iter()).enumerate()
        {
            match (output.as_it_is(), output.origin) {
                (Some(Origin::Result(at)), _) if carries_other_gradients => carriers.push(at),
                (None, Origin::Result(root)) => {
                    made.push(OutputRecipe { place, root: Some(root), carries_other_gradients });
                }
                (None, _) if carries_other_gradients => {
                    made.push(OutputRecipe { place, root: None, carries_other_gradients });
                }
                _ => {}
            }
        }
        if made.iter().all(|made| !made.carries_other_gradients) {
            made.clear();
        }
        ProgramFlow {
            carriers,
            made,
            partial: self.partial,
            viewed: self.viewed,
            keep_budget: KeepBudget::default(),
            random: Random::default(),
        }
    }
}

/// What backward passes need to know about a program.
pub(crate) struct ProgramFlow {
    /// Indices of the results that the gradient of another output flows through.
    pub(super) carriers: Vec<usize>,
    /// Outputs that are made from results or inputs; empty unless a gradient flows through one of them.
    pub(crate) made: Vec<OutputRecipe>,
    /// The inputs and parameters that only some of the program's results depend on.
    pub(super) partial: Vec<PartlyUsedInput>,
    /// The inputs and parameters that the program makes views of.
    pub(super) viewed: Vec<ProgramInput>,
    pub(super) keep_budget: KeepBudget,
    pub(crate) random: Random,
}

impl ProgramFlow {
    /// True while the graph may still run as a program.
    pub(super) fn may_run_as_program(&self) -> bool {
        self.keep_budget.0.load(Ordering::Relaxed) > 0
    }
}

/// Number of further passes that may keep a program for a later pass, each at the cost of copies. Once it is used up,
/// the graph is called operation by operation.
#[derive(Debug)]
pub(super) struct KeepBudget(AtomicU8);

impl Default for KeepBudget {
    fn default() -> Self {
        KeepBudget(AtomicU8::new(3))
    }
}

impl KeepBudget {
    pub(super) fn spend(&self) {
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    }
}
