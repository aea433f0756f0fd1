//! How long a trace may become. What has no tensor work is given up early, and the earlier the more often that has happened: to
//! simulate takes a hundred times as long as to run, and each function that is called meanwhile is traced on its own once its caller is
//! left to CPython.

use std::sync::atomic::{AtomicU32, Ordering};

use super::OpcodeExecutor;
use crate::error::{Flow, ReasonId, Unwind};

/// More instructions than this in one trace are left to CPython.
const MAX_STEPS: u64 = 2_000_000;
/// So many are followed at first without meeting a tensor, where the user has not asked for the function.
const MAX_STEPS_WITHOUT_TENSORS: u64 = 200_000;
/// How often that is halved at most.
const MAX_HALVED: u32 = 4;
/// So many items are copied in the time of an instruction.
const ITEMS_PER_STEP: u64 = 16;

/// How many traces were given up that had met no tensor.
static GIVEN_UP: AtomicU32 = AtomicU32::new(0);

/// The instructions of a trace, and how many there may be.
pub(super) struct Patience {
    steps: u64,
    most: u64,
}

impl Default for Patience {
    fn default() -> Self {
        let halved = GIVEN_UP.load(Ordering::Relaxed).min(MAX_HALVED);
        Patience { steps: 0, most: MAX_STEPS_WITHOUT_TENSORS >> halved }
    }
}

impl OpcodeExecutor<'_> {
    /// The user has asked for the function: it is to have tensor work sooner or later.
    pub(crate) fn be_patient(&mut self) {
        self.patience.most = MAX_STEPS;
    }

    /// An instruction, or an item that C code takes from an iterator.
    pub(super) fn count_step(&mut self) -> Flow<()> {
        self.patience.steps += 1;
        if self.patience.steps > self.patience.most {
            self.lose_patience()
        } else {
            Ok(())
        }
    }

    /// Copying so many items counts as instructions, too: a loop that fills a container is cut off where that takes long.
    pub fn charge(&mut self, items: usize) {
        self.patience.steps += items as u64 / ITEMS_PER_STEP;
    }

    /// Number of instructions simulated.
    pub fn steps(&self) -> u64 {
        self.patience.steps
    }

    #[cold]
    fn lose_patience(&mut self) -> Flow<()> {
        let most = self.patience.most;
        if most < MAX_STEPS && self.has_met_tensors() {
            self.be_patient();
            return Ok(());
        }
        let text = format!("more than {most} instructions");
        if most < MAX_STEPS {
            GIVEN_UP.fetch_add(1, Ordering::Relaxed);
            return Err(Unwind::fallback(ReasonId::TraceTooLong, format!("{text} without a tensor")));
        }
        let of_call = format!("a call of {text} without tensor work");
        let plan = self.plan_at_long_call(most / 2, of_call);
        Err(plan.unwrap_or_else(|| Unwind::fallback(ReasonId::TraceTooLong, text)))
    }
}
