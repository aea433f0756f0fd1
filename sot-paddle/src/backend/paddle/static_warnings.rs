//! Drops the warnings of values of a program about questions that have no answer in static mode, such as
//! `value.place`. To the user, the code that asks runs in eager mode. So these warnings are dropped while a statement
//! of a trace is built.
//!
//! Paddle also gives such a warning if an in-place function is called in static mode, where it does not write in
//! place. A function of the program that becomes one statement must not make such a call.

use std::cell::{Cell, RefCell};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sot_core::cpython;

thread_local! {
    static BUILDING: Cell<usize> = const { Cell::new(0) };
    static NODES: RefCell<Vec<Option<String>>> = const { RefCell::new(Vec::new()) };
}

/// While this lives, this thread calls a function of the program that is one statement.
pub(crate) struct NodeScope(());

impl NodeScope {
    pub(crate) fn begin() -> NodeScope {
        NODES.with_borrow_mut(|nodes| nodes.push(None));
        NodeScope(())
    }

    /// Returns the first warning about a function in place.
    pub(crate) fn end(self) -> Option<String> {
        NODES.with_borrow_mut(|nodes| nodes.last_mut().and_then(Option::take))
    }
}

impl Drop for NodeScope {
    fn drop(&mut self) {
        NODES.with_borrow_mut(|nodes| drop(nodes.pop()));
    }
}

/// While this lives, this thread builds a statement of a trace.
pub(crate) struct StatementScope(());

impl StatementScope {
    pub(crate) fn begin() -> StatementScope {
        BUILDING.set(BUILDING.get() + 1);
        StatementScope(())
    }
}

impl Drop for StatementScope {
    fn drop(&mut self) {
        BUILDING.set(BUILDING.get() - 1);
    }
}

/// True while this thread builds a statement of a trace.
pub(crate) fn is_building() -> bool {
    BUILDING.get() > 0
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
        if is_building() {
            return Ok(());
        }
        self.warnings.bind(args.py()).getattr("warn")?.call(args, kwargs).map(drop)
    }

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.warnings.bind(py).getattr(name)
    }
}

/// Stands for the module `warnings` in the module that makes functions in place.
#[pyclass(frozen, module = "sot")]
struct InPlaceWarnings {
    warnings: Py<PyAny>,
}

#[pymethods]
impl InPlaceWarnings {
    #[pyo3(signature = (*args, **kwargs))]
    fn warn(&self, args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let text = args.get_item(0).map_or_else(|_| String::new(), |text| text.to_string());
        let is_noted = NODES.with_borrow_mut(|nodes| match nodes.last_mut() {
            Some(noted) => {
                noted.get_or_insert(text);
                true
            }
            None => false,
        });
        if is_noted {
            return Ok(());
        }
        self.warnings.bind(args.py()).getattr("warn")?.call(args, kwargs).map(drop)
    }

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.warnings.bind(py).getattr(name)
    }
}

/// Replaces `warnings` in Paddle's modules.
pub(crate) fn install(py: Python<'_>) -> PyResult<()> {
    let methods = cpython::import(py, "paddle.pir.math_op_patch")?;
    let warnings = methods.getattr("warnings")?;
    if warnings.cast::<StaticWarnings>().is_err() {
        methods.setattr("warnings", Bound::new(py, StaticWarnings { warnings: warnings.unbind() })?)?;
    }
    let functions = cpython::import(py, "paddle.utils.inplace_utils")?;
    let warnings = functions.getattr("warnings")?;
    if warnings.cast::<InPlaceWarnings>().is_err() {
        functions.setattr("warnings", Bound::new(py, InPlaceWarnings { warnings: warnings.unbind() })?)?;
    }
    Ok(())
}
