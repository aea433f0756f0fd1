//! The call of a callee's resume function by its caller's. The callee's frame alone owns the values that it is given:
//! on the caller's stack they would outlive the lines that drop them.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::cpython;

static CALLER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Returns the function that calls its first argument with the others, and keeps none of them alive.
pub(crate) fn callee_caller(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let caller = CALLER.get_or_try_init(py, || {
        let doc = "Calls the resume function of a callee.";
        let caller = cpython::fastcall_taking(py, "__callee__", doc, |_, mut values| {
            if values.is_empty() {
                return Err(PyTypeError::new_err("no function is given"));
            }
            let function = values.remove(0);
            Ok(cpython::call_giving_arguments(&function, values)?.unbind())
        })?;
        Ok::<_, PyErr>(caller.unbind())
    })?;
    Ok(caller.clone_ref(py))
}

/// True if the object is the function that [`callee_caller`] returns.
pub(crate) fn is_callee_caller(object: &Bound<'_, PyAny>) -> bool {
    CALLER.get(object.py()).is_some_and(|caller| caller.is(object))
}
