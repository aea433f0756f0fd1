//! How gradients flow through a graph. Eager mode sees the flow operation by operation; a program does not show it.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;

use super::made::Made;
use super::random::Random;
use super::reach::{Partial, ProgramInput, Reach};
use super::through::through;
use super::watch::expect_apart;
use crate::backend::graph::outputs::{Origin, Output};

/// How gradients flow from the outputs of a graph to its inputs and parameters.
pub(crate) struct GradientFlow {
    /// For each output, true if the gradient of another output flows through it.
    pub(super) through: Arc<[bool]>,
    /// True if two results have no differentiable operation in common.
    apart: bool,
    /// The inputs and parameters that only some results depend on.
    pub(super) partial: Vec<Partial>,
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
            through: through(program, outputs, plan)?.into(),
            apart: reach.has_apart(),
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
        self.apart || plan.iter().zip(self.through.iter()).any(|(output, &through)| through && is_view_of_given(output))
    }

    /// True if hooks on the results see the same with several programs as with one.
    pub(crate) fn may_be_cut(&self) -> bool {
        !(self.apart || self.through.contains(&true) || !self.partial.is_empty())
    }

    /// Returns what the graph keeps of the flow when it becomes a program.
    pub(crate) fn of_program(self, plan: &[Output]) -> ProgramFlow {
        if self.apart {
            expect_apart();
        }
        let (mut through, mut made) = (Vec::new(), Vec::new());
        for (place, (output, &is_through)) in plan.iter().zip(self.through.iter()).enumerate() {
            match (output.as_it_is(), output.origin) {
                (Some(Origin::Result(at)), _) if is_through => through.push(at),
                (None, Origin::Result(root)) => made.push(Made { place, root: Some(root), is_through }),
                (None, _) if is_through => made.push(Made { place, root: None, is_through }),
                _ => {}
            }
        }
        if made.iter().all(|made| !made.is_through) {
            made.clear();
        }
        ProgramFlow {
            through,
            made,
            partial: self.partial,
            viewed: self.viewed,
            chances: Chances::default(),
            random: Random::default(),
        }
    }
}

/// What backward passes need to know about a program.
pub(crate) struct ProgramFlow {
    /// Indices of the results that the gradient of another output flows through.
    pub(super) through: Vec<usize>,
    /// Outputs that are made from results or inputs; empty unless a gradient flows through one of them.
    pub(crate) made: Vec<Made>,
    /// The inputs and parameters that only some of the program's results depend on.
    pub(super) partial: Vec<Partial>,
    /// The inputs and parameters that the program makes views of.
    pub(super) viewed: Vec<ProgramInput>,
    pub(super) chances: Chances,
    pub(crate) random: Random,
}

impl ProgramFlow {
    /// True while the graph may still run as a program.
    pub(super) fn has_chances(&self) -> bool {
        self.chances.0.load(Ordering::Relaxed) > 0
    }
}

/// Number of passes that may keep a program for a later pass, each at the cost of copies, before the graph is called
/// operation by operation.
#[derive(Debug)]
pub(super) struct Chances(AtomicU8);

impl Default for Chances {
    fn default() -> Self {
        Chances(AtomicU8::new(3))
    }
}

impl Chances {
    pub(super) fn take(&self) {
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    }
}
