//! Counters and records for users: translations, hits, breaks, fallbacks, and their reasons.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::bytecode::OpcodeSet;
use crate::error::Reason;
use crate::forgetting;
use crate::ir::StatementIR;

/// The outcome of one translation, for `explain`.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Qualified name of the function.
    pub name: String,
    /// File of the function.
    pub filename: String,
    /// First line of the function.
    pub line: u32,
    /// The graphs of the new code.
    pub graphs: Vec<StatementIR>,
    /// Texts of the guards.
    pub guards: Vec<String>,
    /// The listing of the new code, if there is any.
    pub code: Option<String>,
    /// Why the frame was broken or left to CPython.
    pub reason: Option<Reason>,
    /// True if the frame was left to CPython.
    pub fallback: bool,
}

/// The counters.
#[derive(Clone, Default, Debug)]
pub struct Stats {
    /// Number of simulated frames.
    pub translations: u64,
    /// Cache misses: frames for which no entry was valid.
    pub misses: u64,
    /// Graphs compiled or replayed.
    pub graphs: u64,
    /// Graphs whose statements are called one by one, because they are few or the backend asks for it.
    pub replayed: u64,
    /// Graph runs that raised; the frame of each ran again in CPython.
    pub graph_errors: u64,
    /// Panics in translations and guards; the frame of each was left to CPython.
    pub panics: u64,
    /// Number of simulated instructions.
    pub instructions: u64,
    /// Opcodes simulated in frames that were not left to CPython.
    pub simulated: OpcodeSet,
    /// Number of times each graph break was met, by reason id, text and place.
    pub breaks: BTreeMap<String, u64>,
    /// Number of times each fallback was met, by reason id, text and place.
    pub fallbacks: BTreeMap<String, u64>,
    /// Calls that verify mode compared with a run of the program in CPython.
    pub verified: u64,
    /// Compared calls whose outcome differs from CPython's.
    pub differences: u64,
    /// Number of calls that verify mode could not compare, by reason.
    pub not_verified: BTreeMap<String, u64>,
    /// Seconds by phase: simulating frames, the backend building statements meanwhile, compiling.
    pub seconds: BTreeMap<&'static str, f64>,
}

static HITS: AtomicU64 = AtomicU64::new(0);
static WORK: AtomicU64 = AtomicU64::new(0);
static RECORDING: AtomicBool = AtomicBool::new(false);
static STATS: Mutex<Option<Stats>> = Mutex::new(None);
static RECORDS: Mutex<Vec<Record>> = Mutex::new(Vec::new());

/// Counts a hit.
pub fn hit() {
    HITS.fetch_add(1, Ordering::Relaxed);
}

/// Runs the closure without counting its hits.
pub fn keep_hits<T>(work: impl FnOnce() -> T) -> T {
    let before = HITS.load(Ordering::Relaxed);
    let done = work();
    HITS.store(before, Ordering::Relaxed);
    done
}

/// Changes the counters through the closure.
pub fn update(change: impl FnOnce(&mut Stats)) {
    change(STATS.lock().get_or_insert_with(Stats::default));
}

/// Number of hits and the other counters, since the last reset.
pub fn snapshot() -> (u64, Stats) {
    (HITS.load(Ordering::Relaxed), STATS.lock().clone().unwrap_or_default())
}

/// Sets the counters to zero, and makes all translations invalid.
pub fn reset() {
    HITS.store(0, Ordering::Relaxed);
    *STATS.lock() = None;
    RECORDS.lock().clear();
    forgetting::everything();
}

/// Counts work that is done for each item of the program's data, and not for each instruction: keys compared, values
/// walked over. Tests check how the count grows with the data.
#[inline]
pub fn work(items: usize) {
    WORK.fetch_add(items as u64, Ordering::Relaxed);
}

/// Number of such work items so far.
pub fn work_done() -> u64 {
    WORK.load(Ordering::Relaxed)
}

/// Switches recording for `explain` on or off. Returns whether it was on.
pub fn record_translations(on: bool) -> bool {
    RECORDING.swap(on, Ordering::Relaxed)
}

/// True if translations are recorded for `explain`.
pub fn is_recording() -> bool {
    RECORDING.load(Ordering::Relaxed)
}

/// Keeps a record.
pub fn record(record: Record) {
    RECORDS.lock().push(record);
}

/// Takes the records kept so far.
pub fn take_records() -> Vec<Record> {
    std::mem::take(&mut *RECORDS.lock())
}
