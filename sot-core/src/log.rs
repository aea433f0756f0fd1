//! Logs, to standard error, by the level in `SOT_LOG_LEVEL`: 0 nothing, 1 breaks and fallbacks, 2 graphs and guards, 3 code
//! and every simulated instruction.

use once_cell::sync::Lazy;

/// Breaks and fallbacks.
pub const BREAKS: u8 = 1;
/// Graphs, guards, cache hits and misses.
pub const GRAPHS: u8 = 2;
/// Code and each simulated instruction.
pub const TRACE: u8 = 3;

static LEVEL: Lazy<u8> = Lazy::new(|| {
    let Ok(text) = std::env::var("SOT_LOG_LEVEL") else { return 0 };
    level(&text).unwrap_or_else(|| {
        eprintln!("sot: SOT_LOG_LEVEL={text:?} is no number from 0 to {TRACE}; nothing is logged");
        0
    })
});

/// The level a text names; nothing names 0.
fn level(text: &str) -> Option<u8> {
    match text.trim() {
        "" => Some(0),
        text => text.parse().ok(),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_numbers() {
        assert_eq!([level(""), level(" 2 "), level("5")], [Some(0), Some(2), Some(5)]);
        assert_eq!([level("debug"), level("-1"), level("1.5")], [None; 3]);
    }
}
