//! `cargo xtask demo`: runs the first example and the models of `examples/` on each interpreter.

use crate::command::openly;
use crate::install::Build;
use crate::options::Options;
use crate::python::{self, Interpreter, Minor};
use crate::venv::{self, Venv};
use crate::Failure;

/// Scripts of the demo, in order.
const SCRIPTS: &[&str] = &["examples/first.py", "examples/demo_models.py"];

/// Runs the demo on each interpreter.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    on_each_python(options, SCRIPTS)
}

/// Builds the extension for each interpreter and runs the scripts with it. Arguments are passed on to the scripts.
pub(crate) fn on_each_python(options: &Options, scripts: &[&str]) -> Result<(), Failure> {
    venv::require_c_compiler()?;
    let found = python::find(&options.pythons)?;
    let mut failed = Vec::new();
    for python in &found.interpreters {
        println!("\n== CPython {} ==", python.version);
        if let Err(failure) = run_scripts(python, scripts, &options.passed_on) {
            eprintln!("{failure}");
            failed.push(python.minor);
        }
    }
    if !options.pythons.is_empty() && !found.missing.is_empty() {
        return Err(format!("Not found: CPython {}.", Minor::list(found.missing)));
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("Failed on CPython {}.", Minor::list(failed)))
}

fn run_scripts(python: &Interpreter, scripts: &[&str], passed_on: &[String]) -> Result<(), Failure> {
    let venv = Venv::prepare(python)?;
    venv.install_extension(Build::Release)?;
    for script in scripts {
        let what = format!("{} {script}", python.minor);
        let run = openly(&what, venv.python_command().arg(script).args(passed_on))?;
        if !run.status.success() {
            return Err(format!("[{what}] failed ({})", run.status));
        }
    }
    Ok(())
}
