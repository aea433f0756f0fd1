//! Programs with deeply nested calls, and programs on small stacks: each gives the right result or raises
//! `RecursionError`, and the process does not die. Each runs in a process of its own (`deep_calls/program.py`).
//!
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::Command;

const LEFT: &str = "left: stack-nearly-used-up";

/// What the program prints.
fn run(function: &str, n: u64, stack: u64, limit: u64) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("deep_calls/program.py");
    let numbers = [n, stack, limit].map(|number| number.to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_translated_python"));
    let output = command.arg(script).arg(function).args(numbers).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{function}({n}): {}\n{out}{err}", output.status);
    out.into_owned()
}

#[test]
fn small_stacks_hold_what_is_called_but_no_simulation() {
    for stack in [64 << 10, 128 << 10, 256 << 10] {
        for function in ["plain", "by_operator"] {
            let out = run(function, 10, stack, 0);
            assert!(out.contains("gives 10") && out.contains(LEFT), "{function}, {stack} bytes: {out}");
        }
    }
    let out = run("plain", 10, 1 << 20, 0);
    assert!(out.contains("gives 10") && !out.contains(LEFT), "{out}");
}

#[test]
fn calls_nest_as_deeply_as_cpython_lets_them() {
    for function in ["plain", "by_operator", "by_key", "by_generator"] {
        let out = run(function, 300, 0, 0);
        assert!(out.contains("gives 300") && !out.contains(LEFT), "{function}: {out}");
    }
    let out = run("endless", 0, 0, 0);
    assert!(out.contains("raises RecursionError") && !out.contains(LEFT), "{out}");
}

#[test]
fn calls_for_which_the_stack_is_too_small_raise() {
    for function in ["plain", "by_map", "by_operator", "by_key", "by_generator", "endless"] {
        let out = run(function, 50_000, 1 << 20, 1_000_000);
        assert!(out.contains("raises RecursionError"), "{function}: {out}");
    }
    let out = run("plain", 100_000, 0, 1_000_000);
    assert!(out.contains("raises RecursionError"), "{out}");
}

#[test]
fn near_the_end_of_the_stack_frames_are_left_to_cpython() {
    // A level takes some hundred bytes: a quarter of 16 MB is what a simulation wants, up to 2 MB.
    let out = run("plain", 5_000, 4 << 20, 100_000);
    assert!(out.contains("gives 5000") || out.contains("raises RecursionError"), "{out}");
    let mut left = 0;
    for n in (500..10_000).step_by(500) {
        let out = run("translated_deep_down", n, 4 << 20, 100_000);
        assert!(out.contains("gives 8") || out.contains("raises RecursionError"), "{n} levels: {out}");
        left += usize::from(out.contains(LEFT) && out.contains("gives 8"));
    }
    assert!(left > 0, "no depth at which a call fits, and a simulation does not");
}

#[test]
fn values_nested_too_deeply_for_new_code_are_made_by_cpython() {
    for function in ["nested_list", "nested_objects"] {
        let out = run(function, 90_000, 0, 0);
        assert!(out.contains("gives 90000"), "{function}: {out}");
    }
}
