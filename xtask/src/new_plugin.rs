//! `cargo xtask new-plugin NAME`: writes the crate of a plug-in with a kind of variable, a builtin, an observed
//! opcode, their tests and a CI file. The crate is a workspace of its own, and its tests pass as generated. With
//! `--empty`, it registers nothing.

use std::fs;
use std::path::{Path, PathBuf};

use crate::options::Options;
use crate::{workspace, Failure};

macro_rules! files {
    ($($path:literal from $source:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../template/", $source)))),*]
    };
}

/// The files of the crate: path and text.
const FILES: &[(&str, &str)] = files![
    "Cargo.toml" from "Cargo.toml.in",
    "build.rs" from "build.rs.in",
    "README.md" from "README.md.in",
    ".gitignore" from "gitignore.in",
    ".github/workflows/test.yml" from "ci.yml.in",
    "src/lib.rs" from "src/lib.rs.in",
    "src/arrays.rs" from "src/arrays.rs.in",
    "src/concat.rs" from "src/concat.rs.in",
    "src/returns.rs" from "src/returns.rs.in",
    "tests/plugin.rs" from "tests/plugin.rs.in",
    "tests/opcodes.rs" from "tests/opcodes.rs.in",
];

/// The files of an empty plug-in, and the text of its library.
const EMPTY: [&str; 4] = ["Cargo.toml", "build.rs", ".gitignore", ".github/workflows/test.yml"];
const EMPTY_LIBRARY: (&str, &str) = ("src/lib.rs", "//! A plug-in of sot.\n");
/// Names that the crate cannot have, with `_` for `-`: crates that it uses, and Rust's keywords.
const TAKEN: &str = "sot_core sot_variables sot_opcodes_py38 sot_opcodes_py312 sot_python sot_harness sot_paddle pyo3 \
    pyo3_build_config inventory linkme std core alloc proc_macro test \
    abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen if impl \
    in let loop macro match mod move mut override priv pub ref return self static struct super trait true try type typeof \
    unsafe unsized use virtual where while yield";
/// Start of the part of the manifest that refers to files which an empty plug-in lacks.
const MANIFEST_OF_FILES: &str = "\n# Each opcode is a test of its own.\n";

/// Writes the crate.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let name = options.plugin_name.as_deref().ok_or("new-plugin needs a name")?;
    check_name(name)?;
    let dir = options.path.clone().unwrap_or_else(|| PathBuf::from(name));
    let dir = std::path::absolute(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    if dir.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(format!("{} is there already, and not empty", dir.display()));
    }
    let files = if options.empty { empty() } else { FILES.to_vec() };
    for (path, text) in &files {
        write(&dir.join(path), &filled_in(text, name, &dir))?;
    }
    println!("In {}:\n{}", dir.display(), files.iter().map(|(path, _)| *path).collect::<Vec<_>>().join("\n"));
    println!("Try it: cd {} && cargo test", dir.display());
    Ok(())
}

/// Returns the files of an empty plug-in.
fn empty() -> Vec<(&'static str, &'static str)> {
    let whole = FILES.iter().filter(|(path, _)| EMPTY.contains(path));
    let files = whole.map(|&(path, text)| (path, text.split(MANIFEST_OF_FILES).next().unwrap_or(text)));
    files.chain([EMPTY_LIBRARY]).collect()
}

/// Checks that cargo accepts the name.
fn check_name(name: &str) -> Result<(), Failure> {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic());
    if !begins || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        return Err(format!("{name:?} is no name of a crate: letters, digits, - and _, a letter first"));
    }
    if TAKEN.split_whitespace().any(|taken| taken == name.replace('-', "_")) {
        return Err(format!(
            "{name:?} is the name of a crate that the plug-in uses, or a word of Rust: choose another"
        ));
    }
    Ok(())
}

fn filled_in(text: &str, name: &str, dir: &Path) -> String {
    text.replace("{{name}}", name)
        .replace("{{crate}}", &name.replace('-', "_"))
        .replace("{{sot}}", &workspace::root().display().to_string())
        .replace("{{here}}", &dir.display().to_string())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    fs::write(path, text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_crates() {
        for name in ["my-plugin", "a", "sot_maps2"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "2fast", "a b", "../x", "-a", "sot-core", "pyo3", "std", "match"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn an_empty_one_has_no_test_of_opcodes() {
        let files = empty();
        assert_eq!(files.len(), EMPTY.len() + 1);
        assert!(files.iter().all(|(_, text)| !text.contains("harness = false")));
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        for (path, text) in FILES {
            let text = filled_in(text, "my-plugin", Path::new("/tmp/my-plugin"));
            let left = text.replace("${{ ", "").contains("{{");
            assert!(!left, "{path}");
        }
    }
}
