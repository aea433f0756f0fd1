//! The first runs of a graph, and the backward passes that go through them.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;

use super::pass::{note_trial, with_running, Pass, PassKind};
use super::results::{self, ResultOf};
use super::{hook, rehearsal, takes_hook};

/// The first runs of a graph, operation by operation: until a backward pass comes, or up to the third run.
#[derive(Default)]
pub(crate) struct Trial {
    /// For each run, the backward passes that have gone through it.
    runs: Mutex<Vec<Arc<Passes>>>,
}

/// The backward passes that have gone through a run.
#[derive(Default)]
pub(super) struct Passes {
    passes: Mutex<Vec<Pass>>,
    /// The outputs that they have reached.
    reached: Mutex<BTreeSet<usize>>,
}

impl Trial {
    /// Records the passes that go through the results of a run. `carries` has, for each result, true if the gradient
    /// of another result flows through it.
    pub(crate) fn note(&self, results: &Bound<'_, PyAny>, carries: &[bool]) -> PyResult<()> {
        if rehearsal::is_rehearsing_runs() {
            return Ok(());
        }
        let passes = Arc::new(Passes::default());
        self.runs.lock().push(Arc::clone(&passes));
        results::note(results, |at| Some(ResultOf::Trial(Arc::downgrade(&passes), carries[at])))?;
        for (at, result) in results.try_iter()?.enumerate() {
            let (result, passes) = (result?, Arc::clone(&passes));
            if takes_hook(&result)? {
                hook(&result, move |_| {
                    passes.reached.lock().insert(at);
                    passes.add(with_running(|pass| *pass));
                    note_trial(&passes);
                    Ok(None)
                })?;
            }
        }
        Ok(())
    }

    /// True if the strategy for later runs can be decided.
    pub(crate) fn is_over(&self) -> bool {
        let runs = self.runs.lock();
        runs.len() >= 3 || runs.iter().any(|run| !run.passes.lock().is_empty())
    }

    /// True if second passes may go through one of the runs.
    pub(crate) fn is_gone_through_again(&self) -> bool {
        let again = |passes: &[Pass]| passes.len() > 1 || passes.iter().any(|pass| pass.kind.may_be_followed());
        self.runs.lock().iter().any(|run| again(&run.passes.lock()))
    }

    /// For each run that a pass has gone through, the outputs that the pass has reached.
    pub(crate) fn reached(&self) -> Vec<BTreeSet<usize>> {
        let runs = self.runs.lock();
        let reached = runs.iter().filter(|run| !run.passes.lock().is_empty());
        reached.map(|run| run.reached.lock().clone()).collect()
    }
}

impl Passes {
    /// Makes the graph stay replayed: a pass will give gradients with respect to a result, or call a hook on one; or a
    /// pass has raised, which in a program may end the process.
    pub(super) fn refuse_program(&self) {
        self.add(Pass::new(PassKind::Keeps));
    }

    fn add(&self, pass: Pass) {
        let mut passes = self.passes.lock();
        if passes.iter().all(|known| known.id != pass.id) {
            passes.push(pass);
        }
    }
}
