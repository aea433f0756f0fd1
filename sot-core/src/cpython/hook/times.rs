//! Run times of replaced frames, by the code they run. They are recorded only on request.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use crate::cpython::hook::replace;

/// Number and total time of the calls of one code object, with the functions they call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTimes {
    /// Number of calls.
    pub calls: u64,
    /// Total time.
    pub taken: Duration,
}

impl CallTimes {
    /// The calls since an earlier reading.
    #[must_use]
    pub fn since(self, before: CallTimes) -> CallTimes {
        let (calls, taken) = (self.calls.saturating_sub(before.calls), self.taken.saturating_sub(before.taken));
        CallTimes { calls, taken }
    }
}

static TIMES: Mutex<Option<FxHashMap<usize, CallTimes>>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<FxHashMap<usize, CallTimes>>> {
    TIMES.lock()
}

/// Switches the clock of replaced frames on or off.
pub fn time_calls(on: bool) {
    replace::set_timed(on);
}

/// Records a call of the code at an address.
pub(super) fn note_call(code: usize, taken: Duration) {
    let mut times = lock();
    let of_code = times.get_or_insert_with(FxHashMap::default).entry(code).or_default();
    of_code.calls += 1;
    of_code.taken += taken;
}

/// Returns the calls of a code object while the clock was on.
pub fn call_times(code: &Py<PyAny>) -> CallTimes {
    lock().as_ref().and_then(|times| times.get(&(code.as_ptr() as usize)).copied()).unwrap_or_default()
}

/// Removes the calls of earlier code at the address of this new code.
pub fn forget_call_times(code: &Py<PyAny>) {
    if let Some(times) = lock().as_mut() {
        times.remove(&(code.as_ptr() as usize));
    }
}
