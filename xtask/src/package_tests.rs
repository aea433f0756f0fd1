//! `cargo xtask package-tests`: runs test suites of pure-Python packages untranslated and translated, and writes the
//! page with the results. Outcomes are kept in `target/package-tests`, a file for each Python, beside the packages'
//! sources.

use std::fs;
use std::process::Command;

use crate::command::{openly, quietly};
use crate::cpython_tests::with_runner;
use crate::options::Options;
use crate::python::{self, Minor};
use crate::{workspace, Failure};

/// Runs the suites on each interpreter. A run of all listed suites also writes the page. Fails, after all
/// interpreters have run, if tests that pass untranslated do not pass translated.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = python::find(&options.pythons)?;
    let folder = workspace::target().join("package-tests");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let outcome = |minor: Minor| folder.join(format!("{minor}.json"));
    let mut differ = Vec::new();
    for python in &found.interpreters {
        println!("\n== CPython {} ==", python.version);
        let Some(library) = &python.library_dir else {
            println!("left out: this Python has no shared library, so no test can embed it");
            continue;
        };
        let mut tests = with_runner(python, library, "tests/package_suite/run.py")?;
        tests.arg("--folder").arg(folder.join(python.minor.to_string())).args(&options.passed_on);
        if options.passed_on.is_empty() {
            tests.arg("--json").arg(outcome(python.minor));
        }
        if !openly(&format!("{} packages", python.minor), &mut tests)?.status.success() {
            differ.push(python.minor.to_string());
        }
    }
    if let Some(newest) = found.interpreters.last().filter(|_| options.passed_on.is_empty()) {
        let mut table = Command::new(&newest.executable);
        table.current_dir(workspace::root()).arg("tests/package_suite/table.py");
        for minor in Minor::supported().filter(|minor| outcome(*minor).is_file()) {
            table.arg(format!("{minor}={}", outcome(minor).display()));
        }
        quietly("docs/package-tests.md", &mut table)?;
    }
    if differ.is_empty() {
        return Ok(());
    }
    Err(format!("tests that pass untranslated do not pass translated on {}: they are listed above", differ.join(", ")))
}
