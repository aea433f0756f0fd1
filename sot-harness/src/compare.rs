//! Compares a program run by CPython with its translation.

use std::ffi::CString;
use std::path::Path;

use pyo3::prelude::*;

use crate::harness::{counts, load_module, observe, reset, Counts};

/// Number of repetitions of the arguments in [`assert_settles`].
const ROUNDS: usize = 8;

/// Calls function `f` of a source by CPython and translated, once with each of the arguments. These are texts such as
/// `"(toy.arange(3), 2)"`, which are evaluated in the module. Results, exceptions, output, and the final state of the
/// arguments and of the module's variables must be equal. Returns the counts of the translated calls.
///
/// # Panics
/// If the calls differ, or a source is not valid Python.
pub fn run_both(py: Python<'_>, source: &str, arguments: &[&str]) -> Counts {
    let expected = run(py, source, arguments, false);
    reset();
    let translated = run(py, source, arguments, true);
    let counts = counts();
    for ((expected, translated), arguments) in expected.iter().zip(&translated).zip(arguments) {
        assert_eq!(expected, translated, "by CPython, and translated, of f{arguments} in\n{source}\n{counts:?}");
    }
    counts
}

fn run(py: Python<'_>, source: &str, arguments: &[&str], translated: bool) -> Vec<String> {
    let attempt = || -> PyResult<Vec<String>> {
        let module = load_module(py, source, Path::new("program.py"))?;
        let maker = |text: &&str| py.eval(&CString::new(format!("lambda: {text}"))?, Some(&module.dict()), None);
        let makers = arguments.iter().map(maker).collect::<PyResult<Vec<_>>>()?;
        observe(&module, "f", &makers, translated)
    };
    attempt().unwrap_or_else(|error| panic!("{error}\n{source}"))
}

/// As [`run_both`], and requires that the first call translates the function to one graph, which all other calls run.
/// With a single argument, the function is called twice.
///
/// # Panics
/// If the calls differ, or the function is not one graph.
pub fn assert_one_graph(py: Python<'_>, source: &str, arguments: &[&str]) -> Counts {
    let twice = arguments.repeat(if arguments.len() == 1 { 2 } else { 1 });
    let counts = run_both(py, source, &twice);
    let hits = twice.len() as u64 - 1;
    let whole = Counts { translations: 1, misses: 1, hits, graphs: 1, ..Counts::default() };
    assert_eq!(counts, whole, "one graph, which all calls but the first run, of\n{source}");
    counts
}

/// As [`run_both`] with repeated arguments, and requires that at most `most` translations are made, and that no frame
/// is left to CPython.
///
/// # Panics
/// If the calls differ, or there are more translations or a fallback.
pub fn assert_settles(py: Python<'_>, source: &str, arguments: &[&str], most: u64) -> Counts {
    let many = arguments.repeat(ROUNDS);
    let counts = run_both(py, source, &many);
    assert!(counts.translations <= most, "more than {most} translations of\n{source}\n{counts:?}");
    assert!(counts.fallbacks.is_empty(), "left to CPython:\n{source}\n{counts:?}");
    assert!(counts.hits >= many.len() as u64 - most, "too few hits of\n{source}\n{counts:?}");
    counts
}
