//! Runs cases as tests, each with a name and a result of its own. `cargo test --test differential loops` runs the
//! cases with that text in their names, and prints their counts. `--list` lists the cases, `--exact` selects a case
//! by its full name.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use libtest_mimic::{Arguments, Failed, Trial};
use pyo3::prelude::*;

use crate::harness;

static IS_CHOSEN: AtomicBool = AtomicBool::new(false);

/// True if cases were selected by name, which then print their counts.
pub fn is_chosen() -> bool {
    IS_CHOSEN.load(Ordering::Relaxed)
}

/// True if the command line selects cases by name, or lists them.
pub fn is_asked_for() -> bool {
    let arguments = Arguments::from_args();
    arguments.filter.is_some() || arguments.list
}

/// A test case.
pub struct Case {
    name: String,
    gap: Option<&'static str>,
    run: Box<dyn FnOnce(Python<'_>) -> Result<(), String> + Send>,
}

impl Case {
    /// Makes a case. It runs with the tracer on the toy framework, and returns an error that says what is wrong.
    pub fn new(name: impl Into<String>, run: impl FnOnce(Python<'_>) -> Result<(), String> + Send + 'static) -> Case {
        Case { name: name.into(), gap: None, run: Box::new(run) }
    }

    /// Marks a case that is known to fail, with the reason. Such a case fails if it passes.
    #[must_use]
    pub fn with_gap(self, gap: Option<&'static str>) -> Case {
        Case { gap, ..self }
    }

    fn trial(self) -> Trial {
        let Case { name, gap, run } = self;
        let shown = gap.map_or_else(|| name.clone(), |gap| format!("{name} (known gap: {gap})"));
        Trial::test(shown, move || match (harness::with_tracer(run), gap) {
            (Ok(()), None) | (Err(_), Some(_)) => Ok(()),
            (Ok(()), Some(gap)) => Err(Failed::from(format!("holds, but is listed as a gap: {gap}"))),
            (Err(what), None) => Err(Failed::from(what)),
        })
    }
}

/// Runs the cases one after the other, as they share an interpreter and its counters, and prints a summary.
pub fn run(cases: Vec<Case>, summary: impl FnOnce() -> String) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    IS_CHOSEN.store(arguments.filter.is_some(), Ordering::Relaxed);
    if cases.is_empty() {
        eprintln!("there are no cases");
        return ExitCode::FAILURE;
    }
    let lists = arguments.list;
    let conclusion = libtest_mimic::run(&arguments, cases.into_iter().map(Case::trial).collect());
    if !lists {
        println!("{}", summary());
    }
    conclusion.exit_code()
}
