//! The break list on the toy framework: what is on it runs as it is, and the graph goes on behind it.
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use pyo3::prelude::*;
use sot_core::break_list;
use sot_tests::harness::{self, Counts};

const SOURCE: &str = "\
import math
import toy

def helper(x):
    return x * 2

class Scale:
    def __call__(self, x):
        return x * 3

scale = Scale()

def f(x):
    return helper(x + 1) - 1

def g(x):
    return scale(x + 1) - 1

def h(x):
    return (x + 1).relu() * math.floor(2.5)

def arguments():
    return (toy.arange(2),)
";

/// What becomes of function `name` while the object of an expression is on the list, and after.
fn listed(py: Python<'_>, expression: &str, name: &str) -> (Counts, Counts) {
    let module = harness::load_module(py, SOURCE, Path::new("steering.py")).unwrap();
    let expression = std::ffi::CString::new(expression).unwrap();
    let object = py.eval(&expression, Some(&module.dict()), None).unwrap();
    let makers = [module.getattr("arguments").unwrap()];
    let expected = harness::observe(&module, name, &makers, false).unwrap();
    let run = || {
        harness::reset();
        assert_eq!(harness::observe(&module, name, &makers, true).unwrap(), expected);
        harness::counts()
    };
    assert_eq!(run().graphs, 1);
    assert!(break_list::add(&object) && !break_list::add(&object));
    let during = run();
    assert!(!break_list::remove(&object) && break_list::remove(&object) && !break_list::remove(&object));
    (during, run())
}

#[test]
fn calls_of_what_is_listed_break_the_graph() {
    harness::with_tracer(|py| {
        for (expression, name) in [
            ("helper", "f"),
            ("scale", "g"),
            ("Scale", "g"),
            ("toy.Tensor.relu", "h"),
            ("math.floor", "h"),
            ("toy.Tensor.__add__", "f"),
        ] {
            let (during, after) = listed(py, expression, name);
            assert!(
                during.breaks.len() == 1 && during.breaks[0].starts_with("break-listed: "),
                "{expression}: {during:?}"
            );
            assert!(during.graphs >= 1 && during.fallbacks.is_empty(), "{expression}: {during:?}");
            assert_eq!((after.graphs, after.breaks.len()), (1, 0), "{expression}: {after:?}");
        }
    });
}

#[test]
fn a_change_of_the_list_forgets_translations_and_keeps_the_counters() {
    harness::with_tracer(|py| {
        let module = harness::load_module(py, SOURCE, Path::new("steering.py")).unwrap();
        let makers = [module.getattr("arguments").unwrap()];
        harness::reset();
        harness::observe(&module, "f", &makers, true).unwrap();
        let floor = py.import("math").unwrap().getattr("floor").unwrap();
        break_list::add(&floor);
        break_list::remove(&floor);
        harness::observe(&module, "f", &makers, true).unwrap();
        let counts = harness::counts();
        assert_eq!((counts.translations, counts.misses, counts.hits), (2, 2, 0), "{counts:?}");
    });
}
