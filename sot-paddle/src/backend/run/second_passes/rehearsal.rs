//! Rehearsals: runs that verify mode takes back, and the passes through them. What a graph becomes is decided by the
//! program's own runs and passes, so that a verified program runs the same graphs in the same way.

use std::cell::Cell;
use std::thread::LocalKey;

thread_local! {
    static RUNS: Cell<bool> = const { Cell::new(false) };
    static PASS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the runs of graphs in this thread are rehearsals.
pub(super) fn are_runs() -> bool {
    RUNS.get()
}

/// Whether the backward pass that begins in this thread is the last one through a rehearsal.
pub(super) fn is_pass() -> bool {
    PASS.get()
}

/// Does something in which the runs of graphs are rehearsals.
pub(crate) fn rehearse_runs<T>(work: impl FnOnce() -> T) -> T {
    with(&RUNS, work)
}

/// Makes the only backward pass through a rehearsal.
pub(crate) fn rehearse_pass<T>(work: impl FnOnce() -> T) -> T {
    with(&PASS, work)
}

fn with<T>(flag: &'static LocalKey<Cell<bool>>, work: impl FnOnce() -> T) -> T {
    let _until_done = Flag { flag, before: flag.replace(true) };
    work()
}

/// A flag that is set back when this goes.
struct Flag {
    flag: &'static LocalKey<Cell<bool>>,
    before: bool,
}

impl Drop for Flag {
    fn drop(&mut self) {
        self.flag.set(self.before);
    }
}
