//! Checks of names for `cargo xtask lint`: crates that know no framework do not say a framework's words.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{workspace, Failure};

/// What must work with any framework.
const NEUTRAL: [&str; 3] = ["sot-core/src", "sot-variables/src", "tests/src"];

/// Words of one framework, in lower case, with what belongs in their place.
const FRAMEWORK_WORDS: [(&str, &str); 5] = [
    ("stop_gradient", "the backend names it: `GradientFlow`"),
    ("paddle", "it belongs into `sot-paddle`"),
    ("layer", "an object of the framework; of software: a level"),
    ("detach", "the backend names it: `WrittenAttribute`"),
    ("sot.psdb", "the backend registers it"),
];

/// Looks for the words of a framework in code, comments and texts of the crates that know none.
pub(crate) fn check_framework_words() -> Result<(), Failure> {
    println!("[framework words] …");
    let root = workspace::root();
    let mut files = Vec::new();
    for folder in NEUTRAL {
        source_files(&root.join(folder), &mut files);
    }
    let found: Vec<String> = files.iter().flat_map(|file| framework_words(root, file)).collect();
    if found.is_empty() {
        println!("[framework words] none in {}", NEUTRAL.join(", "));
        return Ok(());
    }
    Err(format!("these crates know no framework, and say\n{}", found.join("\n")))
}

/// Source files below `dir`, Rust's and Python's.
fn source_files(dir: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = dir.read_dir() else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            source_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
            files.push(path);
        }
    }
    files.sort();
}

fn framework_words(root: &Path, file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let shown = file.strip_prefix(root).unwrap_or(file).display();
    let numbered = text.lines().enumerate();
    let found = numbered.filter_map(|(index, line)| framework_word(line).map(|word| (index + 1, word)));
    found.map(|(line, (word, instead))| format!("{shown}:{line}: `{word}` ({instead})")).collect()
}

fn framework_word(line: &str) -> Option<(&'static str, &'static str)> {
    let line = line.to_lowercase();
    FRAMEWORK_WORDS.into_iter().find(|(word, _)| line.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_in_code_comments_and_texts() {
        for line in ["meta.stop_gradient", "// as Paddle does", "enum K { Layer }", "\"detach\"", "\"sot.psdb:print\""]
        {
            assert!(framework_word(line).is_some(), "{line}");
        }
        assert!(framework_word("let gradient = meta.gradient.flows; // psdb.print()").is_none());
    }
}
