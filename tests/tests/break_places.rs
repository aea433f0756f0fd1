//! Graph breaks of every kind in every place: the programs of `break_places/templates.py`, run by CPython and
//! translated. Results, effects, output and exceptions with their tracebacks must be the same. The first call must
//! have as many graphs as the table says, without a fallback, and the second call must consist of hits.
//!
//! Each combination is a test: `cargo test --test break_places callee`.
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::ExitCode;

use pyo3::prelude::*;
use sot_core::registered::{self, Meaning};
use sot_core::version::PyVersion;
use sot_harness as harness;
use sot_harness::suite::{self, Case};

/// How the fallback of a generator's own frame starts.
const GENERATOR: &str = "unsupported-frame: generators";

#[derive(FromPyObject)]
struct Program {
    #[pyo3(item(0))]
    place: String,
    #[pyo3(item(1))]
    kind: String,
    #[pyo3(item(2))]
    source: String,
    #[pyo3(item(3))]
    graphs: u64,
    #[pyo3(item(4))]
    reason: String,
    #[pyo3(item(5))]
    fallback: Option<String>,
}

impl Program {
    fn name(&self) -> String {
        format!("{}-{}", self.place, self.kind)
    }

    fn load<'py>(&self, py: Python<'py>) -> (Bound<'py, PyModule>, Vec<Bound<'py, PyAny>>) {
        let path = format!("{}.py", self.name());
        let module = harness::load_module(py, &self.source, Path::new(&path)).unwrap();
        let makers = module.getattr("MAKERS").unwrap().extract().unwrap();
        module.delattr("MAKERS").unwrap();
        (module, makers)
    }

    /// Generators are always CPython's; the function itself is only where the table says so.
    fn fallbacks_are_known(&self, fallbacks: &[String]) -> bool {
        let own: Vec<_> = fallbacks.iter().filter(|reason| !reason.starts_with(GENERATOR)).collect();
        self.fallback.as_ref().map_or(own.is_empty(), |known| own.len() == 1 && own[0].starts_with(known))
    }

    /// What is wrong, if anything.
    fn run(&self, py: Python<'_>) -> Result<(), String> {
        harness::reset();
        let (module, makers) = self.load(py);
        let expected = harness::observe(&module, "f", &makers, false).unwrap();
        let (module, makers) = self.load(py);
        let listed = module.getattr("listed").unwrap();
        let listed = registered::register(&listed, Meaning::Break).unwrap();
        let call = |maker| harness::observe(&module, "f", std::slice::from_ref(maker), true).unwrap().concat();
        let mut wrong = Vec::new();
        let mut same = |call: usize, actual: &str| {
            if actual != expected[call] {
                let expected = &expected[call];
                wrong.push(format!("arguments {call}\n  CPython:    {expected}\n  translated: {actual}"));
            }
        };
        same(0, &call(&makers[0]));
        let first = harness::counts();
        same(0, &call(&makers[0]));
        let second = harness::counts();
        for (number, maker) in makers.iter().enumerate() {
            same(number, &call(maker));
            same(number, &call(maker));
        }
        registered::undo(py, listed).unwrap();
        if suite::is_chosen() {
            println!("{}\n{}\n{first:?}\n{}", self.name(), self.source, expected.join("\n"));
        }
        if first.graphs != self.graphs {
            wrong.push(format!("{} graphs instead of {}", first.graphs, self.graphs));
        }
        if !self.fallbacks_are_known(&first.fallbacks) {
            wrong.push(format!("fallbacks: {:?}", first.fallbacks));
        }
        if second.translations != first.translations {
            wrong.push(format!("was no hit: {second:?}"));
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(format!("{}\n  {first:?}", wrong.join("; ")))
        }
    }
}

fn main() -> ExitCode {
    let programs: Vec<Program> = harness::with_tracer(|py| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("break_places/templates.py");
        let templates = harness::load_module(py, &std::fs::read_to_string(&path).unwrap(), &path).unwrap();
        templates.call_method0("programs").unwrap().extract().unwrap()
    });
    let all = programs.len();
    for program in programs.iter().filter(|program| !program.reason.is_empty()) {
        println!("{}: {} graphs, as {}", program.name(), program.graphs, program.reason);
    }
    let cases = programs.into_iter().map(|program| Case::new(program.name(), move |py| program.run(py)));
    suite::run(cases.collect(), || {
        format!("CPython {}: {all} combinations of a place and a kind of graph break", PyVersion::BUILT_FOR)
    })
}
