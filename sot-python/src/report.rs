//! Counters, records and reports, as plain Python objects.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use sot_core::cache;
use sot_core::error::Reason;
use sot_core::graph::StatementIR;
use sot_core::report;
use sot_core::stats::{self, Record};

use crate::{face, page};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(get_stats, module)?)?;
    module.add_function(wrap_pyfunction!(reset, module)?)?;
    module.add_function(wrap_pyfunction!(record_translations, module)?)?;
    module.add_function(wrap_pyfunction!(report_details, module)?)?;
    module.add_function(wrap_pyfunction!(report_kept, module)?)?;
    module.add_function(wrap_pyfunction!(report_upcoming, module)?)?;
    module.add_function(wrap_pyfunction!(report_data, module)?)?;
    module.add_function(wrap_pyfunction!(report_forget, module)?)?;
    module.add_function(wrap_pyfunction!(report_page, module)?)?;
    module.add_function(wrap_pyfunction!(take_records, module)?)
}

/// The counters since the last reset.
#[pyfunction]
#[pyo3(name = "stats")]
fn get_stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let (hits, counters) = stats::snapshot();
    let result = PyDict::new(py);
    result.set_item("translations", counters.translations)?;
    result.set_item("hits", hits)?;
    result.set_item("misses", counters.misses)?;
    result.set_item("graphs", counters.graphs)?;
    result.set_item("replayed", counters.replayed)?;
    result.set_item("graph_errors", counters.graph_errors)?;
    result.set_item("panics", counters.panics)?;
    result.set_item("instructions", counters.instructions)?;
    result.set_item("breaks", counters.breaks)?;
    result.set_item("fallbacks", counters.fallbacks)?;
    result.set_item("verified", counters.verified)?;
    result.set_item("differences", counters.differences)?;
    result.set_item("not_verified", counters.not_verified)?;
    result.set_item("seconds", counters.seconds)?;
    Ok(result)
}

/// Forget every translation and set the counters to zero.
#[pyfunction]
fn reset(py: Python<'_>) -> PyResult<()> {
    stats::reset();
    cache::drop_translations(py);
    face::used()?.face.reset();
    Ok(())
}

/// Switches the keeping of records on or off, and returns the former state.
#[pyfunction]
fn record_translations(on: bool) -> bool {
    stats::record_translations(on)
}

/// Switches the collection of details for reports on or off, and returns the former state.
#[pyfunction]
fn report_details(on: bool) -> bool {
    report::collect_details(on)
}

/// Number of translations that are kept for reports.
#[pyfunction]
fn report_kept() -> usize {
    report::number_kept()
}

/// The number that the next translation will have.
#[pyfunction]
fn report_upcoming() -> u64 {
    report::upcoming_id()
}

/// Returns the translations numbered `since` and above as JSON.
#[pyfunction]
fn report_data(since: u64) -> PyResult<String> {
    report::json(since).map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))
}

/// Forgets the translations numbered `since` and above, or all of them.
#[pyfunction]
#[pyo3(signature = (since=None))]
fn report_forget(since: Option<u64>) {
    match since {
        Some(since) => report::truncate(since),
        None => report::clear(),
    }
}

/// Renders a page that shows data. `kind` is `report`, or `index` for the overview of a run's processes.
#[pyfunction]
fn report_page(kind: &str, title: &str, json: &str) -> PyResult<String> {
    page::page(kind, title, json)
        .map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))?
        .ok_or_else(|| pyo3::exceptions::PyValueError::new_err(format!("no such page: {kind}")))
}

/// Returns the records kept since the last call, one for each translation.
#[pyfunction]
fn take_records(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let records = PyList::empty(py);
    for record in stats::take_records() {
        records.append(record_dict(py, &record)?)?;
    }
    Ok(records)
}

fn record_dict<'py>(py: Python<'py>, record: &Record) -> PyResult<Bound<'py, PyDict>> {
    let sir: Vec<String> = record.graphs.iter().map(ToString::to_string).collect();
    let statements: usize = record.graphs.iter().map(StatementIR::operations).sum();
    let result = PyDict::new(py);
    result.set_item("name", &record.name)?;
    result.set_item("filename", &record.filename)?;
    result.set_item("line", record.line)?;
    result.set_item("outcome", if record.fallback { "fallback" } else { "translated" })?;
    result.set_item("sir", sir.join("\n"))?;
    result.set_item("statements", statements)?;
    result.set_item("guards", &record.guards)?;
    result.set_item("reason", record.reason.as_ref().map(ToString::to_string))?;
    let line = record.reason.as_ref().and_then(|reason| reason.stack.first()).map(|place| place.line);
    result.set_item("reason_line", line)?;
    let reason = record.reason.as_ref();
    result.set_item("reason_id", reason.map(|reason| reason.id.id()))?;
    result.set_item("kind", reason.map(|reason| reason.id.kind().name()))?;
    result.set_item("hint", reason.map(Reason::hint))?;
    result.set_item("page", reason.and_then(|reason| reason.id.page()))?;
    result.set_item("report", reason.map(|reason| reason.report(py)))?;
    let stack: Vec<_> = record.reason.iter().flat_map(|reason| &reason.stack).collect();
    let stack: Vec<_> = stack.iter().map(|at| (&at.file, at.line, &at.function, at.columns)).collect();
    result.set_item("stack", stack)?;
    Ok(result)
}
