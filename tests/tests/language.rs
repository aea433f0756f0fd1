//! The functions of `language/*.py`: each takes a tensor and must become one graph, without breaks and fallbacks, do what
//! CPython does, and be hit when called again. A number in a file's name is the oldest minor version whose syntax it needs.
//!
//! `SOT_CASES=generators` runs the functions with that text in their file's or function's name, and prints what became of
//! them. Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use pyo3::prelude::*;
use sot_core::version::PyVersion;
use sot_tests::harness;

/// Functions that are not whole yet: file and function, oldest and first later minor version, what is missing.
const KNOWN_GAPS: &[(&str, u8, u8, &str)] = &[
    ("protocols.finalizer", 11, 12, "the frame of __del__ is looked at, too, as it runs when the hook leaves"),
    ("runtime_.bounded", 8, 12, "typing keeps what Generic[...] gives of an object made in the function in a cache"),
];

#[test]
fn every_function_is_one_graph_and_does_what_cpython_does() {
    harness::with_tracer(|py| {
        let filter = std::env::var("SOT_CASES").ok();
        let (mut whole, mut gaps, mut failures) = (0, Vec::new(), Vec::new());
        for path in harness::files_of("language").unwrap() {
            let source = std::fs::read_to_string(&path).unwrap();
            for name in names(py, &source, &path) {
                let full = format!("{}.{name}", path.file_stem().unwrap().to_string_lossy());
                if filter.as_ref().is_some_and(|filter| !full.contains(filter)) {
                    continue;
                }
                let outcome = run(py, &source, &path, &name, filter.is_some());
                match (outcome, gap(&full)) {
                    (Ok(()), None) => whole += 1,
                    (Ok(()), Some(_)) => failures.push(format!("{full}: holds, but is listed as a gap")),
                    (Err(_), Some(reason)) => gaps.push(format!("{full}: {reason}")),
                    (Err(what), None) => failures.push(format!("{full}: {what}")),
                }
            }
        }
        let version = PyVersion::BUILT_FOR;
        println!(
            "CPython {version}: {whole} functions are one graph each, {} are not yet",
            gaps.len() + failures.len()
        );
        for gap in &gaps {
            println!("known gap: {gap}");
        }
        assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
        assert!(filter.is_some() || whole >= 200, "only {whole} functions");
    });
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
fn run(py: Python<'_>, source: &str, path: &Path, name: &str, verbose: bool) -> Result<(), String> {
    harness::reset();
    let maker = py.eval(c"lambda: (__import__('toy').arange(3),)", None, None).unwrap();
    let observe = |translated| {
        let module = harness::load_module(py, source, path).unwrap();
        harness::observe(&module, name, &[maker.clone(), maker.clone()], translated).unwrap()
    };
    let (expected, actual) = (observe(false), observe(true));
    let counts = harness::counts();
    if verbose {
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
