//! How long a trace may become. What has no tensor work is given up early, and the earlier the more often that has happened: to
//! simulate takes a hundred times as long as to run, and each function that is called meanwhile is traced on its own once its caller is
//! left to CPython. A program without tensors at all is so done with after some ten thousand instructions.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::OpcodeExecutor;
use crate::error::{Flow, ReasonId, Unwind};
use crate::stats;

/// More instructions than this in one trace are left to CPython.
const MAX_STEPS: u64 = 2_000_000;
/// So many are followed at first without meeting a tensor, in a function that the user has asked for,
const ASKED: Budget = Budget { first: 200_000, least: 12_500 };
/// and in one that nobody has.
const OTHERS: Budget = Budget { first: 100_000, least: 1_000 };
/// That is halved each time that so many have been followed in vain.
const HALVED_AFTER: u64 = 50_000;
/// So many items are copied in the time of an instruction.
const ITEMS_PER_STEP: u64 = 16;

/// Instructions followed in traces that met no tensor, in one generation of translations (see `stats::generation`).
static IN_VAIN: AtomicU64 = AtomicU64::new(0);
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// How many instructions may be followed without meeting a tensor.
struct Budget {
    first: u64,
    least: u64,
}

impl Budget {
    /// What is left of it after what has been followed in vain.
    fn now(&self) -> u64 {
        let generation = stats::generation();
        if GENERATION.swap(generation, Ordering::Relaxed) != generation {
            IN_VAIN.store(0, Ordering::Relaxed);
        }
        let halved = (IN_VAIN.load(Ordering::Relaxed) / HALVED_AFTER).min(63);
        (self.first >> halved).max(self.least)
    }
}

/// The instructions of a trace, and how many there may be.
pub(super) struct Patience {
    steps: u64,
    most: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { steps: 0, most: OTHERS.now() }
    }
}

impl OpcodeExecutor<'_> {
    /// The user has asked for the function: it is to have tensor work sooner or later. `always`: nothing is in vain.
    pub(crate) fn be_patient(&mut self, always: bool) {
        self.patience.most = if always { ASKED.first } else { ASKED.now() };
    }

    /// Counts the instructions of a trace that has ended, if it met no tensor.
    pub(crate) fn note_steps_in_vain(&self) {
        if !self.has_met_tensors() {
            IN_VAIN.fetch_add(self.patience.steps, Ordering::Relaxed);
        }
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
            self.patience.most = MAX_STEPS;
            return Ok(());
        }
        let text = format!("more than {most} instructions");
        if most < MAX_STEPS {
            return Err(Unwind::fallback(ReasonId::TraceTooLong, format!("{text} without a tensor")));
        }
        let of_call = format!("a call of {text} without tensor work");
        let plan = self.plan_at_long_call(most / 2, of_call);
        Err(plan.unwrap_or_else(|| Unwind::fallback(ReasonId::TraceTooLong, text)))
    }
}
