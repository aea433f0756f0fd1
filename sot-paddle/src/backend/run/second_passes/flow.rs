//! How gradients flow through a graph, which eager mode sees operation by operation and a program does not show.

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

/// How gradients flow from the outputs of a graph to what it is given.
pub(crate) struct GradientFlow {
    /// Of each output whether gradients come through it from another one.
    pub(super) through: Arc<[bool]>,
    /// Whether two results come from no differentiable operation in common.
    apart: bool,
    /// What only some results come from.
    pub(super) partial: Vec<Partial>,
    /// What the program makes views of.
    viewed: Vec<ProgramInput>,
}

impl GradientFlow {
    /// That of a program that gives `results`, from which `plan` makes `outputs`.
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

    /// Whether backward passes must find the operations one by one: two results come from no differentiable operation
    /// in common, or one is a view of what the graph is given and others come from it, which is behind the program and
    /// before it.
    pub(super) fn must_be_replayed(&self, plan: &[Output]) -> bool {
        let is_view_of_given =
            |output: &Output| output.as_it_is().is_none() && !matches!(output.origin, Origin::Result(_));
        self.apart || plan.iter().zip(self.through.iter()).any(|(output, &through)| through && is_view_of_given(output))
    }

    /// Whether hooks on the results see the same behind several programs as behind one.
    pub(crate) fn may_be_cut(&self) -> bool {
        !(self.apart || self.through.contains(&true) || !self.partial.is_empty())
    }

    /// What the graph keeps of it once it is a program.
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

/// What backward passes have to know of a program.
pub(crate) struct ProgramFlow {
    /// Results of the program that gradients come through from other outputs.
    pub(super) through: Vec<usize>,
    /// Outputs that are made from results or inputs, if gradients come through one of these.
    pub(crate) made: Vec<Made>,
    /// What only some of the program's results come from.
    pub(super) partial: Vec<Partial>,
    /// What the program makes views of.
    pub(super) viewed: Vec<ProgramInput>,
    pub(super) chances: Chances,
    pub(crate) random: Random,
}

impl ProgramFlow {
    /// Whether it is still worth its while to be a program.
    pub(super) fn has_chances(&self) -> bool {
        self.chances.0.load(Ordering::Relaxed) > 0
    }
}

/// How many passes may leave a program as it is, each at the cost of copies, before the graph is called operation by
/// operation.
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
