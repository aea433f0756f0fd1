//! Loops of 1,500 iterations that break: the programs of `long_loops`, run by CPython and translated. Results and
//! effects must be the same, and the number of translations small, however long the loop is.
//!
//! Each program is a test: `cargo test --test long_loops zip`. An interpreter takes every second program, so each
//! program runs on three of the six; `SOT_LONG_LOOPS=all` runs all programs, and so does choosing them by name.
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::ExitCode;

use pyo3::prelude::*;
use sot_core::version::PyVersion;
use sot_harness as harness;
use sot_harness::suite::{self, Case};

/// How often each loop goes round.
const ROUNDS: usize = 1_500;

/// How the fallback of a generator's own frame starts.
const GENERATOR: &str = "unsupported-frame: generators";

#[derive(FromPyObject)]
struct Program {
    #[pyo3(item(0))]
    name: String,
    #[pyo3(item(1))]
    source: String,
    #[pyo3(item(2))]
    most: u64,
    #[pyo3(item(3))]
    why: String,
}

impl Program {
    fn observe(&self, py: Python<'_>, translated: bool) -> String {
        let path = format!("{}.py", self.name);
        let module = harness::load_module(py, &self.source, Path::new(&path)).unwrap();
        let makers: Vec<Bound<'_, PyAny>> = module.getattr("MAKERS").unwrap().extract().unwrap();
        module.delattr("MAKERS").unwrap();
        harness::observe(&module, "f", &makers, translated).unwrap().concat()
    }

    /// What is wrong, if anything.
    fn run(&self, py: Python<'_>) -> Result<(), String> {
        let expected = self.observe(py, false);
        harness::reset();
        let actual = self.observe(py, true);
        let counts = harness::counts();
        if suite::is_chosen() {
            let (translations, graphs, hits) = (counts.translations, counts.graphs, counts.hits);
            println!("{}: {translations} translations, {graphs} graphs, {hits} hits", self.name);
        }
        if actual != expected {
            return Err("another outcome than CPython's".to_owned());
        }
        if counts.translations > self.most || counts.graphs < 3 {
            return Err(format!("{} translations, {} graphs", counts.translations, counts.graphs));
        }
        let fallbacks: Vec<_> = counts.fallbacks.iter().filter(|reason| !reason.starts_with(GENERATOR)).collect();
        if fallbacks.is_empty() {
            Ok(())
        } else {
            Err(format!("{fallbacks:?}"))
        }
    }
}

fn main() -> ExitCode {
    let programs: Vec<Program> = harness::with_tracer(|py| {
        let load = |name: &str| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("long_loops").join(name);
            harness::load_module(py, &std::fs::read_to_string(&path).unwrap(), &path).unwrap()
        };
        let bodies = load("programs.py").getattr("PROGRAMS").unwrap();
        load("templates.py").call_method1("programs", (ROUNDS, bodies)).unwrap().extract().unwrap()
    });
    let all = programs.len();
    let first = usize::from(PyVersion::BUILT_FOR.0) % 2;
    let step = if suite::is_asked_for() || std::env::var_os("SOT_LONG_LOOPS").is_some() { 1 } else { 2 };
    let programs: Vec<Program> = programs.into_iter().skip(first % step).step_by(step).collect();
    let taken = programs.len();
    for program in programs.iter().filter(|program| !program.why.is_empty()) {
        println!("{}: up to {} translations: {}", program.name, program.most, program.why);
    }
    let cases = programs.into_iter().map(|program| Case::new(program.name.clone(), move |py| program.run(py)));
    suite::run(cases.collect(), || {
        format!("CPython {}: {taken} of {all} loops of {ROUNDS} rounds", PyVersion::BUILT_FOR)
    })
}
