//! Random programs do the same run by CPython and translated: results and shared objects in them, exceptions, output,
//! and the arguments and globals after the call. Each function is called several times, with equal and with other
//! arguments.
//!
//! `SOT_PROPTEST_PROGRAMS` sets the number of programs and `SOT_PROPTEST_SEED` selects them (`random`: different ones
//! at each run). `SOT_PROGRAM=17,18` runs only the programs of these numbers, `SOT_PROGRAM_FILE` the program of a
//! file. `SOT_PROGRAM_TRACE=1` names each program before it runs, to find one that never ends. A failure prints the
//! program, and the smallest program that still fails.
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::SystemTime;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use pyo3::exceptions::PySyntaxError;
use pyo3::prelude::*;
use sot_core::version::PyVersion;
use sot_harness::{self as harness, Counts};

mod grammar;
mod program;
mod tree;

use grammar::EXCLUDED;
use program::{Program, ProgramTree, Programs};

const DEFAULT_PROGRAMS: u32 = 300;

/// Translations one program may cause: breaks times calls, and then some.
const MOST_TRANSLATIONS: u64 = 400;

/// Whether the places in tracebacks are compared.
const TRACEBACKS: bool = true;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|value| value.parse().ok())
}

#[test]
fn random_programs_do_what_cpython_does() {
    let tally = Tally::default();
    let mut wanted = Vec::new();
    if let Ok(file) = std::env::var("SOT_PROGRAM_FILE") {
        wanted.push(Program::of(std::fs::read_to_string(file).unwrap()));
    }
    if let Ok(numbers) = std::env::var("SOT_PROGRAM") {
        let seeds = numbers.split(',').map(|seed| seed.trim().parse().expect("SOT_PROGRAM holds numbers"));
        wanted.extend(seeds.map(Program::new));
    }
    if !wanted.is_empty() {
        for program in wanted {
            println!("{}", program.source());
            let mut runner = TestRunner::new(config(1));
            let failed = harness::with_tracer(|py| {
                runner.run_one(ProgramTree::new(program), |program| tally.check(py, &program))
            });
            tally.report(failed.err());
        }
        return;
    }
    let cases = number("SOT_PROPTEST_PROGRAMS").unwrap_or_else(|| DEFAULT_PROGRAMS.into());
    let seed = match std::env::var("SOT_PROPTEST_SEED").as_deref() {
        Ok("random") => {
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
        }
        Ok(seed) => seed.parse().expect("SOT_PROPTEST_SEED is a number or 'random'"),
        Err(_) => 0,
    };
    println!("SOT_PROPTEST_SEED={seed}");
    for (construct, reason) in EXCLUDED {
        println!("excluded construct: {construct}: {reason}");
    }
    if !TRACEBACKS {
        println!("excluded: places in tracebacks");
    }
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config(cases as u32), rng);
    let result = harness::with_tracer(|py| runner.run(&Programs, |program| tally.check(py, &program)));
    tally.report(result.err());
    tally.conclude(cases);
}

fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() }
}

#[derive(Default)]
struct Tally {
    programs: Cell<u64>,
    /// How the program fails that is being cut down.
    way: RefCell<Option<String>>,
    total: RefCell<Counts>,
    most: Cell<u64>,
    broken: Cell<u64>,
    raising: Cell<u64>,
    whole: Cell<u64>,
}

impl Tally {
    /// Fails if the program does something else when it is translated.
    fn check(&self, py: Python<'_>, program: &Program) -> Result<(), TestCaseError> {
        if number("SOT_PROGRAM_TRACE").is_some() {
            eprintln!("SOT_PROGRAM={}", program.seed);
        }
        // What died with a frame that an exception holds would run its `finally` whenever the collector comes by.
        let gc = py.import("gc").unwrap();
        gc.call_method0("collect").unwrap();
        gc.call_method0("disable").unwrap();
        let source = program.source();
        let expected = match run(py, &source, false) {
            Ok(expected) => expected,
            // Cut into something that cannot run.
            Err(_) if self.way.borrow().is_some() => return Ok(()),
            Err(error) => {
                *self.way.borrow_mut() = Some("invalid".to_owned());
                panic!("SOT_PROGRAM={} is not valid: {error}", program.seed);
            }
        };
        harness::reset();
        let actual = run(py, &source, true);
        let counts = harness::counts();
        let failure = match actual {
            Err(error) => Some(format!("an error of the tracer's: {error}")),
            Ok(actual) => difference(&expected, &actual).or_else(|| complaint(&counts)),
        };
        if let Some(failure) = failure {
            // Cut down, it has to fail in the same way.
            let way: String = failure.chars().take_while(|c| c.is_alphabetic()).collect();
            if self.way.borrow_mut().get_or_insert_with(|| way.clone()) != &way {
                return Ok(());
            }
            return Err(TestCaseError::fail(format!("{failure}\n{counts:?}")));
        }
        if !self.way.borrow().is_some() {
            self.count(&expected, &counts);
        }
        Ok(())
    }

