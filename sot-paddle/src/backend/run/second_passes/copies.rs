//! Keeps the scopes of runs that `paddle.grad` copies. `paddle.grad` copies all nodes of the backward graph behind its
//! outputs, also nodes that the pass does not go through. When the copy of a program's node is destroyed, Paddle
//! considers the backward pass of the program finished, and empties the program's scope.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pyo3::prelude::*;

use super::watch::give_up_programs;
use super::{past_run, PastRun};

/// Runs by number. Some of them may have been dropped already.
static RUNS: Mutex<BTreeMap<u64, Weak<PastRun>>> = Mutex::new(BTreeMap::new());

/// Number of entries in [`RUNS`] from which on dropped runs are removed.
const MANY: usize = 256;

/// Adds a run that has just ended to [`RUNS`].
pub(super) fn note(run: &Arc<PastRun>) {
    let mut runs = RUNS.lock();
    if runs.len() >= MANY {
        runs.retain(|_, run| run.strong_count() > 0);
    }
    runs.insert(run.number, Arc::downgrade(run));
}

/// Does `work`, which may copy nodes of runs. Runs that `work` does not go through keep the contents of their scopes
/// for their first backward pass.
pub(super) fn around<T>(py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    if !past_run::are_alive() {
        return work();
    }
    let runs: Vec<_> = RUNS.lock().values().filter_map(Weak::upgrade).collect();
    let mut held = Vec::new();
    for run in runs {
        if let Some(found) = run.hold(py)? {
            held.push((run, found));
        }
    }
    let done = work();
    let mut are_any = false;
    for (run, found) in held {
        are_any |= run.take_back(found.bind(py))?;
    }
    // Keeping the contents takes the scope out of use, so each further training step would need a new scope.
    if are_any {
        give_up_programs();
    }
    done
}
