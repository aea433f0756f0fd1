//! Graph breaks of every kind in every place: the programs of `break_places/templates.py`, run by CPython and translated.
//! Results, effects, output and exceptions with their tracebacks must be the same; the graphs of the first call as many as
//! the table says, without a fallback; and the second call all hits.
//!
//! `SOT_CASES=callee` runs those with that text in their name, and prints what became of them.
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use pyo3::prelude::*;
use sot_core::break_list;
use sot_core::version::PyVersion;
use sot_tests::harness;

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
    fn run(&self, py: Python<'_>, verbose: bool) -> Result<(), String> {
        harness::reset();
        let (module, makers) = self.load(py);
        let expected = harness::observe(&module, "f", &makers, false).unwrap();
        let (module, makers) = self.load(py);
        let listed = module.getattr("listed").unwrap();
        break_list::add(&listed);
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
        break_list::remove(&listed);
        if verbose {
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

#[test]
fn every_kind_breaks_in_every_place() {
    harness::with_tracer(|py| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("break_places/templates.py");
        let templates = harness::load_module(py, &std::fs::read_to_string(&path).unwrap(), &path).unwrap();
        let mut programs: Vec<Program> = templates.call_method0("programs").unwrap().extract().unwrap();
        let filter = std::env::var("SOT_CASES").ok();
        programs.retain(|program| filter.as_ref().is_none_or(|filter| program.name().contains(filter)));
        assert!(!programs.is_empty(), "no programs");
        let mut failures = Vec::new();
        for program in &programs {
            if let Err(what) = program.run(py, filter.is_some()) {
                failures.push(format!("{}: {what}", program.name()));
            }
            if !program.reason.is_empty() {
                println!("{}: {} graphs, as {}", program.name(), program.graphs, program.reason);
            }
        }
        let (all, bad) = (programs.len(), failures.len());
        println!("CPython {}: {all} combinations of a place and a kind of graph break", PyVersion::BUILT_FOR);
        assert!(failures.is_empty(), "{bad} of {all} fail:\n{}", failures.join("\n"));
    });
}
