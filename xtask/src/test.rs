//! `cargo xtask test`: for each interpreter, builds the extension, and runs the Rust tests and the Python tests.

use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::command::{beside, openly, openly_for, Shown, LIMIT};
use crate::install::Build;
use crate::options::{Half, Options};
use crate::python::{self, Interpreter, Minor};
use crate::report::{Cell, Report};
use crate::venv::{self, Venv};
use crate::{docs, Failure};

/// Runs the tests on each interpreter, and prints a table of the results.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    venv::require_c_compiler()?;
    let found = python::find(&options.pythons)?;
    for python in &found.interpreters {
        println!("CPython {}: {}", python.version, python.executable.display());
    }
    if options.clean {
        // The build is used once, so files for incremental builds and debuggers would be wasted, and so would the
        // optimisation across the parts of a crate, which takes a seventh of the time.
        for (name, value) in [("INCREMENTAL", "0"), ("PROFILE_DEV_DEBUG", "0"), ("PROFILE_DEV_LTO", "off")] {
            std::env::set_var(format!("CARGO_{name}"), value);
        }
    }
    let mut report = Report::new(&["build", "Rust tests", "Python tests"]);
    let mut site = Ok(());
    let newest = found.interpreters.last().map(|python| python.minor);
    for (position, python) in found.interpreters.iter().enumerate() {
        let is_newest = newest == Some(python.minor);
        let is_wheel = options.release || is_newest && found.interpreters.len() > 1;
        let build = if is_wheel { Build::Release } else { Build::Development };
        report.add(
            python.version.clone(),
            test_one(python, build, Share::of(position, found.interpreters.len()), options),
        );
        if options.docs && is_newest {
            site = docs::build(python, || Ok(Venv::prepare(python)?.python()));
        }
        if options.clean {
            Venv::remove(python);
        }
    }
    if options.clean {
        Venv::remove_shared_build();
    }
    println!("\n{}", report.text());
    let failed = report.failed_tests();
    if !failed.is_empty() {
        println!("\nFailed tests:\n  {}", failed.join("\n  "));
    }
    conclude(&found.missing, report.failures(), options)?;
    site.map_err(|failure| format!("The site of the documentation cannot be built:\n{failure}"))
}

fn conclude(missing: &[Minor], failures: usize, options: &Options) -> Result<(), Failure> {
    if !missing.is_empty() {
        println!("\nNot found, not tested: CPython {}.", Minor::list(missing.iter().copied()));
    }
    let asked_for_and_missing = !options.pythons.is_empty() && !missing.is_empty();
    match failures {
        0 if asked_for_and_missing => Err("\nNot every interpreter asked for was found.".to_owned()),
        0 => Ok(()),
        1 => Err("\nFailed on one interpreter.".to_owned()),
        n => Err(format!("\nFailed on {n} interpreters.")),
    }
}

/// What one of several interpreters runs. Tests that take long and depend little on the version run in full with the
/// oldest and with the newest; each one in between runs a part of them, so that each test runs with one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    /// The number of its part of the tests marked `divided`, from 1 to [`PARTS`]; none if it runs all of them.
    part: Option<usize>,
    with_unit_tests: bool,
}

/// The number of interpreters between the oldest and the newest.
const PARTS: usize = 4;

impl Share {
    fn of(position: usize, interpreters: usize) -> Share {
        let is_newest = position + 1 == interpreters;
        let is_all = position == 0 || is_newest || interpreters < PARTS + 2;
        Share { part: (!is_all).then(|| (position - 1) % PARTS + 1), with_unit_tests: is_newest }
    }
}

