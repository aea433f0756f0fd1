//! Drops the warnings of values of a program about questions that have no answer in static mode, such as
//! `value.place`. To the user, the code that asks runs in eager mode. So these warnings are dropped while a statement
//! of a trace is built.

use std::cell::Cell;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sot_core::cpython;

thread_local! {
    static BUILDING: Cell<usize> = const { Cell::new(0) };
}

/// While this lives, this thread builds a statement of a trace.
pub(crate) struct Building(());

impl Building {
    pub(crate) fn begin() -> Building {
        BUILDING.set(BUILDING.get() + 1);
        Building(())
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        BUILDING.set(BUILDING.get() - 1);
    }
}

/// Stands for the module `warnings` in the module that defines the methods of values.
#[pyclass(frozen, module = "sot")]
struct StaticWarnings {
    warnings: Py<PyAny>,
}

#[pymethods]
impl StaticWarnings {
    #[pyo3(signature = (*args, **kwargs))]
    fn warn(&self, args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        if BUILDING.get() > 0 {
            return Ok(());
        }
        self.warnings.bind(args.py()).getattr("warn")?.call(args, kwargs).map(drop)
    }

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.warnings.bind(py).getattr(name)
    }
}

/// Replaces `warnings` in the module that defines the methods of values.
pub(crate) fn install(py: Python<'_>) -> PyResult<()> {
    let methods = cpython::import(py, "paddle.pir.math_op_patch")?;
    let warnings = methods.getattr("warnings")?;
    if warnings.cast::<StaticWarnings>().is_err() {
        methods.setattr("warnings", Bound::new(py, StaticWarnings { warnings: warnings.unbind() })?)?;
    }
    Ok(())
}
