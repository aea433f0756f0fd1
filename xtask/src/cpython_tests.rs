//! `cargo xtask cpython-tests`: runs the interpreters' own tests untranslated and translated, and writes the page
//! with the results. Each column is one run: outcomes of earlier runs are kept in `target/cpython-tests`, a file for
//! each Python.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{openly, quietly};
use crate::options::Options;
use crate::python::{self, Interpreter, Minor};
use crate::{workspace, Failure};

/// Runs the tests on each interpreter. A run of all files also writes the page. Fails, after all interpreters have
/// run, if tests that pass untranslated do not pass translated.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = python::find(&options.pythons)?;
    let outcomes = workspace::target().join("cpython-tests");
    fs::create_dir_all(&outcomes).map_err(|error| format!("{}: {error}", outcomes.display()))?;
    let mut differ = Vec::new();
    for python in &found.interpreters {
        println!("\n== CPython {} ==", python.version);
        match &python.library_dir {
            Some(library) => {
                if !run_one(python, library, &outcomes, &options.passed_on)? {
                    differ.push(python.minor.to_string());
                }
            }
            None => println!("left out: this Python has no shared library, so no test can embed it"),
        }
    }
    match found.interpreters.last() {
        Some(newest) if options.passed_on.is_empty() => write_page(newest, &outcomes)?,
        _ => {}
    }
    if differ.is_empty() {
        return Ok(());
    }
    Err(format!("tests that pass untranslated do not pass translated on {}: they are listed above", differ.join(", ")))
}

/// Runs the tests on an interpreter. True if all tests that pass untranslated also pass translated.
fn run_one(python: &Interpreter, library: &Path, outcomes: &Path, files: &[String]) -> Result<bool, Failure> {
    let minor = python.minor;
    let mut tests = with_runner(python, library, "tests/cpython_suite/run.py")?;
    tests.args(files);
    if files.is_empty() {
        let outcomes = outcome(outcomes, minor);
        // Files whose outcomes it has would not be run again.
        let _ = fs::remove_file(&outcomes);
        tests.arg("--json").arg(outcomes);
    }
    Ok(openly(&format!("{minor} tests"), &mut tests)?.status.success())
}

/// Returns a command for a script, with the path of the runner of translated programs, which is built first.
pub(crate) fn with_runner(python: &Interpreter, library: &Path, script: &str) -> Result<Command, Failure> {
    let minor = python.minor;
    let target = workspace::target().join(format!("py{minor}"));
    let mut build = Command::new(workspace::cargo());
    build
        .current_dir(workspace::root())
        .args(["build", "--profile", "suites", "-p", "sot-tests", "--bin", "translated_python"])
        .env("CARGO_TARGET_DIR", &target)
        .env("PYO3_PYTHON", &python.executable);
    quietly(&format!("{minor} test runner"), &mut build)?;
    let mut tests = Command::new(&python.executable);
    tests
        .current_dir(workspace::root())
        .arg(script)
        .arg("--runner")
        .arg(target.join("suites/translated_python"))
        .env("LD_LIBRARY_PATH", library)
        .env("PYTHONHOME", &python.home);
    Ok(tests)
}

fn outcome(outcomes: &Path, minor: Minor) -> PathBuf {
    outcomes.join(format!("{minor}.json"))
}

/// Writes the page from the latest outcomes of each Python.
fn write_page(python: &Interpreter, outcomes: &Path) -> Result<(), Failure> {
    let mut table = Command::new(&python.executable);
    table.current_dir(workspace::root()).arg("tests/cpython_suite/table.py");
    for minor in Minor::supported() {
        let path = outcome(outcomes, minor);
        if path.is_file() {
            table.arg(format!("{minor}={}", path.display()));
        }
    }
    quietly("docs/cpython-tests.md", &mut table).map(drop)
}
