//! Rehearsals: runs that verify mode undoes, and the passes through them. They do not count when the strategy of a
//! graph is decided, so that a verified program runs the same graphs in the same way as an unverified one.

use std::cell::Cell;
use std::thread::LocalKey;

thread_local! {
    static RUNS: Cell<bool> = const { Cell::new(false) };
    static PASS: Cell<bool> = const { Cell::new(false) };
}

/// True if the runs of graphs in this thread are rehearsals.
pub(super) fn is_rehearsing_runs() -> bool {
    RUNS.get()
}

/// True if the backward pass that begins in this thread is the only one through a rehearsal.
pub(super) fn is_pass() -> bool {
    PASS.get()
}

/// Does `work`, in which the runs of graphs are rehearsals.
pub(crate) fn rehearse_runs<T>(work: impl FnOnce() -> T) -> T {
    with(&RUNS, work)
}

/// Does `work`, which is the only backward pass through a rehearsal.
pub(crate) fn rehearse_pass<T>(work: impl FnOnce() -> T) -> T {
    with(&PASS, work)
}

fn with<T>(flag: &'static LocalKey<Cell<bool>>, work: impl FnOnce() -> T) -> T {
    let _until_done = FlagScope { flag, before: flag.replace(true) };
    work()
}

/// Sets a flag back when it is dropped.
struct FlagScope {
    flag: &'static LocalKey<Cell<bool>>,
    before: bool,
}

impl Drop for FlagScope {
    fn drop(&mut self) {
        self.flag.set(self.before);
    }
}
