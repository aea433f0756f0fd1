//! The limits of a trace: its number of instructions, and the memory of the values it computes. Simulation takes a
//! hundred times as long as execution, so a trace without tensor work is given up early, and earlier the more often
//! that has happened: each function it calls is then traced on its own. A program without tensors is left alone after
//! some ten thousand instructions.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};

use super::{checkpoint, Effort, OpcodeExecutor};
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::forgetting;
use crate::policy::{Budget, ASKED, HALVED_AFTER, MAX_BYTES, MAX_ITEMS, MAX_STEPS, UNASKED};
use crate::progress;

/// So many items are copied in the time of an instruction.
const ITEMS_PER_STEP: u64 = 16;

/// Smaller texts are not counted: there are not more of them than instructions.
const SMALL: usize = 256;
/// After so many instructions it is looked whether a signal has come.
const SIGNAL_STEPS: u64 = 1_024;
/// After so many it is noted how far the trace is, for those who look on.
const PROGRESS_STEPS: u64 = 64;
/// So many instructions its handler waits at most.
const MAX_WAITING_STEPS: u64 = 32 * SIGNAL_STEPS;

/// Instructions followed in traces that met no tensor, in one generation of translations (see
/// `forgetting::generation`).
static IN_VAIN: AtomicU64 = AtomicU64::new(0);
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// What is left of a budget after what has been followed in vain.
fn left_of(budget: &Budget) -> u64 {
    let generation = forgetting::generation();
    if GENERATION.swap(generation, Ordering::Relaxed) != generation {
        IN_VAIN.store(0, Ordering::Relaxed);
    }
    let halved = (IN_VAIN.load(Ordering::Relaxed) / HALVED_AFTER).min(63);
    (budget.first >> halved).max(budget.least)
}

/// The instructions of a trace, and how many there may be.
pub struct Patience {
    steps: u64,
    most: u64,
    bytes: usize,
    /// The instruction at which a signal was seen whose handler waits.
    signal: Option<u64>,
    /// Whether the trace goes on though one waits.
    ignores_signals: bool,
    /// How many calls are being made for other calls.
    pub(super) nesting: usize,
}

impl Patience {
    /// That of a trace. One that was given up for a signal before goes on though a handler waits.
    pub(super) fn new(effort: Effort, ignores_signals: bool) -> Self {
        let most = match effort {
            Effort::Little => left_of(&UNASKED),
            Effort::Asked => left_of(&ASKED),
            Effort::All => ASKED.first,
        };
        Patience { steps: 0, most, bytes: 0, signal: None, ignores_signals, nesting: 0 }
    }

    /// The handler of a signal runs when the trace has ended, and does not wait for a long one. So it is with what
    /// another thread raises.
    fn look_for_signals(&mut self) -> Flow<()> {
        if self.ignores_signals || !cpython::signal_waits() {
            return Ok(());
        }
        let steps = self.steps;
        if steps - *self.signal.get_or_insert(steps) < MAX_WAITING_STEPS {
            return Ok(());
        }
        Err(Unwind::fallback(ReasonId::SignalWaits, "the handler of a signal waits, or what another thread raises"))
    }

    /// Copying so many items counts as instructions, too: a loop that fills a container is cut off where that takes
    /// long.
    pub fn charge(&mut self, items: usize) {
        self.steps += items as u64 / ITEMS_PER_STEP;
    }

    /// Counts the memory of a value that an operation has come to. Where it is too much, the next instruction ends the
    /// trace.
    pub(super) fn charge_bytes(&mut self, value: &Bound<'_, PyAny>) {
        let bytes = if value.is_exact_instance_of::<PyString>() || value.is_exact_instance_of::<PyBytes>() {
            value.len().unwrap_or(0)
        } else if value.is_exact_instance_of::<PyInt>() && value.extract::<i64>().is_err() {
            let bits = value.call_method0(intern!(value.py(), "bit_length"));
            bits.and_then(|bits| bits.extract::<usize>()).unwrap_or(0) / 8
        } else {
            0
        };
        self.charge_memory(bytes);
    }

    /// Counts memory that a value of the trace takes.
    pub fn charge_memory(&mut self, bytes: usize) {
        if bytes > SMALL {
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    /// Refuses to make so many values at once, where CPython would not make them, or has one object for all of them.
    pub fn refuse_many(&self, items: usize) -> Flow<()> {
        if items <= MAX_ITEMS {
            return Ok(());
        }
        Err(Unwind::fallback(ReasonId::TraceTooLong, format!("more than {MAX_ITEMS} items")))
    }

    /// Number of instructions simulated.
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

impl OpcodeExecutor<'_> {
    /// Counts the instructions of a trace that has ended, if it met no tensor, and was not given up for a signal.
    pub(crate) fn note_steps_in_vain(&self) {
        if !self.has_met_tensors() && self.patience.signal.is_none() {
            IN_VAIN.fetch_add(self.patience.steps, Ordering::Relaxed);
        }
    }
}

/// An instruction, or an item that C code takes from an iterator.
pub(super) fn count_step(cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
    cx.patience.steps += 1;
    if cx.patience.steps > cx.patience.most || cx.patience.bytes > MAX_BYTES {
        return lose_patience(cx);
    }
    if cx.patience.steps % PROGRESS_STEPS == 0 {
        progress::tick(cx.py, cx.graph.ir().statements.len());
    }
    if cx.patience.steps % SIGNAL_STEPS == 0 {
        return cx.patience.look_for_signals();
    }
    Ok(())
}

#[cold]
fn lose_patience(cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
    if cx.patience.bytes > MAX_BYTES {
        let text = format!("the values it computes take more than {} MB", MAX_BYTES >> 20);
        return Err(Unwind::fallback(ReasonId::TraceTooLong, text));
    }
    let most = cx.patience.most;
    if most < MAX_STEPS && cx.has_met_tensors() {
        cx.patience.most = MAX_STEPS;
        return Ok(());
    }
    let text = format!("more than {most} instructions");
    if most < MAX_STEPS {
        return Err(Unwind::fallback(ReasonId::TraceTooLong, format!("{text} without a tensor")));
    }
    let of_call = format!("a call of {text} without tensor work");
    let plan = checkpoint::plan_at_long_call(cx, most / 2, of_call);
    Err(plan.unwrap_or_else(|| Unwind::fallback(ReasonId::TraceTooLong, text)))
}
