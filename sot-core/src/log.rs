//! Logs. `SOT_LOG_LEVEL` selects what is written to standard error as it happens: 0 nothing, 1 breaks and fallbacks,
//! 2 graphs and guards, 3 code and every simulated instruction. Python's loggers (`sot.graphs` and so on, or loggers
//! below the name of another backend's package) get their messages when a translation is done, because their handlers
//! are the program's code.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU8, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::cpython;
use crate::package;

/// Breaks and fallbacks.
pub const BREAKS: u8 = 1;
/// Graphs, guards, cache hits and misses.
pub const GRAPHS: u8 = 2;
/// Code and each simulated instruction.
pub const TRACE: u8 = 3;

/// Subject of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Channel {
    /// Graphs.
    Graphs,
    /// Breaks and fallbacks.
    Breaks,
    /// Why a function is translated again.
    Recompiles,
    /// Guards.
    Guards,
    /// The original and the new code.
    Code,
}

impl Channel {
    const ALL: [Channel; 5] = [Channel::Graphs, Channel::Breaks, Channel::Recompiles, Channel::Guards, Channel::Code];

    /// Name of the channel's logger below the package's logger.
    fn word(self) -> &'static str {
        match self {
            Channel::Graphs => "graphs",
            Channel::Breaks => "breaks",
            Channel::Recompiles => "recompiles",
            Channel::Guards => "guards",
            Channel::Code => "code",
        }
    }

    fn logger(self) -> String {
        format!("{}.{}", package::name(), self.word())
    }

    /// Lowest level at which messages of the channel are written to standard error.
    fn level(self) -> u8 {
        match self {
            Channel::Breaks => BREAKS,
            Channel::Graphs | Channel::Guards | Channel::Recompiles => GRAPHS,
            Channel::Code => TRACE,
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Python's `logging.INFO`.
const INFO: i64 = 20;

/// Value of `LEVEL` before `SOT_LOG_LEVEL` has been read.
const UNKNOWN: u8 = u8::MAX;

static LEVEL: AtomicU8 = AtomicU8::new(UNKNOWN);

thread_local! {
    static PENDING: RefCell<Pending> = const { RefCell::new(Pending { wanted: 0, messages: Vec::new() }) };
}

/// This thread's messages of the present translation, to be sent to Python's loggers.
struct Pending {
    /// The channels whose loggers take messages.
    wanted: u8,
    messages: Vec<(Channel, String)>,
}

/// Parses a level; a text that is no number is 0. The Python interface warns of such a text.
fn level(text: &str) -> u8 {
    text.trim().parse::<u64>().map_or(0, |level| u8::try_from(level).unwrap_or(TRACE).min(TRACE))
}

fn level_in_environment() -> u8 {
    level(&std::env::var("SOT_LOG_LEVEL").unwrap_or_default())
}

/// Reads `SOT_LOG_LEVEL` again at the next message.
pub fn ask_again() {
    LEVEL.store(UNKNOWN, Ordering::Relaxed);
}

/// True if messages of this level are written to standard error.
pub fn enabled(level: u8) -> bool {
    let mut now = LEVEL.load(Ordering::Relaxed);
    if now == UNKNOWN {
        now = level_in_environment();
        LEVEL.store(now, Ordering::Relaxed);
    }
    now >= level
}

/// Writes a message to standard error if its level is enabled.
pub fn write(level: u8, message: &str) {
    if enabled(level) {
        eprintln!("{message}");
    }
}

/// True if the channel's logger takes messages of this translation.
pub fn has_listener(channel: Channel) -> bool {
    PENDING.with(|pending| pending.borrow().wanted & channel.bit() != 0)
}

/// True if messages of the channel are written to standard error or taken by its logger.
pub fn wants(channel: Channel) -> bool {
    enabled(channel.level()) || has_listener(channel)
}

/// Writes a message if the channel's level is enabled, and keeps it for the channel's logger.
pub fn say(channel: Channel, message: &str) {
    write(channel.level(), message);
    send(channel, || message.to_owned());
}

/// Keeps a message only for the channel's logger.
pub fn send(channel: Channel, message: impl FnOnce() -> String) {
    if has_listener(channel) {
        let message = message();
        PENDING.with(|pending| pending.borrow_mut().messages.push((channel, message)));
    }
}

/// Finds out which loggers take messages; called before a translation. Pending signals and exceptions of other
/// threads are held back, because they belong to the program's frame.
pub fn ask_loggers(py: Python<'_>) {
    let _quiet = cpython::suspend(py);
    let (_signals, _exceptions) = (cpython::defer_signals(py), cpython::hold_exceptions(py));
    let wanted = channels_with_listeners(py).unwrap_or(0);
    PENDING.with(|pending| pending.borrow_mut().wanted = wanted);
}

fn logger<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    cpython::import(py, "logging")?.call_method1("getLogger", (name,))
}

/// Returns the bits of the channels whose loggers take messages.
fn channels_with_listeners(py: Python<'_>) -> PyResult<u8> {
    let manager = cpython::import(py, "logging")?.getattr("root")?.getattr("manager")?;
    let loggers = manager.getattr("loggerDict")?.cast_into::<PyDict>()?;
    let takes = |channel: &Channel| takes_messages(py, &loggers, *channel).unwrap_or(false);
    Ok(Channel::ALL.into_iter().filter(takes).fold(0, |bits, channel| bits | channel.bit()))
}

/// True if the channel's logger, or the package's, has a level that lets the messages through. The level of the root
/// logger does not count: it is meant for the program's own messages.
fn takes_messages(py: Python<'_>, loggers: &Bound<'_, PyDict>, channel: Channel) -> PyResult<bool> {
    for name in [&channel.logger(), package::name()] {
        let level = level_of(loggers, name)?;
        if level != 0 {
            return Ok(
                level <= INFO && logger(py, &channel.logger())?.call_method1("isEnabledFor", (INFO,))?.is_truthy()?
            );
        }
    }
    Ok(false)
}

/// Returns the level of a logger: zero where none is set, and where the program has made no logger of that name.
fn level_of(loggers: &Bound<'_, PyDict>, name: &str) -> PyResult<i64> {
    let Some(logger) = loggers.get_item(name)? else { return Ok(0) };
    logger.getattr_opt("level")?.map_or(Ok(0), |level| level.extract())
}

/// Sends the kept messages to the loggers. Handlers of loggers are the program's code: no lock may be held here, and
/// an exception of theirs is reported and goes no further.
pub fn flush(py: Python<'_>) {
    let messages = PENDING.with(|pending| std::mem::take(&mut pending.borrow_mut().messages));
    if messages.is_empty() {
        return;
    }
    let _quiet = cpython::suspend(py);
    let (_signals, _exceptions) = (cpython::defer_signals(py), cpython::hold_exceptions(py));
    for (channel, message) in messages {
        let told = logger(py, &channel.logger()).and_then(|logger| logger.call_method1("info", (message,)));
        if let Err(error) = told {
            error.write_unraisable(py, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_numbers() {
        assert_eq!([level(""), level(" 2 "), level("5"), level("500")], [0, 2, 3, 3]);
        assert_eq!([level("debug"), level("-1"), level("1.5")], [0; 3]);
    }

    #[test]
    fn nobody_listens_at_first() {
        send(Channel::Graphs, || unreachable!("no logger takes it"));
        assert!(!has_listener(Channel::Graphs));
    }
}
