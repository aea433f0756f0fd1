//! Checks of names for `cargo xtask lint`: crates that know no framework must not use a framework's words, and a
//! crate must not declare two types of the same name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{workspace, Failure};

/// Folders whose code must work with any framework.
const NEUTRAL: [&str; 6] =
    ["sot-core/src", "sot-variables/src", "sot-python/src", "sot-python/python", "sot-harness/src", "tests/src"];

/// Words of a framework in lower case, each with advice.
const FRAMEWORK_WORDS: [(&str, &str); 5] = [
    ("stop_gradient", "the backend names it: `GradientFlow`"),
    ("paddle", "it belongs into `sot-paddle`"),
    ("layer", "an object of the framework; of software: a level"),
    ("detach", "the backend names it: `WrittenAttribute`"),
    ("sot.psdb", "the backend registers it"),
];

/// Looks for a framework's words in code, comments and strings of the neutral crates.
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

/// Crates in which the names of top-level types must be unique.
const CRATES: [&str; 7] =
    ["sot-core", "sot-variables", "sot-opcodes-py38", "sot-opcodes-py312", "sot-python", "sot-paddle", "xtask"];

/// Files for the versions of CPython, only one of which is compiled, so they declare the same types.
const BY_VERSION: &str = "sot-core/src/cpython/layout";

/// Looks for structs, enums and traits with the same name in a crate.
pub(crate) fn check_type_names() -> Result<(), Failure> {
    println!("[type names] …");
    let root = workspace::root();
    let mut twice = Vec::new();
    for name in CRATES {
        let mut files = Vec::new();
        source_files(&root.join(name).join("src"), &mut files);
        files.retain(|file| !file.starts_with(root.join(BY_VERSION)));
        let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for file in &files {
            let shown = file.strip_prefix(root).unwrap_or(file).display().to_string();
            let text = fs::read_to_string(file).unwrap_or_default();
            let declared = text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, declared_type(line)?)));
            for (line, declared) in declared {
                places.entry(declared.to_owned()).or_default().push(format!("{shown}:{line}"));
            }
        }
        let several = places.into_iter().filter(|(_, places)| places.len() > 1);
        twice.extend(several.map(|(name, places)| format!("{name}: {}", places.join(", "))));
    }
    if twice.is_empty() {
        println!("[type names] each once in its crate");
        return Ok(());
    }
    Err(format!("a crate declares these names of types twice\n{}", twice.join("\n")))
}

/// Looks for comparisons of kind names. These names are for people; code must use `Variable::form`.
pub(crate) fn check_kind_names() -> Result<(), Failure> {
    println!("[names of kinds] …");
    let root = workspace::root();
    let mut files = Vec::new();
    for name in CRATES.iter().filter(|name| **name != "xtask") {
        source_files(&root.join(name).join("src"), &mut files);
    }
    let mut found = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).unwrap_or_default();
        let shown = file.strip_prefix(root).unwrap_or(file).display();
        let decides = text.lines().enumerate().filter(|(_, line)| decides_by_kind(line));
        found.extend(decides.map(|(at, line)| format!("{shown}:{}: {}", at + 1, line.trim())));
    }
    if found.is_empty() {
        println!("[names of kinds] decide nothing");
        return Ok(());
    }
    Err(format!("these compare the name of a kind; ask the variable, or for its `form()`\n{}", found.join("\n")))
}

/// True if a line compares the result of `kind()` of a variable.
fn decides_by_kind(line: &str) -> bool {
    let rest = |(at, asked): (usize, &str)| line[at + asked.len()..].trim_start();
    line.match_indices(".kind()").map(rest).any(|rest| {
        let compared = rest.strip_prefix("==").or_else(|| rest.strip_prefix("!=")).or_else(|| rest.strip_prefix(','));
        compared.is_some_and(|other| other.trim_start().starts_with('"'))
    }) || line.contains("contains(&") && line.contains(".kind())")
}

/// Returns the name of the struct, enum or trait that a line declares at the top level of a file.
fn declared_type(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => line,
    };
    let name = ["struct ", "enum ", "trait "].into_iter().find_map(|keyword| line.strip_prefix(keyword))?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// Collects Rust and Python source files below `dir`.
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
    fn types_are_found_by_their_declaration() {
        for line in
            ["struct Name {", "pub enum Name<'a> {", "pub(crate) trait Name: Send {", "pub(super) struct Name(u32);"]
        {
            assert_eq!(declared_type(line), Some("Name"), "{line}");
        }
        for line in ["    struct Local;", "// struct Name", "type Name = u32;", "structure", "pub fn name()"] {
            assert_eq!(declared_type(line), None, "{line}");
        }
    }

    #[test]
    fn a_kind_that_decides_is_found() {
        for line in [
            "if payload.kind() == \"tensor\" {",
            "cx.see(x)?.kind() != \"list\"",
            "matches!(payload.kind(), \"list\" | \"tuple\")",
            "KINDS.contains(&payload.kind())",
        ] {
            assert!(decides_by_kind(line), "{line}");
        }
        for line in ["fn kind(&self) -> &'static str {", "format!(\"{}\", payload.kind())", "self.id.kind().name()"] {
            assert!(!decides_by_kind(line), "{line}");
        }
    }

    #[test]
    fn the_python_interface_of_all_backends_is_searched() {
        let mut files = Vec::new();
        for folder in NEUTRAL {
            source_files(&workspace::root().join(folder), &mut files);
        }
        assert!(files.iter().any(|file| file.ends_with("sot-python/python/register.py")));
    }

    #[test]
    fn a_word_is_found_in_code_comments_and_texts() {
        for line in ["meta.stop_gradient", "// as Paddle does", "enum K { Layer }", "\"detach\"", "\"sot.psdb:print\""]
        {
            assert!(framework_word(line).is_some(), "{line}");
        }
        assert!(framework_word("let gradient = meta.gradient.flows; // psdb.print()").is_none());
    }
}
