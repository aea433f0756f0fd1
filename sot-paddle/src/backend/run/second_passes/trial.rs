//! The first runs of a graph, and what comes to them.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;

use super::pass::{with_running, Pass, PassKind};
use super::results::{self, ResultOf};
use super::{hook, locked, rehearsal, takes_hook};

/// The first runs of a graph, operation by operation: up to a backward pass, or to the third run if none comes.
#[derive(Default)]
pub(crate) struct Trial {
    /// Of each run, the backward passes that have gone through it.
    runs: Mutex<Vec<Arc<Passes>>>,
}

/// The backward passes that have gone through a run.
#[derive(Default)]
pub(super) struct Passes(Mutex<Vec<Pass>>);

impl Trial {
    /// Takes down what goes through the results of a run.
    /// `through` says of each whether gradients come through it from another one.
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

    /// Whether it can be told how to run from here on.
    pub(crate) fn is_over(&self) -> bool {
        let runs = locked(&self.runs);
        runs.len() >= 3 || runs.iter().any(|passes| !locked(&passes.0).is_empty())
    }

    /// Whether second passes may go through one of the runs.
    pub(crate) fn is_gone_through_again(&self) -> bool {
        let again = |passes: &[Pass]| passes.len() > 1 || passes.iter().any(|pass| pass.kind.may_be_followed());
        locked(&self.runs).iter().any(|passes| again(&locked(&passes.0)))
    }
}

impl Passes {
    /// The run must not become a program: a pass is to give gradients by a result, or to call a hook on one.
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
