//! A program by CPython and translated: what its calls do must be the same.

use std::ffi::CString;
use std::path::Path;

use pyo3::prelude::*;

use crate::harness::{counts, load_module, observe, reset, Counts};

/// How often each of the arguments comes by in [`assert_settles`].
const ROUNDS: usize = 8;

/// Calls function `f` of a source by CPython and translated, once with each of the arguments, which are texts such as
/// `"(toy.arange(3), 2)"`, evaluated in the module. Results, exceptions, output, and what becomes of the arguments and
/// of the module's variables must be the same. What became of the translated calls.
///
/// # Panics
/// If they are not the same, or something is no Python.
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

/// The same, and the function is one graph: the first call translates it, and all others run that. A single argument is
/// called with twice.
///
/// # Panics
/// If it is not.
pub fn assert_one_graph(py: Python<'_>, source: &str, arguments: &[&str]) -> Counts {
    let twice = arguments.repeat(if arguments.len() == 1 { 2 } else { 1 });
    let counts = run_both(py, source, &twice);
    let hits = twice.len() as u64 - 1;
    let whole = Counts { translations: 1, misses: 1, hits, graphs: 1, ..Counts::default() };
    assert_eq!(counts, whole, "one graph, which all calls but the first run, of\n{source}");
    counts
}

/// The same, called with each of the arguments again and again: no more translations than `most` are made, and no frame
/// is left to CPython.
///
/// # Panics
/// If there are more, or a frame is.
pub fn assert_settles(py: Python<'_>, source: &str, arguments: &[&str], most: u64) -> Counts {
    let many = arguments.repeat(ROUNDS);
    let counts = run_both(py, source, &many);
    assert!(counts.translations <= most, "more than {most} translations of\n{source}\n{counts:?}");
    assert!(counts.fallbacks.is_empty(), "left to CPython:\n{source}\n{counts:?}");
    assert!(counts.hits >= many.len() as u64 - most, "too few hits of\n{source}\n{counts:?}");
    counts
}