    fn count(&self, outcomes: &[String], counts: &Counts) {
        let add = |cell: &Cell<u64>, n: u64| cell.set(cell.get() + n);
        let mut total = self.total.borrow_mut();
        total.translations += counts.translations;
        total.hits += counts.hits;
        total.graphs += counts.graphs;
        total.breaks.extend_from_slice(&counts.breaks);
        total.fallbacks.extend_from_slice(&counts.fallbacks);
        self.most.set(self.most.get().max(counts.translations));
        add(&self.programs, 1);
        add(&self.broken, u64::from(!counts.breaks.is_empty()));
        add(&self.whole, u64::from(counts.graphs > 0 && counts.breaks.is_empty() && counts.fallbacks.is_empty()));
        add(&self.raising, u64::from(outcomes.iter().any(|outcome| outcome.starts_with("raised"))));
    }

    fn report(&self, failed: Option<TestError<Program>>) {
        let total = self.total.borrow();
        println!(
            "CPython {}: {} programs ({} with breaks, {} whole, {} raise): {} translations (at most {} of a program), {} graphs, {} \
             hits, {} breaks, {} fallbacks",
            PyVersion::BUILT_FOR,
            self.programs.get(),
            self.broken.get(),
            self.whole.get(),
            self.raising.get(),
            total.translations,
            self.most.get(),
            total.graphs,
            total.hits,
            total.breaks.len(),
            total.fallbacks.len()
        );
        match failed {
            Some(TestError::Fail(reason, program)) => {
                panic!("SOT_PROGRAM={}\n{}\n{reason}", program.seed, program.source())
            }
            Some(TestError::Abort(reason)) => panic!("{reason}"),
            None => {}
        }
    }

    /// That programs agree says little if none of them was translated.
    fn conclude(&self, programs: u64) {
        let total = self.total.borrow();
        assert!(total.graphs >= programs, "{} graphs of {programs} programs", total.graphs);
        assert!(total.hits >= programs, "{} hits of {programs} programs", total.hits);
    }
}

/// What each call of the program's function did.
fn run(py: Python<'_>, source: &str, translated: bool) -> PyResult<Vec<String>> {
    let module = harness::load_module(py, source, Path::new("program.py"))?;
    let makers: Vec<Bound<'_, PyAny>> =
        module.getattr("makers")?.extract().map_err(|_| PySyntaxError::new_err("no makers"))?;
    module.delattr("makers")?;
    let mut outcomes = harness::observe(&module, "f", &makers, translated)?;
    if !TRACEBACKS {
        for outcome in &mut outcomes {
            let end = outcome.find('\n').unwrap_or(outcome.len());
            let start = outcome[..end].rfind(" at ").unwrap_or(end);
            outcome.replace_range(start..end, "");
        }
    }
    Ok(outcomes)
}

fn difference(expected: &[String], actual: &[String]) -> Option<String> {
    let calls = expected.iter().zip(actual).enumerate();
    let (call, (expected, actual)) = calls.into_iter().find(|(_, (expected, actual))| expected != actual)?;
    Some(format!("call {} differs\nCPython:\n{expected}\ntranslated:\n{actual}", call + 1))
}

/// What is wrong with a program that does what CPython does.
fn complaint(counts: &Counts) -> Option<String> {
    if counts.misses == 0 {
        return Some("it was not translated at all".to_owned());
    }
    if counts.translations > MOST_TRANSLATIONS {
        return Some(format!("{} translations", counts.translations));
    }
    counts.fallbacks.iter().find(|reason| reason.contains("internal-error")).cloned()
}
