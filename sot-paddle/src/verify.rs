//! The extension's functions for verify mode; the Python package `sot._verify` does the comparing.

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

/// Sets the callable that verify mode asks before a translated frame runs: given code, globals, function, cells and
/// arguments of the frame, it returns the code object to run in the frame's place, or `None`. `None` turns verify
/// mode off.
#[pyfunction]
#[pyo3(signature = (verifier))]
fn _set_verifier(verifier: Option<Py<PyAny>>) {
    translate::set_verifier(verifier);
}

/// Calls `callable(*args)` with frames translated; the call is not verified itself.
#[pyfunction]
#[pyo3(signature = (callable, *args, **kwargs))]
fn _call_verified<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    translate::call_verified(callable, args, kwargs)
}

/// Like `_call_verified`, for a run whose effects are taken back: it does not count as the first run of the graphs
/// that it calls.
#[pyfunction]
#[pyo3(signature = (callable, *args, **kwargs))]
fn _call_rehearsed<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    second_passes::rehearse_runs(|| translate::call_verified(callable, args, kwargs))
}

/// Like `_call_verified`, for the run after a rehearsal: statistics have counted the rehearsal, and do not count this
/// run.
#[pyfunction]
#[pyo3(signature = (callable, *args, **kwargs))]
fn _call_uncounted<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    translate::call_uncounted(callable, args, kwargs)
}

/// Calls `paddle.grad` for the result of a rehearsal: no later backward pass goes through that result.
#[pyfunction]
#[pyo3(signature = (grad, *args, **kwargs))]
fn _rehearse_pass<'py>(
    grad: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    second_passes::rehearse_pass(|| grad.call(args, kwargs))
}

/// Counts a call that was verified, or the reason why the call was not.
#[pyfunction]
#[pyo3(signature = (differs, not_verified))]
fn _count_verified(differs: bool, not_verified: Option<String>) {
    translate::count_call(differs, not_verified);
}
