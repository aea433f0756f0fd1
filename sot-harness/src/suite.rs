//! Cases as tests: each has a name of its own and fails by itself. `cargo test --test differential loops` runs those
//! with that text in their names, and shows what became of them; `--list` lists them, `--exact` takes one by its whole
//! name.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use libtest_mimic::{Arguments, Failed, Trial};
use pyo3::prelude::*;

use crate::harness;

static IS_CHOSEN: AtomicBool = AtomicBool::new(false);

/// Whether cases were chosen by name, and so show what became of them.
pub fn is_chosen() -> bool {
    IS_CHOSEN.load(Ordering::Relaxed)
}

/// Whether the command line asks for cases by name, or for their names.
pub fn is_asked_for() -> bool {
    let arguments = Arguments::from_args();
    arguments.filter.is_some() || arguments.list
}

/// One case.
pub struct Case {
    name: String,
    gap: Option<&'static str>,
    run: Box<dyn FnOnce(Python<'_>) -> Result<(), String> + Send>,
}

impl Case {
    /// A case that says what is wrong, if anything. It runs with the tracer on and the toy framework behind it.
    pub fn new(name: impl Into<String>, run: impl FnOnce(Python<'_>) -> Result<(), String> + Send + 'static) -> Case {
        Case { name: name.into(), gap: None, run: Box::new(run) }
    }

    /// One that is known not to hold, for a reason. It fails where it holds.
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

/// Runs the cases, one after the other, as they share an interpreter and its counters; then prints a summary.
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