/// Tests one interpreter. Returns the cells of its row: build, Rust tests, Python tests.
fn test_one(python: &Interpreter, kind: Build, share: Share, options: &Options) -> Vec<Cell> {
    println!("\n== CPython {} ==", python.version);
    let not_built = || Cell::Skipped("not built".to_owned());
    let venv = match Venv::prepare(python) {
        Ok(venv) if options.clean => venv.with_shared_build(),
        Ok(venv) => venv,
        Err(failure) => {
            eprintln!("{failure}");
            return vec![Cell::failed_at_once(), not_built(), not_built()];
        }
    };
    if options.only == Some(Half::Rust) {
        return vec![left_out(), rust_cell(&venv, openly, share, &options.passed_on), left_out()];
    }
    let taken = match venv.install_extension(kind) {
        Ok(taken) => taken,
        Err(failure) => {
            eprintln!("{failure}");
            return vec![Cell::failed_at_once(), not_built(), not_built()];
        }
    };
    let built = Cell::Passed { counts: String::new(), taken };
    if options.only == Some(Half::Python) {
        return vec![built, left_out(), python_tests(&venv, share, options)];
    }
    // Both halves run at once, because the Rust tests use only one core most of the time.
    let (rust, python) = thread::scope(|scope| {
        let rust = scope.spawn(|| rust_cell(&venv, beside, share, &[]));
        let python = python_tests(&venv, share, options);
        (rust.join().unwrap_or_else(|_| Cell::failed_at_once()), python)
    });
    vec![built, rust, python]
}

fn left_out() -> Cell {
    Cell::Skipped("left out".to_owned())
}

/// Runs the Rust tests in the given way. Unit tests and doc tests start no interpreter, so they are run with the newest
/// one only: the crates need not be compiled for them a second time with each.
fn rust_cell(
    venv: &Venv,
    run: fn(&str, &mut Command) -> Result<Shown, Failure>,
    share: Share,
    passed_on: &[String],
) -> Cell {
    let minor = venv.base.minor;
    let Ok(mut tests) = venv.cargo_with_library("test") else {
        println!("[{minor} Rust tests] left out: this Python has no shared library, so no test can embed it");
        return Cell::Skipped("no shared libpython".to_owned());
    };
    tests.args(["--workspace", "--exclude", "xtask", "--no-fail-fast"]);
    if !share.with_unit_tests && passed_on.is_empty() {
        tests.args(["--test", "*"]);
    }
    cell(run(&format!("{minor} Rust tests"), tests.args(passed_on)), cargo_counts, cargo_failures)
}

fn python_tests(venv: &Venv, share: Share, options: &Options) -> Cell {
    let mut pytest = venv.python_command();
    pytest.args(["-m", "pytest", "--config-file", "tests/python/pytest.ini"]);
    // Files or tests named by arguments replace the default, which is all tests, shared by three processes: Paddle
    // keeps threads for all that a process has run, up to a limit of the system.
    if !options.passed_on.iter().any(|argument| argument.starts_with("tests/python")) {
        // A process that dies is not replaced: its test fails, and the other processes go on.
        pytest.args(["tests/python", "-n", "3", "--dist", "loadfile", "--max-worker-restart=0"]);
        if let Some(part) = share.part {
            println!("Part {part} of {PARTS} of the tests marked `divided`: other interpreters run the others.");
            pytest.arg(format!("--part={part}/{PARTS}"));
        }
    }
    pytest.args(&options.passed_on);
    if options.verify {
        pytest.env("SOT_VERIFY", "1");
    }
    // In verify mode a test takes at least twice as long, so there is no time limit.
    let limit = if options.verify { Duration::MAX } else { LIMIT };
    let run = openly_for(&format!("{} Python tests", venv.base.minor), &mut pytest, limit);
    cell(run, pytest_counts, pytest_failures)
}

fn cell(run: Result<Shown, Failure>, count: fn(&[String]) -> String, failures: fn(&[String]) -> Vec<String>) -> Cell {
    match run {
        Ok(run) => {
            let (counts, taken) = (count(&run.lines), run.taken);
            if run.status.success() {
                Cell::Passed { counts, taken }
            } else {
                Cell::Failed { counts, taken, tests: failures(&run.lines) }
            }
        }
        Err(failure) => {
            eprintln!("{failure}");
            Cell::failed_at_once()
        }
    }
}

