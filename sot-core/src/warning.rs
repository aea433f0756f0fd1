//! Warnings to the program about code of its own that the tracer calls: what it raised, and where.

use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;

use crate::cpython;

/// Warns the program. Where warnings are errors, the error is given to `sys.unraisablehook`: in the program it would
/// be mistaken for an error of the program's own code.
pub(crate) fn warn(py: Python<'_>, text: &str) {
    let warned = cpython::import(py, "warnings")
        .and_then(|warnings| warnings.call_method1("warn", (text, py.get_type::<PyRuntimeWarning>())));
    if let Err(error) = warned {
        error.write_unraisable(py, None);
    }
}

/// Shows an exception, with the place that raised it.
pub(crate) fn told(py: Python<'_>, error: &PyErr) -> String {
    match raised_at(py, error) {
        Ok(Some((file, line))) => format!("{error} ({file}:{line})"),
        _ => error.to_string(),
    }
}

/// Returns the file and the line of an exception's innermost Python frame.
fn raised_at(py: Python<'_>, error: &PyErr) -> PyResult<Option<(String, u32)>> {
    let Some(outermost) = error.traceback(py) else { return Ok(None) };
    let mut at = outermost.into_any();
    while let Some(inner) = at.getattr_opt("tb_next")?.filter(|inner| !inner.is_none()) {
        at = inner;
    }
    let file = at.getattr("tb_frame")?.getattr("f_code")?.getattr("co_filename")?.extract()?;
    Ok(Some((file, at.getattr("tb_lineno")?.extract()?)))
}
