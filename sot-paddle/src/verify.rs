//! Verify mode's side of the extension; the Python package `sot._verify` does the work.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sot_core::translate;

use crate::backend::run::second_passes;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_set_verifier, module)?)?;
    module.add_function(wrap_pyfunction!(_call_verified, module)?)?;
    module.add_function(wrap_pyfunction!(_call_rehearsed, module)?)?;
    module.add_function(wrap_pyfunction!(_call_uncounted, module)?)?;
    module.add_function(wrap_pyfunction!(_rehearse_pass, module)?)?;
    module.add_function(wrap_pyfunction!(_count_verified, module)?)
}

/// Has frames that were asked for run the code that a callable gives; or has none do so.
#[pyfunction]
#[pyo3(signature = (verifier))]
fn _set_verifier(verifier: Option<Py<PyAny>>) {
    translate::set_verifier(verifier);
}

/// `callable(*args)` with frames translated, none of which is verified.
#[pyfunction]
#[pyo3(signature = (callable, *args, **kwargs))]
fn _call_verified<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    translate::call_verified(callable, args, kwargs)
}

/// `_call_verified` for a run that is taken back: it is no first run of the graphs that it calls.
#[pyfunction]
#[pyo3(signature = (callable, *args, **kwargs))]
fn _call_rehearsed<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    second_passes::rehearse_runs(|| translate::call_verified(callable, args, kwargs))
}

/// `_call_verified` after a rehearsal, which is the run that is counted.
#[pyfunction]
#[pyo3(signature = (callable, *args, **kwargs))]
fn _call_uncounted<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    translate::call_uncounted(callable, args, kwargs)
}

/// `paddle.grad` for the result of a rehearsal: no other pass comes to it.
#[pyfunction]
#[pyo3(signature = (grad, *args, **kwargs))]
fn _rehearse_pass<'py>(
    grad: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    second_passes::rehearse_pass(|| grad.call(args, kwargs))
}

/// Counts a call that was verified, or why it was not.
#[pyfunction]
#[pyo3(signature = (differs, not_verified))]
fn _count_verified(differs: bool, not_verified: Option<String>) {
    translate::count_call(differs, not_verified);
}