/// Sums cargo's `test result:` lines, one for each test binary.
fn cargo_counts(lines: &[String]) -> String {
    let results: Vec<&String> = lines.iter().filter(|line| line.starts_with("test result:")).collect();
    let sum = |word: &str| results.iter().map(|line| number_before(line, word)).sum::<u32>();
    counts_text(&[(sum("passed"), "passed"), (sum("failed"), "failed"), (sum("ignored"), "ignored")])
}

/// Reads pytest's last summary line, such as `3 failed, 20 passed, 1 skipped in 4.20s`. With `-q` among the arguments
/// there is none.
fn pytest_counts(lines: &[String]) -> String {
    let words = ["passed", "failed", "error", "skipped", "xfailed"];
    let is_summary = |line: &&String| line.contains(" in ") && words.iter().any(|word| number_before(line, word) > 0);
    let Some(line) = lines.iter().rev().find(is_summary) else {
        let has_run = lines.iter().any(|line| line.trim_end().ends_with("[100%]"));
        return if has_run { "not counted" } else { "no tests" }.to_owned();
    };
    counts_text(&words.map(|word| (number_before(line, word), word)))
}

/// Reads the names out of cargo's lines `test NAME ... FAILED`.
fn cargo_failures(lines: &[String]) -> Vec<String> {
    let name = |line: &String| Some(line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.trim_end().to_owned());
    lines.iter().filter_map(name).collect()
}

/// Reads pytest's summary lines `FAILED NAME - REASON` and `ERROR NAME - REASON`.
fn pytest_failures(lines: &[String]) -> Vec<String> {
    let of_a_test = |line: &&String| line.starts_with("FAILED ") || line.starts_with("ERROR ");
    let named = |line: &String| line.split_once(' ').map(|(_, test)| test.to_owned());
    lines.iter().filter(of_a_test).filter_map(named).collect()
}

/// Returns the number before `word` in `line`; 0 if there is none.
fn number_before(line: &str, word: &str) -> u32 {
    let words: Vec<&str> = line.split([' ', ',', ';', '=']).filter(|part| !part.is_empty()).collect();
    let pair = words.windows(2).find(|pair| pair[1].strip_suffix('s').unwrap_or(pair[1]) == word);
    pair.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

fn counts_text(counts: &[(u32, &str)]) -> String {
    let shown: Vec<String> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    if shown.is_empty() {
        "no tests".to_owned()
    } else {
        shown.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn cargo_results_are_summed() {
        let output = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
                      test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(cargo_counts(&lines(output)), "5 passed, 1 failed, 1 ignored");
        assert_eq!(cargo_counts(&[]), "no tests");
        assert_eq!(cargo_failures(&lines("test a::b   ... FAILED\ntest c ... ok\n")), ["a::b"]);
    }

    #[test]
    fn divided_tests_run_whole_with_the_ends_and_in_parts_between() {
        let parts = |interpreters| (0..interpreters).map(|position| Share::of(position, interpreters).part).collect();
        let of_six: Vec<_> = parts(6);
        assert_eq!(of_six, [None, Some(1), Some(2), Some(3), Some(4), None]);
        let of_five: Vec<_> = parts(5);
        assert_eq!(of_five, [None; 5]);
        assert_eq!((0..2).map(|position| Share::of(position, 2).with_unit_tests).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn the_summary_of_pytest_is_read() {
        let output = "tests/test_a.py ...\n==== 1 failed, 20 passed, 2 errors in 4.20s ====";
        assert_eq!(pytest_counts(&lines(output)), "20 passed, 1 failed, 2 error");
        assert_eq!(
            pytest_failures(&lines("FAILED a.py::b[c d] - E: no\nerrors\nERROR d.py")),
            ["a.py::b[c d] - E: no", "d.py"]
        );
        assert_eq!(pytest_counts(&lines("12 passed in 0.1s")), "12 passed");
        assert_eq!(pytest_counts(&lines("no tests ran in 0.01s")), "no tests");
        assert_eq!(pytest_counts(&lines("....     [100%]")), "not counted");
    }
}
