//! The limits of a trace: its number of instructions, and the memory of the values it computes. Simulation takes a
//! hundred times as long as execution, so a trace without tensor work is given up early, and earlier the more often
//! that has happened. Each function it calls is then traced on its own. A program without tensors is left alone after
//! some ten thousand instructions.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};

use super::graph_breaks::checkpoint;
use super::{Effort, OpcodeExecutor};
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::forgetting;
use crate::policy::{
    Budget, BUDGET_WHEN_ASKED_FOR, BUDGET_WHEN_NOT_ASKED_FOR, HALVED_AFTER, ITEMS_PER_STEP, MAX_BYTES, MAX_ITEMS,
    MAX_STEPS, MAX_UNCOUNTED_BYTES, MAX_WAITING_STEPS, PROGRESS_STEPS, SIGNAL_STEPS,
};
use crate::progress;

/// Number of instructions of traces that met no tensor, in one generation of translations (see
/// `forgetting::generation`).
static STEPS_WITHOUT_TENSOR: AtomicU64 = AtomicU64::new(0);
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Returns the budget that remains after the instructions that were simulated in vain.
fn left_of(budget: &Budget) -> u64 {
    let generation = forgetting::generation();
    if GENERATION.swap(generation, Ordering::Relaxed) != generation {
        STEPS_WITHOUT_TENSOR.store(0, Ordering::Relaxed);
    }
    let halved = (STEPS_WITHOUT_TENSOR.load(Ordering::Relaxed) / HALVED_AFTER).min(63);
    (budget.first >> halved).max(budget.least)
}

/// The number of instructions of a trace, and its limits.
pub struct TraceLimits {
    steps: u64,
    most: u64,
    bytes: usize,
    /// Number of the instruction at which a waiting signal was first seen.
    signal: Option<u64>,
    /// True if the trace goes on while a signal waits.
    ignores_signals: bool,
    /// Number of calls that are being simulated within one another.
    pub(super) nesting: usize,
}

impl TraceLimits {
    /// Makes the limits of a trace. `ignores_signals` if enough traces of the code were given up for signals.
    pub(super) fn new(effort: Effort, ignores_signals: bool) -> Self {
        let most = match effort {
            Effort::Little => left_of(&BUDGET_WHEN_NOT_ASKED_FOR),
            Effort::Asked => left_of(&BUDGET_WHEN_ASKED_FOR),
            Effort::All => BUDGET_WHEN_ASKED_FOR.first,
        };
        TraceLimits { steps: 0, most, bytes: 0, signal: None, ignores_signals, nesting: 0 }
    }

    /// Gives the trace up if a signal has waited too long, because its handler runs only when the trace has ended.
    /// An exception that another thread has raised in this thread counts as a signal.
    fn look_for_signals(&mut self) -> Flow<()> {
        if self.ignores_signals || !cpython::signal_waits() {
            return Ok(());
        }
        let steps = self.steps;
        if steps - *self.signal.get_or_insert(steps) < MAX_WAITING_STEPS {
            return Ok(());
        }
        Err(Unwind::fallback(
            ReasonId::SignalWaits,
            "a signal handler waits, or an exception that another thread has raised",
        ))
    }

    /// Counts copied items as instructions, so that a loop that fills a container is cut off when that takes long.
    pub fn charge(&mut self, items: usize) {
        self.steps += items as u64 / ITEMS_PER_STEP;
    }

    /// Counts the memory of an operation's result. If the sum is too large, the next instruction ends the trace.
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

    /// Counts the memory of a value in the trace.
    pub fn charge_memory(&mut self, bytes: usize) {
        if bytes > MAX_UNCOUNTED_BYTES {
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    /// Refuses to make this number of values at once, where CPython would not make them or shares one object.
    pub fn refuse_many(&self, items: usize) -> Flow<()> {
        if items <= MAX_ITEMS {
            return Ok(());
        }
        Err(Unwind::fallback(ReasonId::TraceTooLong, format!("more than {MAX_ITEMS} items")))
    }

    /// Counts the instructions of a trace that has ended without meeting a tensor, unless a signal waited.
    pub(crate) fn note_steps_without_tensor(&self) {
        if self.signal.is_none() {
            STEPS_WITHOUT_TENSOR.fetch_add(self.steps, Ordering::Relaxed);
        }
    }

    /// Number of instructions simulated.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }
}

/// Gives up before a deeper simulation runs out of C stack. The next call of the code may succeed.
pub(super) fn refuse_full_stack() -> Flow<()> {
    if cpython::has_stack_to_go_on() {
        return Ok(());
    }
    Err(Unwind::fallback(ReasonId::StackNearlyUsedUp, "not enough C stack is left to continue the simulation"))
}

/// Like [`refuse_full_stack`], for any access to a value. A handler that calls itself without end would do so at the
/// next call, too, so the code is left to CPython for good.
#[inline]
pub(super) fn refuse_endless_recursion() -> Flow<()> {
    if cpython::has_stack_to_look() {
        return Ok(());
    }
    Err(Unwind::fallback(
        ReasonId::TraceTooLong,
        "a handler that calls itself without end, or values nested too deeply",
    ))
}

/// Like `refuse_full_stack`, where values of the program are nested too deeply. They are as deep at the next call,
/// so the code is left to CPython for good.
pub fn refuse_deep_values() -> Flow<()> {
    if cpython::has_stack_to_go_on() {
        return Ok(());
    }
    Err(Unwind::fallback(ReasonId::TraceTooLong, "values nested too deeply"))
}

/// Counts an instruction, or an item that C code takes from an iterator.
pub(super) fn count_step(cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
    cx.limits.steps += 1;
    if cx.limits.steps > cx.limits.most || cx.limits.bytes > MAX_BYTES {
        return refuse_longer_trace(cx);
    }
    if cx.limits.steps % PROGRESS_STEPS == 0 {
        progress::tick(cx.py, cx.trace.graph.ir().statements.len());
    }
    if cx.limits.steps % SIGNAL_STEPS == 0 {
        return cx.limits.look_for_signals();
    }
    Ok(())
}

#[cold]
fn refuse_longer_trace(cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
    if cx.limits.bytes > MAX_BYTES {
        let text = format!("the values it computes take more than {} MB", MAX_BYTES >> 20);
        return Err(Unwind::fallback(ReasonId::TraceTooLong, text));
    }
    let most = cx.limits.most;
    if most < MAX_STEPS && cx.trace.graph.has_met_tensors() {
        cx.limits.most = MAX_STEPS;
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
