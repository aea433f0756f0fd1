//! Logs. `SOT_LOG_LEVEL` writes them to standard error as they come: 0 nothing, 1 breaks and fallbacks, 2 graphs and
//! guards, 3 code and every simulated instruction. Python's loggers get theirs when a translation is done, as their
//! handlers are the program's own code: `sot.graphs` and so on, or those below the name of another backend's package.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU8, Ordering};

use pyo3::prelude::*;

use crate::cpython;
use crate::package;

/// Breaks and fallbacks.
pub const BREAKS: u8 = 1;
/// Graphs, guards, cache hits and misses.
pub const GRAPHS: u8 = 2;
/// Code and each simulated instruction.
pub const TRACE: u8 = 3;

/// What a message is about.
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
    /// Code, old and new.
    Code,
}

impl Channel {
    const ALL: [Channel; 5] = [Channel::Graphs, Channel::Breaks, Channel::Recompiles, Channel::Guards, Channel::Code];

    /// The name of the logger, below that of the package.
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

    /// The level from which on its messages are written to standard error.
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

/// The environment was not asked yet.
const UNKNOWN: u8 = u8::MAX;

static LEVEL: AtomicU8 = AtomicU8::new(UNKNOWN);

thread_local! {
    static PENDING: RefCell<Pending> = const { RefCell::new(Pending { wanted: 0, messages: Vec::new() }) };
}

/// The messages of this thread's translation to Python's loggers.
struct Pending {
    /// The channels whose loggers take messages.
    wanted: u8,
    messages: Vec<(Channel, String)>,
}

/// The level a text names; nothing names 0.
fn level(text: &str) -> Option<u8> {
    match text.trim() {
        "" => Some(0),
        text => text.parse().ok(),
    }
}

fn level_in_environment() -> u8 {
    let text = std::env::var("SOT_LOG_LEVEL").unwrap_or_default();
    let found = level(&text).unwrap_or_else(|| {
        eprintln!("{}: SOT_LOG_LEVEL={text:?} is no number from 0 to {TRACE}; nothing is logged", package::name());
        0
    });
    found.min(TRACE)
}

/// Asks for `SOT_LOG_LEVEL` anew at the next message.
pub fn ask_again() {
    LEVEL.store(UNKNOWN, Ordering::Relaxed);
}

/// Whether messages of a level are written.
pub fn enabled(level: u8) -> bool {
    let mut now = LEVEL.load(Ordering::Relaxed);
    if now == UNKNOWN {
        now = level_in_environment();
        LEVEL.store(now, Ordering::Relaxed);
    }
    now >= level
}

/// Writes a message if its level is enabled.
pub fn write(level: u8, message: &str) {
    if enabled(level) {
        eprintln!("{message}");
    }
}

/// Whether the channel's logger takes messages of this translation.
pub fn is_heard(channel: Channel) -> bool {
    PENDING.with(|pending| pending.borrow().wanted & channel.bit() != 0)
}

/// Whether anybody wants messages of a channel.
pub fn wants(channel: Channel) -> bool {
    enabled(channel.level()) || is_heard(channel)
}

/// Writes a message, by the level, and keeps it for the channel's logger.
pub fn say(channel: Channel, message: &str) {
    write(channel.level(), message);
    send(channel, || message.to_owned());
}

/// Keeps a message for the channel's logger alone.
pub fn send(channel: Channel, message: impl FnOnce() -> String) {
    if is_heard(channel) {
        let message = message();
        PENDING.with(|pending| pending.borrow_mut().messages.push((channel, message)));
    }
}

/// Asks which loggers take messages, before a translation. What waits to be raised is for the program's frame.
pub fn ask_loggers(py: Python<'_>) {
    let _quiet = cpython::suspend(py);
    let (_signals, _exceptions) = (cpython::defer_signals(py), cpython::hold_exceptions(py));
    let wanted = Channel::ALL.into_iter().filter(|channel| takes_messages(py, *channel).unwrap_or(false));
    let wanted = wanted.fold(0, |bits, channel| bits | channel.bit());
    PENDING.with(|pending| pending.borrow_mut().wanted = wanted);
}

fn logger<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    cpython::import(py, "logging")?.call_method1("getLogger", (name,))
}

/// Whether somebody asked for the messages: the level of the root logger is about the program's own.
fn takes_messages(py: Python<'_>, channel: Channel) -> PyResult<bool> {
    let own = logger(py, &channel.logger())?;
    for asked in [&own, &logger(py, package::name())?] {
        let level: i64 = asked.getattr("level")?.extract()?;
        if level != 0 {
            return Ok(level <= INFO && own.call_method1("isEnabledFor", (INFO,))?.is_truthy()?);
        }
    }
    Ok(false)
}

/// Gives the loggers what was kept for them. Handlers run code of the program's: no lock may be held, and what they
/// raise is reported, and breaks nothing.
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
        assert_eq!([level(""), level(" 2 "), level("5")], [Some(0), Some(2), Some(5)]);
        assert_eq!([level("debug"), level("-1"), level("1.5")], [None; 3]);
    }

    #[test]
    fn nobody_listens_at_first() {
        send(Channel::Graphs, || unreachable!("no logger takes it"));
        assert!(!is_heard(Channel::Graphs));
    }
}
