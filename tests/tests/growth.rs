//! The programs of `growth/programs.py` on some number of items, on twice and on four times as many: the tracer's own
//! counts of its work grow no faster than the data.
//!
//! Each program is a test: `cargo test --test growth keywords`.
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::ExitCode;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sot_core::stats;
use sot_harness as harness;
use sot_harness::suite::{self, Case};

/// How many items there are at first.
const ITEMS: usize = 150;
/// Work may grow by so many tenths where the data doubles: some of it does not depend on the data, and tables grow by
/// leaps.
const MOST_TENTHS: u64 = 26;

/// Programs that write to a container item by item. Each write makes the tracer's picture of it anew, which counts as
/// instructions, and so has a limit.
const ITEM_BY_ITEM: &[&str] = &["objects_made", "list_from_outside"];

/// The work of one translation of a program over `items` items, and the instructions that it follows.
fn work_of(py: Python<'_>, program: &Bound<'_, PyAny>, tensor: &Bound<'_, PyAny>, items: usize) -> (u64, u64) {
    let function = program.call1((items,)).unwrap();
    let expected = program.call1((items,)).unwrap().call1((tensor,)).unwrap();
    harness::reset();
    harness::mark(&function).unwrap();
    let before = stats::work_done();
    let args = PyTuple::new(py, [tensor]).unwrap();
    let result = harness::call(&function, &args, None).unwrap();
    let counts = harness::counts();
    let name = program.getattr("__name__").unwrap();
    assert!(counts.graphs >= 1 && counts.fallbacks.is_empty(), "{name}: {counts:?}");
    let describe = |value: &Bound<'_, PyAny>| match value.cast::<PyTuple>() {
        Ok(values) => values.get_slice(1, values.len()).len(),
        Err(_) => 0,
    };
    assert_eq!(describe(&result), describe(&expected));
    (stats::work_done() - before, stats::snapshot().1.instructions)
}

/// What grows faster than the data, if anything.
fn check(py: Python<'_>, name: &str) -> Result<(), String> {
    let module = programs(py);
    let (tensor, program) = (module.call_method0("tensor").unwrap(), module.getattr(name).unwrap());
    let counts = [1, 2, 4].map(|times| work_of(py, &program, &tensor, ITEMS * times));
    if suite::is_chosen() {
        println!("{name}: {counts:?}");
    }
    let grows = |from: u64, to: u64| to * 10 > from.max(ITEMS as u64) * MOST_TENTHS;
    let is_limited = ITEM_BY_ITEM.contains(&name);
    let mut pairs = counts.windows(2);
    if pairs.any(|pair| grows(pair[0].0, pair[1].0) || !is_limited && grows(pair[0].1, pair[1].1)) {
        return Err(format!("{counts:?}"));
    }
    Ok(())
}

fn programs(py: Python<'_>) -> Bound<'_, PyModule> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("growth/programs.py");
    harness::load_module(py, &std::fs::read_to_string(&path).unwrap(), &path).unwrap()
}

fn main() -> ExitCode {
    let names: Vec<String> = harness::with_tracer(|py| {
        let all: Vec<Bound<'_, PyAny>> = programs(py).getattr("PROGRAMS").unwrap().extract().unwrap();
        all.iter().map(|program| program.getattr("__name__").unwrap().to_string()).collect()
    });
    let all = names.len();
    let cases = names.into_iter().map(|name| Case::new(name.clone(), move |py| check(py, &name)));
    suite::run(cases.collect(), || format!("{all} programs over {ITEMS} items and more"))
}
