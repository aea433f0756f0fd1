//! Environment variables that switch something on or off. They are asked each time, as tests switch them.

/// What a variable says, if it is set.
pub(crate) fn is_on(name: &str) -> Option<bool> {
    let words = ["1", "true", "yes", "on", "t", "y"];
    let said = std::env::var(name).ok()?;
    let said = said.trim();
    if said.is_empty() {
        return None;
    }
    Some(words.iter().any(|word| said.eq_ignore_ascii_case(word)))
}
