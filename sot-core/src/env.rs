//! Environment variables that switch a feature on or off. They are read at each query, because tests change them.

/// True if the variable is set to an affirmative word, such as `on`; `None` if it is unset or empty.
pub(crate) fn is_on(name: &str) -> Option<bool> {
    let words = ["1", "true", "yes", "on", "t", "y"];
    let said = std::env::var(name).ok()?;
    let said = said.trim();
    if said.is_empty() {
        return None;
    }
    Some(words.iter().any(|word| said.eq_ignore_ascii_case(word)))
}
