//! A Python interpreter with the tracer and the toy framework: runs a script. The module `tracer` has what the script
//! needs to translate functions that know nothing of tensors. Nothing is traced outside of `tracer.run`.
//!
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

use std::process::ExitCode;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCode, PyDict, PyTuple};
use sot_core::{cpython, translate};
use sot_harness as harness;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.is_empty() {
        eprintln!("which script?");
        return ExitCode::from(2);
    }
    harness::with_tracer(|py| match run_script(py, &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.print(py);
            ExitCode::FAILURE
        }
    })
}

fn run_script(py: Python<'_>, arguments: &[String]) -> PyResult<()> {
    let sys = py.import("sys")?;
    sys.setattr("argv", arguments)?;
    let module = PyModule::new(py, "tracer")?;
    module.add_function(wrap_pyfunction!(mark, &module)?)?;
    module.add_function(wrap_pyfunction!(always_compile, &module)?)?;
    module.add_function(wrap_pyfunction!(run, &module)?)?;
    module.add_function(wrap_pyfunction!(frames, &module)?)?;
    sys.getattr("modules")?.set_item("tracer", module)?;
    let globals = [("run_name", "__main__")].into_py_dict(py)?;
    py.import("runpy")?.getattr("run_path")?.call((&arguments[0],), Some(&globals)).map(drop)
}

/// Asks for the translation of a code object's frames.
#[pyfunction]
fn mark(code: &Bound<'_, PyCode>) -> PyResult<()> {
    let cache = translate::cache_of(code).ok_or_else(|| PyRuntimeError::new_err("a code object keeps no cache"))?;
    cache.request();
    Ok(())
}

/// Whether frames without tensor work are compiled, too.
#[pyfunction]
fn always_compile(always: bool) {
    translate::always_compile(always);
}

/// Calls a function with the tracer on.
#[pyfunction]
#[pyo3(signature = (function, *args, **kwargs))]
fn run<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    harness::call(function, args, kwargs)
}

/// How many frames ran new code, and how many panics the frame hook has caught.
#[pyfunction]
fn frames() -> (u64, u64) {
    let counts = cpython::counts();
    (counts.native + counts.called, counts.panics)
}
