//! The how-tos of `docs`: each leads its reader from an empty folder to a passing test. A code block is either a file
//! that the reader writes, or an excerpt of a file of the checkout; the line above it names the file. The files are
//! written and the commands run by `cargo xtask plugins`, outside of the checkout. A test here compares the excerpts.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::quietly;
use crate::venv::Venv;
use crate::{workspace, Failure};

/// The pages that are tested.
pub(crate) const PAGES: [&str; 4] = ["add-a-builtin", "add-a-variable-kind", "add-an-opcode", "add-a-backend"];

/// A step that a page tells its reader to do.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Write a file in the reader's folder.
    Write { path: String, text: String },
    /// Append to a file.
    Append { path: String, text: String },
    /// Run commands.
    Run(String),
    /// Lines of a file of the checkout, which must match.
    Excerpt { path: String, text: String },
}

/// Carries out the steps of a page in an empty folder outside of the checkout.
pub(crate) fn follow(venv: &Venv, page: &str) -> Result<(), Failure> {
    let minor = venv.base.minor;
    let home = std::env::temp_dir().join(format!("sot-{page}-{minor}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&home);
    // The pages share a target folder. Cargo reads the setting from the page's folder, and not from the checkout.
    let target = workspace::target().join(format!("how-tos/py{minor}"));
    let setting = format!("[build]\ntarget-dir = {:?}\n", target.display().to_string());
    let script = script(&steps(page)?);
    let written = fs::create_dir_all(home.join(".cargo"))
        .and_then(|()| fs::write(home.join(".cargo/config.toml"), setting))
        .and_then(|()| fs::write(home.join("steps.sh"), script));
    written.map_err(|error| format!("{}: {error}", home.display()))?;
    let mut bash = Command::new("bash");
    bash.arg("steps.sh").current_dir(&home).env("SOT", workspace::root()).env_remove("CARGO_TARGET_DIR");
    venv.activate(&mut bash);
    let done = quietly(&format!("{minor} docs/{page}.md"), &mut bash);
    let _ = fs::remove_dir_all(&home);
    done.map(drop)
}

/// Returns the steps as a shell script.
fn script(steps: &[Step]) -> String {
    let mut script = "set -e\n".to_owned();
    for step in steps {
        match step {
            Step::Write { path, text } => here_document(&mut script, path, ">", text),
            Step::Append { path, text } => here_document(&mut script, path, ">>", text),
            Step::Run(commands) => script.push_str(commands),
            Step::Excerpt { .. } => {}
        }
    }
    script
}

fn here_document(script: &mut String, path: &str, to: &str, text: &str) {
    let folder = Path::new(path).parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).display();
    writeln!(script, "mkdir -p {folder} && cat {to} {path} <<'END-OF-FILE'\n{text}END-OF-FILE")
        .expect("a string takes any text");
}

fn steps(page: &str) -> Result<Vec<Step>, Failure> {
    let path = workspace::root().join("docs").join(format!("{page}.md"));
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    steps_of(&text).map_err(|failure| format!("docs/{page}.md: {failure}"))
}

/// Parses the fenced blocks of a page.
fn steps_of(page: &str) -> Result<Vec<Step>, Failure> {
    let mut steps = Vec::new();
    let (mut above, mut lines) = ("", page.lines());
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            above = if line.trim().is_empty() { above } else { line };
            continue;
        };
        let block = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n"));
        let text: String = block.collect();
        steps.push(if language == "console" { Step::Run(commands(&text)) } else { file(above, text)? });
        above = "";
    }
    Ok(steps)
}

/// Returns the commands behind the prompts, a line each.
fn commands(text: &str) -> String {
    text.split_inclusive('\n').filter_map(|line| line.strip_prefix("$ ")).collect()
}

/// Makes a step from a code block and the file named by the line above it.
fn file(above: &str, text: String) -> Result<Step, Failure> {
    let last = above.strip_suffix(':').and_then(|above| above.rsplit('`').nth(1));
    let path = last.filter(|path| path.contains('.')).map(str::to_owned);
    let path = path.ok_or_else(|| format!("the line above this code names no file:\n{text}"))?;
    if workspace::root().join(&path).is_file() && path.starts_with("sot-") {
        return Ok(Step::Excerpt { path, text });
    }
    Ok(if above.ends_with("at its end:") { Step::Append { path, text } } else { Step::Write { path, text } })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page whose code is excerpts of the checkout only.
    const OF_CHECKOUT: &str = "add-a-python-version";

    fn has_excerpt(step: &Step) -> bool {
        let Step::Excerpt { path, text } = step else { return true };
        let whole = fs::read_to_string(workspace::root().join(path)).expect("a file of the checkout");
        let trimmed = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
        trimmed(&whole).contains(&trimmed(text))
    }

    #[test]
    fn excerpts_are_of_the_checkout() {
        for page in PAGES.iter().chain([&OF_CHECKOUT]) {
            let steps = steps(page).unwrap_or_else(|failure| panic!("{failure}"));
            assert!(!steps.is_empty(), "{page}");
            for step in &steps {
                assert!(has_excerpt(step), "docs/{page}.md: the file has no such lines: {step:?}");
                let is_of_checkout = matches!(step, Step::Excerpt { .. });
                assert!(*page != OF_CHECKOUT || is_of_checkout, "docs/{page}.md: code of no file: {step:?}");
            }
        }
    }

    #[test]
    fn a_page_is_files_and_commands() {
        let page = "\
# Title

```console
$ mkdir a && cd a
output
```

The library, `src/lib.rs`:

```rust
//! Text.
```

`Cargo.toml`, at its end:

```toml
[x]
```

`sot-core/src/lib.rs`:

```rust
pub mod backend;
```
";
        let steps = steps_of(page).expect("valid");
        let texts = ["//! Text.\n", "[x]\n", "pub mod backend;\n"].map(str::to_owned);
        let [library, manifest, excerpt] = texts;
        assert_eq!(
            steps,
            [
                Step::Run("mkdir a && cd a\n".to_owned()),
                Step::Write { path: "src/lib.rs".to_owned(), text: library },
                Step::Append { path: "Cargo.toml".to_owned(), text: manifest },
                Step::Excerpt { path: "sot-core/src/lib.rs".to_owned(), text: excerpt },
            ]
        );
        assert!(script(&steps).contains("cat >> Cargo.toml <<'END-OF-FILE'\n[x]\nEND-OF-FILE\n"));
        assert!(has_excerpt(&steps[3]));
    }

    #[test]
    fn code_of_no_file_is_refused() {
        assert!(steps_of("Like this:\n\n```rust\nfn f() {}\n```\n").is_err_and(|why| why.contains("names no file")));
        let other = Step::Excerpt { path: "sot-core/src/lib.rs".to_owned(), text: "no such line\n".to_owned() };
        assert!(!has_excerpt(&other));
    }
}
