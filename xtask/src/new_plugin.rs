//! `cargo xtask new-plugin NAME`: writes the crate of a plug-in, with a kind of variable, a builtin, an observed opcode, their
//! tests and a CI file. It is a workspace of its own, and passes untouched.

use std::fs;
use std::path::{Path, PathBuf};

use crate::options::Options;
use crate::{workspace, Failure};

macro_rules! files {
    ($($path:literal from $source:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../template/", $source)))),*]
    };
}

/// Each file of the crate by its path.
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

/// Writes the crate.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let name = options.plugin_name.as_deref().ok_or("new-plugin needs a name")?;
    check_name(name)?;
    let dir = options.path.clone().unwrap_or_else(|| PathBuf::from(name));
    let dir = std::path::absolute(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    if dir.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(format!("{} is there already, and not empty", dir.display()));
    }
    for (path, text) in FILES {
        write(&dir.join(path), &filled_in(text, name, &dir))?;
    }
    println!("In {}:\n{}", dir.display(), FILES.iter().map(|(path, _)| *path).collect::<Vec<_>>().join("\n"));
    println!("Try it: cd {} && cargo test", dir.display());
    Ok(())
}

/// What cargo takes for a name.
fn check_name(name: &str) -> Result<(), Failure> {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic());
    if begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        return Ok(());
    }
    Err(format!("{name:?} is no name of a crate: letters, digits, - and _, a letter first"))
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
        for name in ["", "2fast", "a b", "../x", "-a"] {
            assert!(check_name(name).is_err(), "{name}");
        }
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
