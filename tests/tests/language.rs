//! The functions of `language/*.py`: each takes a tensor. It must become one graph, without breaks and fallbacks,
//! give CPython's result, and be hit when it is called again. A number in a file's name is the oldest minor version
//! whose syntax it needs.
//!
//! Each function is a test: `cargo test --test language generators`.
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use pyo3::prelude::*;
use sot_core::version::PyVersion;
use sot_harness as harness;
use sot_harness::suite::{self, Case};

/// Functions that are not whole yet: file and function, oldest and first later minor version, what is missing.
const KNOWN_GAPS: &[(&str, u8, u8, &str)] = &[
    ("protocols.finalizer", 11, 12, "the frame of __del__ is looked at, too, as it runs when the hook leaves"),
    ("runtime_.bounded", 8, 12, "typing keeps what Generic[...] gives of an object made in the function in a cache"),
];

/// At least so many functions are there.
const LEAST: usize = 200;

fn main() -> ExitCode {
    let (mut known_gaps, mut cases) = (0, Vec::new());
    harness::with_tracer(|py| {
        for path in sot_tests::files_of("language").unwrap() {
            let source: Arc<str> = std::fs::read_to_string(&path).unwrap().into();
            for name in names(py, &source, &path) {
                let full = format!("{}.{name}", path.file_stem().unwrap().to_string_lossy());
                let (source, path, gap) = (Arc::clone(&source), path.clone(), gap(&full));
                known_gaps += usize::from(gap.is_some());
                cases.push(Case::new(full, move |py| run(py, &source, &path, &name)).with_gap(gap));
            }
        }
    });
    let whole = cases.len() - known_gaps;
    assert!(whole >= LEAST, "only {whole} functions");
    suite::run(cases, || {
        format!("CPython {}: {whole} functions are one graph each, {known_gaps} are not yet", PyVersion::BUILT_FOR)
    })
}

/// The functions defined in a file; those whose name starts with an underscore help others.
fn names(py: Python<'_>, source: &str, path: &Path) -> Vec<String> {
    let module = harness::load_module(py, source, path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let is_case = |value: &Bound<'_, PyAny>| {
        let own = value.getattr("__module__").is_ok_and(|owner| owner.eq(module.getattr("__name__").unwrap()).unwrap());
        own && value.is_instance_of::<pyo3::types::PyFunction>()
    };
    let all =
        module.dict().iter().filter(|(_, value)| is_case(value)).map(|(name, _)| name.extract::<String>().unwrap());
    all.filter(|name| !name.starts_with('_')).collect()
}

fn gap(full: &str) -> Option<&'static str> {
    let minor = PyVersion::BUILT_FOR.0;
    let found = KNOWN_GAPS.iter().find(|(name, since, until, _)| *name == full && (*since..*until).contains(&minor));
    found.map(|(.., reason)| *reason)
}

/// What is wrong with a function, if anything. Both sides run in modules of their own, which share nothing.
fn run(py: Python<'_>, source: &str, path: &Path, name: &str) -> Result<(), String> {
    harness::reset();
    let maker = py.eval(c"lambda: (__import__('toy').arange(3),)", None, None).unwrap();
    let observe = |translated| {
        let module = harness::load_module(py, source, path).unwrap();
        harness::observe(&module, name, &[maker.clone(), maker.clone()], translated).unwrap()
    };
    let (expected, actual) = (observe(false), observe(true));
    let counts = harness::counts();
    if suite::is_chosen() {
        println!("{name}: {counts:?}\n{}", actual.join("\n"));
    }
    if expected != actual {
        let (expected, actual) = (expected.join("\n    "), actual.join("\n    "));
        return Err(format!("differs\n  CPython:\n    {expected}\n  translated:\n    {actual}\n  {counts:?}"));
    }
    if expected[0].starts_with("raised") {
        return Err(format!("raises: {}", expected[0]));
    }
    let whole = counts.breaks.is_empty() && counts.fallbacks.is_empty();
    if !whole || counts.translations != 1 || counts.graphs != 1 {
        return Err(format!("is not whole: {counts:?}"));
    }
    if counts.hits != 1 {
        return Err(format!("was no hit: {counts:?}"));
    }
    Ok(())
}
