//! What programs register at run time: the Python interface of [`sot_core::registering`], and blocks without tracing.

use std::thread::{self, ThreadId};

use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use sot_core::cpython;
use sot_core::registered::{FlattenProtocol, RegistrationKind};
use sot_core::registering;
use sot_core::runtime::Runtime;

use crate::extension::add_class;
use crate::translated::Translated;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_class::<DisabledBlock>(module)?;
    module.add_function(wrap_pyfunction!(register_meaning, module)?)?;
    module.add_function(wrap_pyfunction!(undo_registration, module)?)
}

fn runtime() -> PyResult<&'static Runtime> {
    Runtime::get().ok_or_else(|| PyRuntimeError::new_err("the tracer has not started"))
}

/// Registers what an object means. A translated function stands for its target. Returns the token for
/// `undo_registration`.
#[pyfunction]
#[pyo3(signature = (meaning, object, by=None, *, below=false))]
fn register_meaning(
    meaning: &str,
    object: &Bound<'_, PyAny>,
    by: Option<Bound<'_, PyAny>>,
    below: bool,
) -> PyResult<u64> {
    let object = untranslated(object)?;
    let meaning = match (meaning, by) {
        ("break_on", None) => RegistrationKind::Break,
        ("disable", None) => RegistrationKind::Disabled,
        ("pure", None) => RegistrationKind::Pure,
        ("constant_result", None) => RegistrationKind::ConstantResult,
        ("substitute", Some(by)) => RegistrationKind::Substitute(untranslated(&by)?.unbind()),
        ("graph_node", None) => RegistrationKind::Statement,
        ("value_type", None) => RegistrationKind::Value,
        ("container", Some(parts)) => {
            let (flatten, unflatten) = parts.extract()?;
            RegistrationKind::Container(FlattenProtocol { flatten, unflatten })
        }
        ("skip", None) => RegistrationKind::Skipped,
        ("trace", None) => RegistrationKind::Followed,
        (other, _) => return Err(PyValueError::new_err(format!("nothing is registered as {other}"))),
    };
    registering::register(runtime()?, &object, meaning, below)
}

fn untranslated<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match object.cast::<Translated>() {
        Ok(translated) => untranslated(&translated.borrow().target(object.py())?),
        Err(_) => Ok(object.clone()),
    }
}

/// Takes a registration back. A second call does nothing.
#[pyfunction]
fn undo_registration(py: Python<'_>, token: u64) -> PyResult<()> {
    registering::undo(runtime()?, py, token)
}

/// A `with` block in which no frame of the thread is translated.
#[pyclass(module = "sot", frozen)]
struct DisabledBlock {
    recursive: bool,
    // One item for each block that is open: its thread, and the state to go back to.
    were_active: Mutex<Vec<(ThreadId, bool)>>,
}

impl DisabledBlock {
    fn lock(&self) -> MutexGuard<'_, Vec<(ThreadId, bool)>> {
        self.were_active.lock()
    }
}

#[pymethods]
impl DisabledBlock {
    #[new]
    #[pyo3(signature = (recursive=true))]
    fn new(recursive: bool) -> Self {
        DisabledBlock { recursive, were_active: Mutex::default() }
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        if !slf.get().recursive {
            return Err(PyTypeError::new_err(
                "in a with block all is left to CPython: recursive=False is for functions",
            ));
        }
        let was_active = cpython::begin_disabled(slf.py());
        slf.get().lock().push((thread::current().id(), was_active));
        Ok(slf)
    }

    fn __call__<'py>(&self, function: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        register_meaning("disable", &function, None, self.recursive)?;
        Ok(function)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (kind, value, traceback);
        let mut open = self.lock();
        let here = thread::current().id();
        let Some(at) = open.iter().rposition(|(thread, _)| *thread == here) else {
            return Err(PyRuntimeError::new_err(
                "this thread has no such block: a block ends in the thread it began in",
            ));
        };
        let (_, was_active) = open.remove(at);
        drop(open);
        cpython::end_disabled(py, was_active);
        Ok(())
    }
}
