//! Registrations at run time on the toy framework: calls of an API on the break list run natively, with a graph
//! before and behind them, and calls of registered functions have their registered meaning.
//!
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use pyo3::prelude::*;
use sot_core::registered::Meaning;
use sot_core::registering;
use sot_core::runtime::Runtime;
use sot_harness::{self as harness, Counts};

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

fn register(object: &Bound<'_, PyAny>, meaning: Meaning) -> PyResult<u64> {
    registering::register(Runtime::get().unwrap(), object, meaning, true)
}

fn undo(py: Python<'_>, token: u64) {
    registering::undo(Runtime::get().unwrap(), py, token).unwrap();
}

const CALLS: &str = "
import gc

def opaque_number(n):
    return gc.isenabled() + n

def opaque(x):
    gc.isenabled()
    return x * 2

def clear(x):
    return x * 2

def calls_opaque_number(x):
    return (x + 1) * opaque_number(2)

def calls_opaque(x):
    return opaque(x + 1) - 1

def calls_helper(x):
    return helper(x + 1) - 1
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
    let (first, second) = (register(&object, Meaning::Break).unwrap(), register(&object, Meaning::Break).unwrap());
    undo(py, first);
    undo(py, first);
    let during = run();
    undo(py, second);
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
fn a_change_forgets_what_it_concerns_and_keeps_the_counters() {
    harness::with_tracer(|py| {
        let module = harness::load_module(py, SOURCE, Path::new("steering.py")).unwrap();
        let makers = [module.getattr("arguments").unwrap()];
        harness::reset();
        let run = || harness::observe(&module, "f", &makers, true).unwrap();
        run();
        let floor = py.import("math").unwrap().getattr("floor").unwrap();
        undo(py, register(&floor, Meaning::Break).unwrap());
        run();
        let counts = harness::counts();
        assert_eq!((counts.translations, counts.misses, counts.hits), (1, 1, 1), "{counts:?}");
        undo(py, register(&module.getattr("helper").unwrap(), Meaning::Break).unwrap());
        run();
        let counts = harness::counts();
        assert_eq!((counts.translations, counts.misses, counts.hits), (2, 2, 1), "{counts:?}");
    });
}

/// A function, what is registered for it, and the number of graphs and breaks.
type Case = (&'static str, fn(&Bound<'_, PyModule>) -> Meaning, (u64, usize), (u64, usize));

#[test]
fn calls_mean_what_is_registered() {
    let cases: [Case; 5] = [
        ("opaque_number", |_| Meaning::Pure, (2, 1), (1, 0)),
        ("opaque_number", |_| Meaning::ConstantResult, (2, 1), (1, 0)),
        ("opaque", |module| Meaning::Substitute(module.getattr("clear").unwrap().unbind()), (2, 1), (1, 0)),
        ("helper", |_| Meaning::Statement, (1, 0), (1, 0)),
        ("helper", |_| Meaning::Disabled, (1, 0), (2, 1)),
    ];
    harness::with_tracer(|py| {
        let source = format!("{SOURCE}{CALLS}");
        let module = harness::load_module(py, &source, Path::new("steering.py")).unwrap();
        let makers = [module.getattr("arguments").unwrap()];
        for (name, meaning, before, during) in cases {
            let calls = format!("calls_{name}");
            let expected = harness::observe(&module, &calls, &makers, false).unwrap();
            let run = |word: &str| {
                harness::reset();
                assert_eq!(harness::observe(&module, &calls, &makers, true).unwrap(), expected, "{name} {word}");
                assert_eq!(harness::observe(&module, &calls, &makers, true).unwrap(), expected, "{name} {word}");
                let counts = harness::counts();
                assert!(counts.hits > 0 && counts.fallbacks.is_empty(), "{name} {word}: {counts:?}");
                (counts.graphs, counts.breaks.len())
            };
            assert_eq!(run("before"), before, "{name}");
            let object = module.getattr(name).unwrap();
            let token = register(&object, meaning(&module)).unwrap();
            assert_eq!(run("registered"), during, "{name}");
            undo(py, token);
            assert_eq!(run("undone"), before, "{name}");
        }
    });
}
