//! Functions that the program has registered as one statement. They are called with values of the program. Writes in
//! place are refused: Paddle does not do them in static mode, or does them to copies where eager mode has views.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::backend::numbers::twin::Twin;
use crate::backend::paddle::operation;
use crate::backend::paddle::static_mode::BuildTarget;
use crate::backend::paddle::static_warnings::NodeScope;

/// Operations in place that are none of the program's writes: running statistics, and values without an operand.
const NO_WRITES: [&str; 5] =
    ["pd_op.batch_norm_", "pd_op.sync_batch_norm_", "pd_op.assign_value_", "pd_op.share_data_", "pd_op.full_"];

/// Number of objects in the arguments of a function that are looked into; a list may hold itself.
const MOST_CONTENTS: usize = 10_000;

/// Calls the function, and refuses it if it writes in place.
pub(super) fn call<'py>(
    target: &BuildTarget,
    callee: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = callee.py();
    let before = Twin::operations(py, target)?.len();
    let given = contents(args, kwargs);
    let building = NodeScope::begin();
    let result = callee.call(args, kwargs);
    let said = building.end();
    let now = contents(args, kwargs);
    let appended = Twin::operations(py, target)?.split_off(before);
    match (said, result) {
        (Some(function), _) => Err(refused(&function)),
        (None, Ok(_)) if given.len() != now.len() || given.iter().zip(&now).any(|(one, other)| !one.is(other)) => {
            Err(PyNotImplementedError::new_err("it writes to a list or dict that it is given"))
        }
        (None, Ok(result)) => refuse_writes(&appended).map(|()| result),
        (None, raised) => raised,
    }
}

/// Returns the arguments, and what lists and dicts among them hold.
fn contents<'py>(args: &Bound<'py, PyTuple>, kwargs: Option<&Bound<'py, PyDict>>) -> Vec<Bound<'py, PyAny>> {
    let mut all: Vec<Bound<'py, PyAny>> = args.iter().collect();
    all.extend(kwargs.iter().flat_map(|kwargs| kwargs.values()));
    let mut at = 0;
    while let Some(object) = all.get(at).filter(|_| at < MOST_CONTENTS).cloned() {
        if let Ok(list) = object.cast::<PyList>() {
            all.extend(list.iter());
        } else if let Ok(tuple) = object.cast::<PyTuple>() {
            all.extend(tuple.iter());
        } else if let Ok(dict) = object.cast::<PyDict>() {
            all.extend(dict.iter().flat_map(|(key, value)| [key, value]));
        }
        at += 1;
    }
    all
}

fn refuse_writes(operations: &[Bound<'_, PyAny>]) -> PyResult<()> {
    for operation in operations {
        let name = operation::name_of(operation)?;
        if name.ends_with('_') && !NO_WRITES.contains(&&*name) {
            return Err(refused(name.trim_start_matches("pd_op.")));
        }
    }
    Ok(())
}

fn refused(what: &str) -> PyErr {
    PyNotImplementedError::new_err(format!("it writes to a tensor in place ({what})"))
}
