//! The first runs of a graph, and the backward passes that go through them.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;

use super::pass::{with_running, Pass, PassKind};
use super::results::{self, ResultOf};
use super::{hook, locked, rehearsal, takes_hook};

/// The first runs of a graph, operation by operation: until a backward pass comes, or up to the third run.
#[derive(Default)]
pub(crate) struct Trial {
    /// For each run, the backward passes that have gone through it.
    runs: Mutex<Vec<Arc<Passes>>>,
}

/// The backward passes that have gone through a run.
#[derive(Default)]
pub(super) struct Passes(Mutex<Vec<Pass>>);

impl Trial {
    /// Records the passes that go through the results of a run. `through` has, for each result, true if the gradient
    /// of another result flows through it.
    pub(crate) fn note(&self, results: &Bound<'_, PyAny>, through: &[bool]) -> PyResult<()> {
        if rehearsal::are_runs() {
            return Ok(());
        }
        let passes = Arc::new(Passes::default());
        locked(&self.runs).push(Arc::clone(&passes));
        results::note(results, |at| Some(ResultOf::Trial(Arc::downgrade(&passes), through[at])))?;
        for result in results.try_iter()? {
            let (result, passes) = (result?, Arc::clone(&passes));
            if takes_hook(&result)? {
                hook(&result, move |_| {
                    passes.add(with_running(|pass| *pass));
                    Ok(None)
                })?;
            }
        }
        Ok(())
    }

    /// True if the strategy for later runs can be decided.
    pub(crate) fn is_over(&self) -> bool {
        let runs = locked(&self.runs);
        runs.len() >= 3 || runs.iter().any(|passes| !locked(&passes.0).is_empty())
    }

    /// True if second passes may go through one of the runs.
    pub(crate) fn is_gone_through_again(&self) -> bool {
        let again = |passes: &[Pass]| passes.len() > 1 || passes.iter().any(|pass| pass.kind.may_be_followed());
        locked(&self.runs).iter().any(|passes| again(&locked(&passes.0)))
    }
}

impl Passes {
    /// Makes the graph stay replayed: a pass will give gradients with respect to a result, or call a hook on one.
    pub(super) fn refuse_program(&self) {
        self.add(Pass::new(PassKind::Keeps));
    }

    fn add(&self, pass: Pass) {
        let mut passes = locked(&self.0);
        if passes.iter().all(|known| known.id != pass.id) {
            passes.push(pass);
        }
    }
}
