//! The functions of `cases/*.py`, run by CPython and run translated: results, exceptions, output and side effects
//! must be the same. A decorator adds an expectation: `@whole` means one graph, without breaks and fallbacks, and a
//! hit at the second call; `@two` means two graphs around one break; `@pieces` means one graph for each stretch
//! between two breaks, and no more translations than that; `@left` means that CPython runs the rest of some loop
//! iterations (left rounds). A number in a file's name is the oldest minor version whose syntax it needs.
//!
//! Each case is a test: `cargo test --test differential loops::range`.
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
use sot_core::version::PyVersion;
use sot_harness::suite::{self, Case};
use sot_harness::{self as harness, Counts};

/// Cases that do not hold yet: function, oldest and first later minor version they fail on, reason.
const KNOWN_GAPS: &[(&str, u8, u8, &str)] = &[];

fn main() -> ExitCode {
    let tally = Arc::new(Mutex::new(Tally::default()));
    let cases = harness::with_tracer(|py| {
        let mut cases = Vec::new();
        for path in sot_tests::files_of("cases").unwrap() {
            let source: Arc<str> = std::fs::read_to_string(&path).unwrap().into();
            for name in case_names(py, &source, &path) {
                let shown = name.strip_prefix("test_").unwrap_or(&name);
                let full = format!("{}::{shown}", path.file_stem().unwrap().to_string_lossy());
                let (source, path, tally) = (Arc::clone(&source), path.clone(), Arc::clone(&tally));
                let gap = gap(&name);
                let run = move |py: Python<'_>| run_case(py, &source, &path, &name, &mut tally.lock());
                cases.push(Case::new(full, run).with_gap(gap));
            }
        }
        cases
    });
    suite::run(cases, || tally.lock().to_string())
}

fn gap(case: &str) -> Option<&'static str> {
    let minor = PyVersion::BUILT_FOR.0;
    let found = KNOWN_GAPS.iter().find(|(name, since, until, _)| *name == case && (*since..*until).contains(&minor));
    found.map(|(.., reason)| *reason)
}

fn case_names(py: Python<'_>, source: &str, path: &Path) -> Vec<String> {
    let module = harness::load_module(py, source, path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let names = module.dict().iter().map(|(name, _)| name.extract::<String>().unwrap());
    names.filter(|name| name.starts_with("test_")).collect()
}

/// What is wrong with a case, if anything. Both sides run in modules of their own, which share nothing.
fn run_case(py: Python<'_>, source: &str, path: &Path, name: &str, tally: &mut Tally) -> Result<(), String> {
    harness::reset();
    let load = || harness::load_module(py, source, path).unwrap();
    let expected = observe(&load(), name, false);
    let module = load();
    let actual = observe(&module, name, true);
    let counts = harness::counts();
    tally.count(&counts);
    if suite::is_chosen() {
        println!("{name}: {counts:?}\n{}", actual.join("\n"));
    }
    for (call, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
        if expected != actual {
            let call = call + 1;
            return Err(format!("call {call} differs\n  CPython:    {expected}\n  translated: {actual}\n  {counts:?}"));
        }
    }
    let must_hit: bool = given(&module, name).1;
    let function = module.getattr(name).unwrap();
    let expected: Option<String> =
        function.getattr_opt("expected").unwrap().map(|expected| expected.extract().unwrap());
    check_counts(expected.as_deref(), &counts, must_hit)
}

fn check_counts(expected: Option<&str>, counts: &Counts, must_hit: bool) -> Result<(), String> {
    if counts.misses == 0 {
        return Err("was not translated at all".to_owned());
    }
    let has_fallbacks = !counts.fallbacks.is_empty();
    let (holds, failure) = match expected {
        None => return Ok(()),
        Some("two") => (counts.graphs == 2 && counts.breaks.len() == 1 && !has_fallbacks, "is not in two"),
        Some("pieces") => {
            let same = [counts.graphs, counts.hits, counts.misses].iter().all(|count| *count == counts.translations);
            (same && counts.translations > 2 && !has_fallbacks, "is not in pieces")
        }
        Some("left") => {
            let is_left = |reason: &String| reason.starts_with("too-many-translations");
            let left = counts.breaks.iter().any(is_left) && !counts.fallbacks.iter().any(is_left);
            (left, "no round is left")
        }
        Some("whole") => {
            let hit = !must_hit || counts.translations == 1 && counts.hits == 1;
            let whole = counts.breaks.is_empty() && !has_fallbacks && counts.graphs == counts.translations;
            (whole && hit, if whole { "was no hit" } else { "is not whole" })
        }
        Some(other) => return Err(format!("expects {other:?}, which is nothing known")),
    };
    if holds {
        Ok(())
    } else {
        Err(format!("{failure}: {counts:?}"))
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
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { cases, translations, graphs, hits, broken, left } = self;
        write!(f, "CPython {}: {cases} cases, {translations} translations, ", PyVersion::BUILT_FOR)?;
        write!(f, "{graphs} graphs, {hits} hits, {broken} cases with breaks, {left} with fallbacks")
    }
}
