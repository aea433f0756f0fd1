//! The extension module `sot._sot`.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Gives back `func`.
#[pyfunction]
#[pyo3(signature = (func=None, *, fullgraph=false))]
fn symbolic_translate(py: Python<'_>, func: Option<Py<PyAny>>, fullgraph: bool) -> Py<PyAny> {
    let _ = fullgraph;
    func.unwrap_or_else(|| py.None())
}

/// Counters.
#[pyfunction]
fn stats(py: Python<'_>) -> Bound<'_, PyDict> {
    PyDict::new(py)
}

/// Records since the last call.
#[pyfunction]
fn take_records() -> Vec<Py<PyAny>> {
    Vec::new()
}

/// Forgets every translation.
#[pyfunction]
fn reset() {}

#[pymodule]
fn _sot(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(symbolic_translate, module)?)?;
    module.add_function(wrap_pyfunction!(stats, module)?)?;
    module.add_function(wrap_pyfunction!(take_records, module)?)?;
    module.add_function(wrap_pyfunction!(reset, module)?)
}
