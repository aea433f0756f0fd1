//! Output of numbers that differ from call to call does not need a new translation for each number.
//!
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use pyo3::prelude::*;
use sot_harness as harness;

const SOURCE: &str = "\
import logging
import toy

LOGGER = logging.Logger('quiet', logging.CRITICAL)

def argument(x, n):
    print(n, f'{n:.3f}', f'{n}', str(n + 1))
    LOGGER.info('n is %s', n)
    return x * 2

def read(x, n):
    loss = (x * n).sum()
    print(float(loss))
    return x * 2

def read_for_a_text(x, n):
    loss = (x * n).sum()
    print(f'loss {float(loss):.4f}')
    return x * 2

MAKERS = [lambda n=n: (toy.arange(3) + n, 1.5) for n in range(12)]
NUMBERS = [lambda n=n: (toy.arange(3), n + 0.5) for n in range(12)]
";

#[test]
fn numbers_are_printed_without_being_assumed() {
    harness::with_tracer(|py| {
        for (name, makers, most) in
            [("argument", "NUMBERS", 2), ("read", "MAKERS", 3), ("read_for_a_text", "MAKERS", 3)]
        {
            let load = || harness::load_module(py, SOURCE, Path::new("output.py")).unwrap();
            let run = |translated| {
                let module = load();
                let makers: Vec<Bound<'_, PyAny>> = module.getattr(makers).unwrap().extract().unwrap();
                harness::observe(&module, name, &makers, translated).unwrap()
            };
            let expected = run(false);
            harness::reset();
            assert_eq!(run(true), expected);
            let counts = harness::counts();
            assert!(counts.translations <= most && counts.fallbacks.is_empty(), "{name}: {counts:?}");
            assert!(counts.graphs >= 1, "{name}: {counts:?}");
        }
    });
}
