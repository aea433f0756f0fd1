//! Runs Python functions with the tracer on the toy framework, and counts translations, hits and graphs. Python code
//! has the same functions as `toy.translate`, `toy.stats` and `toy.reset`.

use std::ffi::CString;
use std::path::Path;

use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyFunction, PyTuple};
use sot_core::runtime::Runtime;
use sot_core::stats::{self, Record};
use sot_core::{cache, cpython, translate};

use crate::{steering, toy};

/// Starts the interpreter and the tracer with the toy backend, and runs `work`. Calls are serialised, because tests
/// of a process share the counters.
///
/// # Panics
/// If the tracer does not start.
pub fn with_tracer<R>(work: impl FnOnce(Python<'_>) -> R) -> R {
    with_backend("toy", work)
}

/// As [`with_tracer`], with another backend that is linked. A process can use only one backend.
///
/// # Panics
/// If the tracer does not start.
pub fn with_backend<R>(name: &str, work: impl FnOnce(Python<'_>) -> R) -> R {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    // A failed test leaves no state that the next test does not reset.
    let _turn = ONE_AT_A_TIME.lock();
    // Bugs of the tracer become errors of the test, and a single operation suffices for a graph.
    std::env::set_var("STRICT_MODE", "1");
    std::env::set_var("MIN_GRAPH_SIZE", "0");
    Python::initialize();
    Python::attach(|py| {
        start(py, name).unwrap_or_else(|error| panic!("the tracer does not start: {error}"));
        work(py)
    })
}

fn start(py: Python<'_>, backend: &str) -> PyResult<()> {
    cpython::self_test(py).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    steering::load(py)?;
    Runtime::start(py, backend)?;
    // Tests of a process share the evaluator, which is installed once.
    cpython::set_evaluator(&translate::Translator).ok();
    let module = toy::module(py)?;
    module.add_function(wrap_pyfunction!(python_translate, module)?)?;
    module.add_function(wrap_pyfunction!(python_stats, module)?)?;
    module.add_function(wrap_pyfunction!(reset, module)?)?;
    support(py).map(drop)
}

/// Returns the module `cases`, which case files import, and which describes values as text.
pub fn support(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || {
        let source = CString::new(include_str!("python/cases.py"))?;
        let module = PyModule::from_code(py, &source, c"<toy>/cases.py", c"cases")?;
        py.import("sys")?.getattr("modules")?.set_item("cases", &module)?;
        PyResult::Ok(module.unbind())
    })?;
    Ok(module.bind(py))
}

/// Runs a file of Python source as a new module, which is in `sys.modules` only while it runs. Each module has code
/// objects of its own.
pub fn load_module<'py>(py: Python<'py>, source: &str, path: &Path) -> PyResult<Bound<'py, PyModule>> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let module = PyModule::new(py, &name)?;
    let (builtins, modules) = (py.import("builtins")?, py.import("sys")?.getattr("modules")?);
    module.setattr("__builtins__", &builtins)?;
    module.setattr("__file__", path.display().to_string())?;
    modules.set_item(&name, &module)?;
    let code = support(py)?.call_method1("compiled", (source, path.display().to_string()));
    let done = code.and_then(|code| builtins.call_method1("exec", (code, module.dict())));
    modules.call_method1("pop", (name, py.None()))?;
    done.map(|_| module)
}

/// Marks a function for translation, as the user does. For a bound method, its function is marked.
pub fn mark(function: &Bound<'_, PyAny>) -> PyResult<()> {
    let function = cpython::bound_method(function).map_or_else(|| function.clone(), |(inner, _)| inner);
    let code = cpython::function_code(function.cast::<PyFunction>()?);
    let cache = translate::cache_of(&code).ok_or_else(|| PyRuntimeError::new_err("a code object keeps no cache"))?;
    cache.request();
    Ok(())
}

