//! The programs of `settling/programs.py`, in each of which some value differs at every one of 400 calls: results are
//! CPython's, and soon no further translation is made.
//!
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashMap;
use std::path::Path;

use pyo3::prelude::*;
use pyo3::types::PyModule;
use sot_harness as harness;

/// Programs that need more than twelve translations: their variants are used again and again, or there are breaks in
/// several places.
const MORE: &[(&str, u32)] = &[
    ("lengths_that_occur_again", 25),
    ("ten_classes", 13),
    ("a_dict_that_grows", 17),
    ("a_new_int_in_range", 14),
    ("a_list_of_strings", 13),
    ("a_list_of_other_numbers", 13),
    ("texts_that_are_searched", 25),
    ("object_that_dies_in_a_function_called", 25),
    ("a_loop_without_tensors", 16),
    ("a_loop_without_tensors_in_a_helper", 16),
];

#[test]
fn translations_come_to_an_end() {
    harness::with_tracer(|py| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("settling");
        let load = |name: &str| -> Bound<'_, PyModule> {
            let path = folder.join(name);
            harness::load_module(py, &std::fs::read_to_string(&path).unwrap(), &path).unwrap()
        };
        let modules = py.import("sys").unwrap().getattr("modules").unwrap();
        modules.set_item("programs", load("programs.py")).unwrap();
        let most: HashMap<&str, u32> = MORE.iter().copied().collect();
        let failures: Vec<String> =
            load("run.py").getattr("failures").unwrap().call1((most,)).unwrap().extract().unwrap();
        modules.del_item("programs").unwrap();
        assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
    });
}
