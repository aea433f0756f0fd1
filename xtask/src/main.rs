//! The project's commands, run as `cargo xtask <command>`. They make virtual environments in `target/`, build the
//! extension for each requested interpreter, and run tests, demo and benchmark there. Only the standard library is
//! used, so that a fresh clone needs nothing but cargo, a C compiler and a Python.

mod bench;
mod command;
mod cpython_tests;
mod demo;
mod docs;
mod how_tos;
mod install;
mod lint;
mod new_plugin;
mod number_sweep;
mod options;
mod package_tests;
mod plugins;
mod python;
mod report;
mod sources;
mod structure;
mod test;
mod types;
mod venv;
mod wheel;
mod wheels;
mod words;
mod workspace;

use std::process::ExitCode;

use options::{Options, Task};

/// A description of the failure that the user can act on.
type Failure = String;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}\n\n{}", options::HELP);
            return ExitCode::from(2);
        }
    };
    let done = match options.task {
        Task::Help => {
            println!("{}", options::HELP);
            Ok(())
        }
        Task::Test => test::run(&options),
        Task::Demo => demo::run(&options),
        Task::Bench => bench::run(&options),
        Task::CpythonTests => cpython_tests::run(&options),
        Task::PackageTests => package_tests::run(&options),
        Task::NumberSweep => number_sweep::run(&options),
        Task::Docs => docs::run(&options),
        Task::Lint => lint::run(&options),
        Task::Plugins => plugins::run(&options),
        Task::Wheels => wheels::run(&options),
        Task::Wheel => wheel::run(&options),
        Task::NewPlugin => new_plugin::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
