//! Compilers of the user's: a function that the program gives makes the callables of finished graphs, in place of the
//! backend. The compiler in use is a state of the thread. Translations guard on it once the process has had any
//! compiler.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::cpython;
use crate::forgetting;
use crate::guard::StateTest;
use crate::ir::StatementIR;
use crate::tracker;
use crate::warning::{told, warn};

thread_local! {
    static CURRENT: RefCell<Option<Py<PyAny>>> = const { RefCell::new(None) };
}

static ANY: AtomicBool = AtomicBool::new(false);

/// Makes translations guard on the compiler in use from now on. The first call drops all existing translations.
pub fn announce() {
    if !ANY.swap(true, Ordering::Relaxed) {
        forgetting::everything();
    }
}

/// True if a compiler was ever announced in this process.
#[inline]
pub fn is_any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Makes this compiler (or, with `None`, the framework's own) the thread's compiler until the result is dropped.
pub fn begin(py: Python<'_>, compiler: Option<&Py<PyAny>>) -> CompilerScope {
    let compiler = compiler.map(|compiler| compiler.clone_ref(py));
    CompilerScope { before: CURRENT.with(|current| current.replace(compiler)) }
}

/// Scope in which a compiler is in use. Dropping it restores the compiler used before.
#[must_use = "the stretch ends when this is dropped"]
pub struct CompilerScope {
    before: Option<Py<PyAny>>,
}

impl Drop for CompilerScope {
    fn drop(&mut self) {
        let before = self.before.take();
        // Dropping a compiler may run the program's code, which may look at the current compiler: restore first.
        let own = CURRENT.with(|current| current.replace(before));
        drop(own);
    }
}

fn current(py: Python<'_>) -> Option<Py<PyAny>> {
    CURRENT.with(|current| current.borrow().as_ref().map(|compiler| compiler.clone_ref(py)))
}

/// Returns the test that the thread's compiler is still the present one; `None` while no compiler was ever announced.
pub(crate) fn test(py: Python<'_>) -> Option<Box<dyn StateTest>> {
    is_any().then(|| Box::new(IsInUse(current(py))) as Box<dyn StateTest>)
}

struct IsInUse(Option<Py<PyAny>>);

impl StateTest for IsInUse {
    fn check(&self, _: Python<'_>) -> bool {
        CURRENT.with(|current| match (&*current.borrow(), &self.0) {
            (Some(current), Some(own)) => current.is(own),
            (current, own) => current.is_none() && own.is_none(),
        })
    }

    fn restore(&self, _: Python<'_>) -> PyResult<()> {
        Ok(())
    }

    fn describe(&self) -> String {
        let shown = |compiler: &Py<PyAny>| Python::attach(|py| shown(py, compiler));
        format!("backend: {}", self.0.as_ref().map_or_else(|| "the framework's own".to_owned(), shown))
    }
}

/// A finished graph, as a compiler is given it.
pub(crate) struct CompilerInput<'a, 'py> {
    /// The statements of the graph.
    pub(crate) ir: &'a StatementIR,
    /// The framework's program, if the backend has built one.
    pub(crate) program: Option<Bound<'py, PyAny>>,
    /// The graph's inputs at this call; `None` for an input that is not available.
    pub(crate) inputs: Vec<Option<Bound<'py, PyAny>>>,
    /// The callable that runs the graph without a compiler.
    pub(crate) callable: &'a Py<PyAny>,
    /// Checks the callable's results: their number at each call, and their metas until the metas were correct once.
    pub(crate) check: CheckResults,
}

/// Checks what a graph's callable returned, given whether an earlier result was correct. The error says what is
/// wrong.
pub(crate) type CheckResults = Box<dyn Fn(&Bound<'_, PyAny>, bool) -> Result<(), String> + Send + Sync>;

/// Returns the callable that the compiler in use makes of a graph. Returns `None` if no compiler is in use, or if it
/// fails; then the program gets a `RuntimeWarning`.
pub(crate) fn compile(py: Python<'_>, graph: CompilerInput<'_, '_>) -> PyResult<Option<Py<PyAny>>> {
    let Some(compiler) = current(py) else { return Ok(None) };
    let made = ask(py, &compiler, &graph).and_then(|made| {
        if made.bind(py).is_callable() {
            return Ok(made);
        }
        let made = tracker::repr(py, &made);
        Err(PyTypeError::new_err(format!("it gave {made}, which is not callable")))
    });
    match made {
        Ok(made) => {
            let (name, check) = (name_of(py, &compiler, &graph), graph.check);
            let (was_right, has_raised) = (AtomicBool::new(false), AtomicBool::new(false));
            let run = move |py: Python<'_>, inputs: &[Bound<'_, PyAny>]| {
                let _quiet = cpython::suspend(py);
                let given = made.bind(py).call1(PyTuple::new(py, inputs)?).inspect_err(|error| {
                    // An error of the graph's operations, which `run` has raised, is the program's.
                    let is_own = !cpython::take_graph_error(error, py) && error.is_instance_of::<PyException>(py);
                    if is_own && !has_raised.swap(true, Ordering::Relaxed) {
                        let text = format!("{name}: what it made raises {}", told(py, error));
                        warn(py, &format!("{text}; calls at which it raises run in CPython"));
                    }
                })?;
                if let Err(why) = check(&given, was_right.load(Ordering::Relaxed)) {
                    let text = format!("{name}: what it made {why}, and the call runs in CPython");
                    warn(py, &text);
                    return Err(PyTypeError::new_err(text));
                }
                was_right.store(true, Ordering::Relaxed);
                Ok(given.unbind())
            };
            cpython::graph_function(py, run).map(Some)
        }
        Err(error) => {
            let name = name_of(py, &compiler, &graph);
            warn(py, &format!("{name} made no callable, and the graph runs without it: {}", told(py, &error)));
            Ok(None)
        }
    }
}

/// Names a compiler and the graph it is given, for messages.
fn name_of(py: Python<'_>, compiler: &Py<PyAny>, graph: &CompilerInput<'_, '_>) -> String {
    format!("{} of graph {}", shown(py, compiler), graph.ir.name)
}

/// Returns the name that the Python interface has given the compiler, else its type and address.
fn shown(py: Python<'_>, compiler: &Py<PyAny>) -> String {
    let named = compiler.bind(py).getattr("shown").and_then(|name| name.extract());
    named.unwrap_or_else(|_| tracker::repr(py, compiler))
}

fn ask(py: Python<'_>, compiler: &Py<PyAny>, graph: &CompilerInput<'_, '_>) -> PyResult<Py<PyAny>> {
    let statements = graph.ir.statements.iter().map(|statement| {
        let told = PyDict::new(py);
        told.set_item("kind", statement.kind.word())?;
        told.set_item("callee", &statement.callee)?;
        told.set_item("args", PyTuple::new(py, &statement.args)?)?;
        told.set_item("kwargs", PyTuple::new(py, &statement.kwargs)?)?;
        told.set_item("outputs", PyTuple::new(py, &statement.outputs)?)?;
        PyResult::Ok(told)
    });
    let told = PyDict::new(py);
    told.set_item("name", &graph.ir.name)?;
    told.set_item("inputs", PyTuple::new(py, &graph.ir.inputs)?)?;
    told.set_item("outputs", PyTuple::new(py, &graph.ir.outputs)?)?;
    told.set_item("statements", PyTuple::new(py, statements.collect::<PyResult<Vec<_>>>()?)?)?;
    told.set_item("text", graph.ir.to_string())?;
    told.set_item("program", &graph.program)?;
    told.set_item("run", graph.callable)?;
    compiler.call1(py, (told, PyTuple::new(py, &graph.inputs)?))
}
