//! Runs that `paddle.grad` copies. It copies all nodes behind what it is given, also those that it does not go through,
//! and when the copy of a program's node goes, Paddle takes the program to be done, and empties its scope.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;

use super::watch::give_up_programs;
use super::{locked, past_run, PastRun};

/// The runs that there are, by number, and some that were.
static RUNS: Mutex<BTreeMap<u64, Weak<PastRun>>> = Mutex::new(BTreeMap::new());

/// From so many on the dead are looked for.
const MANY: usize = 256;

/// Notes a run that has just been.
pub(super) fn note(run: &Arc<PastRun>) {
    let mut runs = locked(&RUNS);
    if runs.len() >= MANY {
        runs.retain(|_, run| run.strong_count() > 0);
    }
    runs.insert(run.number, Arc::downgrade(run));
}

/// Does `work`, which may copy the nodes of runs. What those that it does not go through have kept for their first pass
/// is there for it.
pub(super) fn around<T>(py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    if !past_run::are_alive() {
        return work();
    }
    let runs: Vec<_> = locked(&RUNS).values().filter_map(Weak::upgrade).collect();
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
    // Each further step would need another scope.
    if are_any {
        give_up_programs();
    }
    done
}
