//! Logs, to standard error, by the level in `SOT_LOG_LEVEL`: 0 nothing, 1 breaks and fallbacks, 2 graphs and guards, 3 code
//! and every simulated instruction.

use once_cell::sync::Lazy;

/// Breaks and fallbacks.
pub const BREAKS: u8 = 1;
/// Graphs, guards, cache hits and misses.
pub const GRAPHS: u8 = 2;
/// Code and each simulated instruction.
pub const TRACE: u8 = 3;

static LEVEL: Lazy<u8> =
    Lazy::new(|| std::env::var("SOT_LOG_LEVEL").ok().and_then(|level| level.parse().ok()).unwrap_or(0));

/// Whether messages of a level are written.
pub fn enabled(level: u8) -> bool {
    *LEVEL >= level
}

/// Writes a message if its level is enabled.
pub fn write(level: u8, message: &str) {
    if enabled(level) {
        eprintln!("{message}");
    }
}
