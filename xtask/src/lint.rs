//! `cargo xtask lint`: formatting, clippy and rustdoc with warnings as errors, the rule that only one module contains
//! `unsafe`, rules about structure (`structure`) and names (`words`), and type checks of the Python package (`types`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::quietly;
use crate::options::Options;
use crate::python::{self, Interpreter};
use crate::{structure, types, words, workspace, Failure};

/// The only folder whose code may be `unsafe`, relative to the root.
const UNSAFE_HOME: &str = "sot-core/src/cpython";

/// Other files that may contain the keyword: the test of the frame hook, which installs a foreign hook, and this check.
const UNSAFE_ALSO: [&str; 2] = ["sot-core/tests/frame_hook.rs", "xtask/src/lint.rs"];

/// Runs every check and reports all that failed.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = python::find(&options.pythons)?;
    let newest = found.interpreters.len() - 1;
    let first = if options.pythons.is_empty() { newest } else { 0 };
    let mut results = vec![
        quietly("formatting", cargo().args(["fmt", "--all", "--check"])).map(drop),
        quietly("tests of xtask", cargo().args(["test", "--package", "xtask"])).map(drop),
        check_unsafe(),
        structure::check_modules(),
        structure::check_opcode_names(&rust_files()),
        structure::check_unit_tests(&rust_files()),
        structure::check_widths(),
        words::check_framework_words(),
        words::check_type_names(),
        words::check_kind_names(),
    ];
    results.extend(found.interpreters[first..].iter().map(clippy));
    results.push(types::check(&found.interpreters[newest]));
    results.push(documentation(&found.interpreters[newest]));
    let failures: Vec<Failure> = results.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() {
        println!("All clean.");
        return Ok(());
    }
    Err(failures.join("\n\n"))
}

fn cargo() -> Command {
    let mut cargo = Command::new(workspace::cargo());
    cargo.current_dir(workspace::root());
    cargo
}

/// Runs clippy for one interpreter, because it checks only the code of this interpreter's `cfg(Py_3_x)`.
fn clippy(python: &Interpreter) -> Result<(), Failure> {
    let mut clippy = cargo_for(python);
    clippy.args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    quietly(&format!("{} clippy", python.minor), &mut clippy).map(drop)
}

/// Runs rustdoc. Warnings, such as broken links, are errors.
fn documentation(python: &Interpreter) -> Result<(), Failure> {
    let mut doc = cargo_for(python);
    doc.args(["doc", "--workspace", "--no-deps", "--exclude", "xtask"]).env("RUSTDOCFLAGS", "-D warnings");
    quietly("documentation", &mut doc).map(drop)
}

fn cargo_for(python: &Interpreter) -> Command {
    let mut cargo = cargo();
    cargo
        .env("CARGO_TARGET_DIR", workspace::target().join(format!("py{}", python.minor)))
        .env("PYO3_PYTHON", &python.executable);
    cargo
}

fn check_unsafe() -> Result<(), Failure> {
    println!("[unsafe] …");
    let (root, files) = (workspace::root(), rust_files());
    let homes: Vec<_> = UNSAFE_ALSO.iter().chain([&UNSAFE_HOME]).map(|home| root.join(home)).collect();
    let outside = files.iter().filter(|file| !homes.iter().any(|home| file.starts_with(home)));
    let found: Vec<String> = outside.flat_map(|file| unsafe_lines(root, file)).collect();
    if found.is_empty() {
        println!("[unsafe] only in {UNSAFE_HOME}");
        return Ok(());
    }
    Err(format!("`unsafe` may stand only in {UNSAFE_HOME}, and was found in\n{}", found.join("\n")))
}

/// Returns the Rust source files of the checkout.
fn rust_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    collect_rust_files(workspace::root(), &mut files);
    files
}

/// Collects Rust source files below `dir`, without build output and hidden directories.
pub(crate) fn collect_rust_files(dir: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = dir.read_dir() else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                collect_rust_files(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn unsafe_lines(root: &Path, file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let shown = file.strip_prefix(root).unwrap_or(file).display();
    let numbered = text.lines().enumerate().filter(|(_, line)| has_unsafe(line));
    numbered.map(|(index, line)| format!("{shown}:{}: {}", index + 1, line.trim())).collect()
}

/// True if a line opens unsafe code: it has the keyword as a word, outside a line comment, followed by `{`, `fn` or
/// another token that makes it code.
fn has_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.match_indices("unsafe").any(|(at, word)| {
        let before = code[..at].chars().next_back();
        let after = &code[at + word.len()..];
        let is_word = !before.is_some_and(is_word_char) && !after.starts_with(is_word_char);
        is_word && opens_code(after.trim_start())
    })
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn opens_code(after: &str) -> bool {
    let forms = ["{", "(", "fn ", "impl ", "impl<", "trait ", "extern "];
    after.is_empty() || forms.iter().any(|form| after.starts_with(form))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keyword_is_told_from_the_word() {
        for code in ["unsafe {", "let x = unsafe { f() };", "pub unsafe fn f()", "unsafe impl Send for X {}", "unsafe"]
        {
            assert!(has_unsafe(code), "{code}");
        }
        for text in
            ["// unsafe { f() }", "#![allow(unsafe_code)]", "let s = \"unsafe\";", "/// unsafe fn", "is_unsafe("]
        {
            assert!(!has_unsafe(text), "{text}");
        }
    }
}
