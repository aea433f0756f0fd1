//! Functions of `programs/*.py`, simulated without a frame or a backend and compared with what CPython makes of them.
//! All values in them are known, so the whole result is. `case_*` must be followed to the end; `break_*` must not be. A
//! number in a file's name is the oldest minor version whose syntax it needs.
//!
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sot_core::backend::{
    Backend, CallPolicy, GivenArguments, GraphBuilder, ObjectTest, StateTest, TensorAttribute, TensorMeta,
};
use sot_core::error::{Flow, Unwind};
use sot_core::executor::{names, CodeUnit, Exit, Frame, Handover, History, OpcodeExecutor};
use sot_core::runtime::Runtime;
use sot_core::variable::VarId;
use sot_core::version::PyVersion;
use sot_opcodes_py312 as _;
use sot_opcodes_py38 as _;
use sot_variables::classes::exception;

#[test]
fn programs_mean_what_cpython_says() {
    Python::initialize();
    Python::attach(|py| {
        let runtime = Runtime::start(py, "none").unwrap_or_else(|error| panic!("{error}"));
        let mut failures = Vec::new();
        let mut count = 0;
        for path in programs() {
            let module = load(py, &path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            for (name, function) in functions(&module) {
                count += 1;
                if let Err(what) = check(py, runtime, &module, &name, &function) {
                    failures.push(format!("{} {name}: {what}", path.file_stem().unwrap().to_string_lossy()));
                }
            }
        }
        assert!(count > 0, "no programs");
        assert!(failures.is_empty(), "{} of {count} programs differ:\n{}", failures.len(), failures.join("\n"));
    });
}

fn programs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| needs(path) <= PyVersion::BUILT_FOR);
    paths.sort();
    paths
}

/// `pattern_310.py` needs CPython 3.10.
fn needs(path: &Path) -> PyVersion {
    let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
    let minor = stem.rsplit_once("_3").and_then(|(_, minor)| minor.parse().ok());
    minor.map_or(PyVersion::OLDEST, PyVersion)
}

fn load<'py>(py: Python<'py>, path: &Path) -> PyResult<Bound<'py, PyModule>> {
    let text = |text: String| CString::new(text).unwrap();
    let source = text(std::fs::read_to_string(path).unwrap());
    let name = text(path.file_stem().unwrap().to_string_lossy().into_owned());
    PyModule::from_code(py, &source, &text(path.display().to_string()), &name)
}

fn functions<'py>(module: &Bound<'py, PyModule>) -> Vec<(String, Bound<'py, PyAny>)> {
    let all = module.dict().iter().map(|(name, value)| (name.extract::<String>().unwrap(), value));
    all.filter(|(name, _)| name.starts_with("case_") || name.starts_with("break_")).collect()
}

fn check<'py>(
    py: Python<'py>,
    runtime: &'static Runtime,
    module: &Bound<'py, PyModule>,
    name: &str,
    function: &Bound<'py, PyAny>,
) -> Result<(), String> {
    let simulated = simulate(py, runtime, &module.dict(), function);
    let expected = match function.call0() {
        Ok(value) => describe(&value),
        Err(error) => describe_raised(&error.into_value(py).into_bound(py)),
    };
    match simulated {
        Err(Unwind::BreakGraph(_) | Unwind::Fallback(_)) if name.starts_with("break_") => Ok(()),
        Err(Unwind::BreakGraph(reason) | Unwind::Fallback(reason)) => Err(reason.to_string()),
        Err(Unwind::Internal(error)) => Err(format!("internal error: {error}")),
        Err(Unwind::Restart(_)) => Err("a restart was asked for".to_owned()),
        Err(Unwind::Raise(_)) => Err("an exception that was not described".to_owned()),
        Ok(_) if name.starts_with("break_") => Err("was followed to the end".to_owned()),
        Ok(text) if text == expected => Ok(()),
        Ok(text) => Err(format!("simulated {text}, CPython {expected}")),
    }
}

fn simulate<'py>(
    py: Python<'py>,
    runtime: &'static Runtime,
    globals: &Bound<'py, PyDict>,
    function: &Bound<'py, PyAny>,
) -> Flow<String> {
    let mut cx = OpcodeExecutor::new(py, runtime, globals, Rc::new(History::default()), Handover::default())?;
    match run(&mut cx, globals, function) {
        Ok(value) => match cx.materialize(value)? {
            Some(value) => Ok(describe(&value)),
            None => Ok(format!("something not known: {}", cx.trace.text(value))),
        },
        Err(Unwind::Raise(exception)) => {
            let real = exception::replica(&mut cx, exception)?;
            Ok(real.map_or_else(|| cx.trace.text(exception), |real| describe_raised(&real)))
        }
        Err(unwind) => Err(unwind),
    }
}

fn run<'py>(cx: &mut OpcodeExecutor<'py>, globals: &Bound<'py, PyDict>, function: &Bound<'py, PyAny>) -> Flow<VarId> {
    let unit = CodeUnit::new(&function.getattr("__code__")?).unwrap();
    let globals = names::globals_of(cx, globals, None)?;
    let mut frame = Frame::new(unit, globals);
    cx.trace.make_cells(&mut frame, &[]);
    match cx.run_frame(frame)?.0 {
        Exit::Return(value) => Ok(value),
        Exit::Yield(_) => panic!("a function yielded"),
    }
}

fn describe(value: &Bound<'_, PyAny>) -> String {
    value.repr().unwrap().to_string()
}

fn describe_raised(exception: &Bound<'_, PyAny>) -> String {
    let context = |name: &str| exception.getattr(name).unwrap().repr().unwrap();
    let (cause, context) = (context("__cause__"), context("__context__"));
    format!("raised {}, cause {cause}, context {context}", describe(exception))
}

/// A framework without tensors.
struct NoFramework;

sot_core::backend! { "none", |_| Ok(Box::new(NoFramework)) }

impl Backend for NoFramework {
    fn name(&self) -> &'static str {
        "none"
    }
    fn is_tensor(&self, _: &Bound<'_, PyAny>) -> bool {
        false
    }
    fn is_parameter(&self, _: &Bound<'_, PyAny>) -> bool {
        false
    }
    fn meta(&self, _: &Bound<'_, PyAny>) -> PyResult<TensorMeta> {
        unreachable!("there are no tensors")
    }
    fn tensor_test(&self, _: &Bound<'_, PyAny>, _: &TensorMeta, _: i64) -> PyResult<Box<dyn ObjectTest>> {
        unreachable!("there are no tensors")
    }
    fn state_test(&self, _: Python<'_>) -> PyResult<Box<dyn StateTest>> {
        Ok(Box::new(NoState))
    }
    fn tensor_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(py.None().into_bound(py))
    }
    fn call_policy(&self, _: &Bound<'_, PyAny>, _: &mut dyn GivenArguments) -> CallPolicy {
        CallPolicy::Follow
    }
    fn tensor_attribute(
        &self,
        _: Python<'_>,
        _: &str,
        _: &TensorMeta,
        _: &Bound<'_, PyAny>,
    ) -> PyResult<TensorAttribute> {
        Ok(TensorAttribute::Missing)
    }
    fn begin(&self, _: Python<'_>) -> PyResult<Box<dyn GraphBuilder>> {
        unreachable!("there is no graph")
    }
}

struct NoState;

impl StateTest for NoState {
    fn check(&self, _: Python<'_>) -> bool {
        true
    }
    fn describe(&self) -> String {
        "True".to_owned()
    }
    fn restore(&self, _: Python<'_>) -> PyResult<()> {
        Ok(())
    }
}
