//! `cargo xtask number-sweep`: runs `tests/number_sweep/run.py` on each interpreter. Finished cases are kept in
//! `target/number-sweep`, so that an interrupted run can be continued.

use std::fs;

use crate::command::openly;
use crate::install::Build;
use crate::options::Options;
use crate::venv::Venv;
use crate::{python, workspace, Failure};

/// Runs the sweep, or the requested sample of it. Fails, after all interpreters have run, if cases differ.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = python::find(&options.pythons)?;
    let folder = workspace::target().join("number-sweep");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut differ = Vec::new();
    for python in &found.interpreters {
        println!("\n== CPython {} ==", python.version);
        let venv = Venv::prepare(python)?;
        venv.install_extension(Build::Release)?;
        let mut sweep = venv.python_command();
        sweep.current_dir(workspace::root()).arg("tests/number_sweep/run.py").args(&options.passed_on);
        sweep.arg("--keep").arg(folder.join(format!("{}.jsonl", python.minor)));
        if !openly(&format!("{} number sweep", python.minor), &mut sweep)?.status.success() {
            differ.push(python.minor.to_string());
        }
    }
    if differ.is_empty() {
        return Ok(());
    }
    Err(format!("cases differ on {}: they are listed above", differ.join(", ")))
}
