//! Random programs on a backend whose values have memory: writes in place, views, inputs that share memory, random
//! numbers, a global state, and statements that raise when half of a graph has run. Translated they give the same as
//! in CPython: results and which of them share memory, exceptions, output, arguments, and the next random numbers.
//!
//! `SOT_MEMORY_PROGRAMS` sets the number of programs, `SOT_MEMORY_SEED` the first one. A failure prints the smallest
//! program that still fails.
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use pyo3::prelude::*;
use sot_core::version::PyVersion;
use sot_harness as harness;
use sot_tests::strided;

const DEFAULT_PROGRAMS: u64 = 1000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}

#[test]
fn programs_that_change_memory_do_what_cpython_does() {
    let programs = number("SOT_MEMORY_PROGRAMS").unwrap_or(DEFAULT_PROGRAMS);
    let first = number("SOT_MEMORY_SEED").unwrap_or(0);
    harness::with_backend("strided", |py| {
        strided::module(py).unwrap();
        let generator = PyModule::from_code(
            py,
            &std::ffi::CString::new(include_str!("generate.py")).unwrap(),
            c"generate.py",
            c"generate",
        )
        .unwrap();
        let (mut graphs, mut hits, mut whole, mut broken, mut translations) = (0, 0, 0, 0, 0);
        for seed in first..first + programs {
            let (statements, makers): (Vec<String>, Vec<String>) =
                generator.call_method1("program", (seed,)).unwrap().extract().unwrap();
            if let Some(failure) = failure(&generator, &statements, &makers) {
                let (statements, failure) = cut_down(&generator, statements, &makers, failure);
                panic!("SOT_MEMORY_SEED={seed}\n{}\n{failure}", source(&generator, &statements, &makers));
            }
            let counts = harness::counts();
            graphs += counts.graphs;
            hits += counts.hits;
            translations += counts.translations;
            whole += u64::from(counts.graphs > 0 && counts.breaks.is_empty() && counts.fallbacks.is_empty());
            broken += u64::from(!counts.breaks.is_empty());
        }
        println!(
            "CPython {}: {programs} programs ({whole} whole, {broken} with breaks): {translations} translations, {graphs} graphs, \
             {hits} hits",
            PyVersion::BUILT_FOR
        );
        assert!(graphs >= programs && hits >= programs && whole >= programs / 4, "too little was translated");
    });
}

fn source(generator: &Bound<'_, PyModule>, statements: &[String], makers: &[String]) -> String {
    generator.call_method1("source", (statements.to_vec(), makers.to_vec())).unwrap().extract().unwrap()
}

/// What the program does differently when it is translated. One that cannot run at all does nothing differently.
fn failure(generator: &Bound<'_, PyModule>, statements: &[String], makers: &[String]) -> Option<String> {
    let source = source(generator, statements, makers);
    let expected = run(generator.py(), &source, false).unwrap();
    harness::reset();
    let actual = match run(generator.py(), &source, true) {
        Ok(actual) => actual,
        Err(error) => return Some(format!("an error of the tracer's: {error}")),
    };
    let mut calls = expected.iter().zip(&actual).enumerate();
    if let Some((call, (expected, actual))) = calls.find(|(_, (expected, actual))| expected != actual) {
        return Some(format!("call {} differs\nCPython:\n{expected}\ntranslated:\n{actual}", call + 1));
    }
    harness::counts().fallbacks.into_iter().find(|reason| reason.contains("internal-error"))
}

fn cut_down(
    generator: &Bound<'_, PyModule>,
    mut statements: Vec<String>,
    makers: &[String],
    mut seen: String,
) -> (Vec<String>, String) {
    let mut at = 0;
    while at < statements.len() {
        let mut fewer = statements.clone();
        fewer.remove(at);
        // What names a variable that is gone raises in both.
        match failure(generator, &fewer, makers) {
            Some(failure) => (statements, seen) = (fewer, failure),
            None => at += 1,
        }
    }
    (statements, seen)
}

/// What each call of the program's function did.
fn run(py: Python<'_>, source: &str, translated: bool) -> PyResult<Vec<String>> {
    let module = harness::load_module(py, source, Path::new("program.py"))?;
    let makers: Vec<Bound<'_, PyAny>> = module.getattr("makers")?.extract()?;
    module.delattr("makers")?;
    harness::observe(&module, "f", &makers, translated)
}
