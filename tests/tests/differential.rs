//! The functions of `cases/*.py`, run by CPython and run translated: results, exceptions, output and side effects must be
//! the same. A case named `test_whole__...` must become one graph, without breaks and fallbacks, and be hit the second time;
//! one named `test_two__...` two graphs around one break; one named `test_pieces__...` a graph for each stretch between two
//! breaks, and no more translations than that; one named `test_left__...` rounds of a loop that are left to CPython.
//! A number in a file's name is the oldest minor version whose syntax it needs.
//!
//! `SOT_CASES=loops` runs the cases with that text in their file's or function's name, and prints what became of them.
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use pyo3::prelude::*;
use sot_core::version::PyVersion;
use sot_tests::harness::{self, Counts};

/// Cases that do not hold yet: function, oldest and first later minor version they fail on, reason.
const KNOWN_GAPS: &[(&str, u8, u8, &str)] = &[];

#[test]
fn translated_functions_do_what_cpython_does() {
    harness::with_tracer(|py| {
        let filter = std::env::var("SOT_CASES").ok();
        let mut tally = Tally::default();
        for path in harness::files_of("cases").unwrap() {
            let source = std::fs::read_to_string(&path).unwrap();
            let names = case_names(py, &source, &path);
            for name in names {
                let full = format!("{} {name}", path.file_stem().unwrap().to_string_lossy());
                if filter.as_ref().is_some_and(|filter| !full.contains(filter)) {
                    continue;
                }
                let failure = run_case(py, &source, &path, &name, &mut tally, filter.is_some());
                tally.settle(&name, &full, failure);
            }
        }
        tally.conclude();
    });
}

fn case_names(py: Python<'_>, source: &str, path: &Path) -> Vec<String> {
    let module = harness::load_module(py, source, path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let names = module.dict().iter().map(|(name, _)| name.extract::<String>().unwrap());
    names.filter(|name| name.starts_with("test_")).collect()
}

/// What is wrong with a case, if anything. Both sides run in modules of their own, which share nothing.
fn run_case(
    py: Python<'_>,
    source: &str,
    path: &Path,
    name: &str,
    tally: &mut Tally,
    verbose: bool,
) -> Result<(), String> {
    if verbose {
        eprintln!("{name}");
    }
    harness::reset();
    let load = || harness::load_module(py, source, path).unwrap();
    let expected = observe(&load(), name, false);
    let module = load();
    let actual = observe(&module, name, true);
    let counts = harness::counts();
    tally.count(&counts);
    if verbose {
        println!("{name}: {counts:?}\n{}", actual.join("\n"));
    }
    for (call, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
        if expected != actual {
            let call = call + 1;
            return Err(format!("call {call} differs\n  CPython:    {expected}\n  translated: {actual}\n  {counts:?}"));
        }
    }
    let must_hit: bool = given(&module, name).1;
    check_counts(name, &counts, must_hit)
}

fn check_counts(name: &str, counts: &Counts, must_hit: bool) -> Result<(), String> {
    if counts.misses == 0 {
        return Err("was not translated at all".to_owned());
    }
    if name.starts_with("test_two__") {
        let two = counts.graphs == 2 && counts.breaks.len() == 1 && counts.fallbacks.is_empty();
        return if two { Ok(()) } else { Err(format!("is not in two: {counts:?}")) };
    }
    if name.starts_with("test_pieces__") {
        let pieces = [counts.graphs, counts.hits, counts.misses].iter().all(|count| *count == counts.translations);
        let cut = pieces && counts.translations > 2 && counts.fallbacks.is_empty();
        return if cut { Ok(()) } else { Err(format!("is not in pieces: {counts:?}")) };
    }
    if name.starts_with("test_left__") {
        let left = counts.breaks.iter().any(|reason| reason.starts_with("too-many-translations"));
        let stays = counts.fallbacks.iter().all(|reason| !reason.starts_with("too-many-translations"));
        return if left && stays { Ok(()) } else { Err(format!("no round is left: {counts:?}")) };
    }
    if !name.starts_with("test_whole__") {
        return Ok(());
    }
    let whole = counts.breaks.is_empty() && counts.fallbacks.is_empty() && counts.graphs == counts.translations;
    let hit = !must_hit || (counts.translations == 1 && counts.hits == 1);
    match (whole, hit) {
        (false, _) => Err(format!("is not whole: {counts:?}")),
        (true, false) => Err(format!("was no hit: {counts:?}")),
        _ => Ok(()),
    }
}

/// The makers of a case's arguments, and whether its second call must be a hit.
fn given<'py>(module: &Bound<'py, PyModule>, name: &str) -> (Vec<Bound<'py, PyAny>>, bool) {
    let function = module.getattr(name).unwrap();
    function.getattr("given").and_then(|given| given.extract()).unwrap_or_else(|_| panic!("{name} has no @given"))
}

/// What each call of a case did.
fn observe(module: &Bound<'_, PyModule>, name: &str, translated: bool) -> Vec<String> {
    harness::observe(module, name, &given(module, name).0, translated).unwrap()
}

#[derive(Default)]
struct Tally {
    cases: usize,
    gaps: Vec<String>,
    failures: Vec<String>,
    translations: u64,
    graphs: u64,
    hits: u64,
    broken: u64,
    left: u64,
}

impl Tally {
    fn count(&mut self, counts: &Counts) {
        self.cases += 1;
        self.translations += counts.translations;
        self.graphs += counts.graphs;
        self.hits += counts.hits;
        self.broken += u64::from(!counts.breaks.is_empty());
        self.left += u64::from(!counts.fallbacks.is_empty());
    }

    fn settle(&mut self, name: &str, full: &str, outcome: Result<(), String>) {
        let minor = PyVersion::BUILT_FOR.0;
        let gap = KNOWN_GAPS.iter().find(|(gap, since, until, _)| *gap == name && (*since..*until).contains(&minor));
        match (outcome, gap) {
            (Ok(()), None) => {}
            (Ok(()), Some(_)) => self.failures.push(format!("{full}: holds, but is listed as a gap")),
            (Err(_), Some((.., reason))) => self.gaps.push(format!("{full}: {reason}")),
            (Err(what), None) => self.failures.push(format!("{full}: {what}")),
        }
    }

    fn conclude(&self) {
        println!(
            "CPython {}: {} cases, {} translations, {} graphs, {} hits, {} cases with breaks, {} with fallbacks",
            PyVersion::BUILT_FOR,
            self.cases,
            self.translations,
            self.graphs,
            self.hits,
            self.broken,
            self.left
        );
        for gap in &self.gaps {
            println!("known gap: {gap}");
        }
        assert!(self.cases > 0, "no cases");
        let (n, failures) = (self.failures.len(), self.failures.join("\n"));
        assert!(self.failures.is_empty(), "{n} of {} cases fail:\n{failures}", self.cases);
    }
}
