//! Outputs that are made in eager mode after the program has run: views of the program's results. In eager mode the
//! gradients of other outputs may flow through them.

use std::sync::Arc;

use pyo3::prelude::*;
use sot_core::cpython::WeakRef;

use super::results::{self, ResultOf};
use super::{hook, takes_hook, PastRun};
use crate::backend::graph::outputs::StepNumbers;

/// How an output is made.
pub(crate) struct OutputRecipe {
    /// Its index among the outputs.
    pub(crate) place: usize,
    /// The index of the program's result that it is made from; `None` if it is made from an input.
    pub(crate) root: Option<usize>,
    /// True if the gradient of another output flows through it.
    pub(crate) carries_other_gradients: bool,
}

/// An output that was made in one run.
pub(super) struct MadeOutput {
    pub(super) place: usize,
    pub(super) root: usize,
    pub(super) carries_other_gradients: bool,
    pub(super) tensor: WeakRef,
    /// The numbers that its steps take in this run.
    pub(super) numbers: StepNumbers,
}

impl PastRun {
    /// Notes the outputs that were made, if gradients flow through one of them.
    pub(crate) fn note_made(
        self: &Arc<Self>,
        made: &[OutputRecipe],
        results: &Bound<'_, PyAny>,
        outputs: &Bound<'_, PyAny>,
        numbers: impl Fn(usize) -> PyResult<StepNumbers>,
    ) -> PyResult<()> {
        let find = |place| made.iter().find(|made| made.place == place);
        results::note(outputs, |place| {
            find(place).map(|made| match made.root {
                Some(_) => ResultOf::Made(Arc::downgrade(self), place),
                None => ResultOf::MadeOfInput,
            })
        })?;
        let mut found = Vec::new();
        let mut roots = Vec::new();
        for &OutputRecipe { place, root, carries_other_gradients } in made {
            let output = outputs.get_item(place)?;
            let Some(root) = root.filter(|_| takes_hook(&output).unwrap_or(false)) else { continue };
            found.push(MadeOutput {
                place,
                root,
                carries_other_gradients,
                tensor: WeakRef::new(&output, None)?,
                numbers: numbers(place)?,
            });
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        // The gradient that the program gets for these results is known when a pass has reached all of them.
        for at in roots {
            let run = Arc::clone(self);
            hook(&results.get_item(at)?, move |gradient| run.late.replacement(gradient.py(), at))?;
        }
        let _ = self.made.set(found);
        Ok(())
    }

    pub(super) fn made(&self) -> &[MadeOutput] {
        self.made.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// True if the gradient of another output flows through this one.
    pub(super) fn carries_other_gradients(&self, place: usize) -> bool {
        self.made().iter().any(|made| made.place == place && made.carries_other_gradients)
    }
}

/// The key that stands for a made output where results are identified by their indices.
pub(crate) fn key(place: usize) -> usize {
    usize::MAX - place
}