/// Calls a marked function with the tracer active.
pub fn call<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _active = cpython::enter(function.py()).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    function.call(args, kwargs)
}

/// Calls function `name` of a module with the arguments that each maker returns. Returns a text for each call:
/// result, exception, output, and the final state of the arguments and of the module's variables.
pub fn observe(
    module: &Bound<'_, PyModule>,
    name: &str,
    makers: &[Bound<'_, PyAny>],
    translated: bool,
) -> PyResult<Vec<String>> {
    let py = module.py();
    let function = module.getattr(name)?;
    if translated {
        mark(&function)?;
    }
    let caller = Py::new(py, Caller { translated })?;
    let observe = support(py)?.getattr("observe")?;
    makers.iter().map(|maker| observe.call1((module, &function, maker, &caller))?.extract()).collect()
}

/// Calls a function with a tuple of arguments, with or without the tracer.
#[pyclass(frozen)]
struct Caller {
    translated: bool,
}

#[pymethods]
impl Caller {
    fn __call__<'py>(&self, function: &Bound<'py, PyAny>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        if self.translated {
            call(function, args, None)
        } else {
            function.call1(args)
        }
    }
}

/// A callable that runs its function with the tracer active.
#[pyclass(module = "toy")]
pub struct Translated {
    function: Py<PyAny>,
}

#[pymethods]
impl Translated {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        call(self.function.bind(py), args, kwargs)
    }
}

/// Marks a function and returns a callable for it.
pub fn translated(function: &Bound<'_, PyAny>) -> PyResult<Translated> {
    mark(function)?;
    Ok(Translated { function: function.clone().unbind() })
}

#[pyfunction]
#[pyo3(name = "translate")]
fn python_translate(function: &Bound<'_, PyAny>) -> PyResult<Translated> {
    translated(function)
}

/// Counts since the last reset.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Frames that were simulated.
    pub translations: u64,
    /// Frames that ran the code of an existing entry.
    pub hits: u64,
    /// Frames for which no entry held.
    pub misses: u64,
    /// Graphs compiled.
    pub graphs: u64,
    /// Graph breaks, each with reason and place.
    pub breaks: Vec<String>,
    /// Frames left to CPython, each with reason and place.
    pub fallbacks: Vec<String>,
}

/// Returns the counts since the last reset.
pub fn counts() -> Counts {
    let (hits, stats) = stats::snapshot();
    let list = |reasons: &std::collections::BTreeMap<String, u64>| {
        reasons.iter().flat_map(|(reason, &n)| std::iter::repeat_n(reason.clone(), n as usize)).collect()
    };
    Counts {
        translations: stats.translations,
        hits,
        misses: stats.misses,
        graphs: stats.graphs,
        breaks: list(&stats.breaks),
        fallbacks: list(&stats.fallbacks),
    }
}

/// True if an opcode has been simulated since the last reset, in a frame that was not left to CPython.
pub fn was_simulated(opcode: u8) -> bool {
    stats::snapshot().1.simulated.contains(opcode)
}

#[pyfunction]
#[pyo3(name = "stats")]
fn python_stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let counts = counts();
    let result = PyDict::new(py);
    result.set_item("translations", counts.translations)?;
    result.set_item("hits", counts.hits)?;
    result.set_item("misses", counts.misses)?;
    result.set_item("graphs", counts.graphs)?;
    result.set_item("breaks", counts.breaks)?;
    result.set_item("fallbacks", counts.fallbacks)?;
    Ok(result)
}

/// Drops all translations and resets the counters.
#[pyfunction]
pub fn reset() {
    stats::reset();
    Python::attach(cache::drop_translations);
}

/// Runs `work` and returns the records of the translations made in it.
pub fn recorded<R>(work: impl FnOnce() -> R) -> (R, Vec<Record>) {
    let before = stats::record_translations(true);
    stats::take_records();
    let result = work();
    stats::record_translations(before);
    (result, stats::take_records())
}
