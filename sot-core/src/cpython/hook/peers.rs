//! Other tracers in the process. Each library that the tracer is linked into has a hook of its own. The hooks know
//! each other by a set of addresses in the dict of `sys`, under a name that no program uses.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::PySet;

use crate::cpython::import;
use crate::cpython::layout::hook_entry;

/// Key of the set of hook addresses.
const KEY: &str = "<sot hooks>";

static IS_NAMED: AtomicBool = AtomicBool::new(false);

/// Adds this library's hook to the set, at the first call.
#[inline]
pub(in crate::cpython) fn name_ours(py: Python<'_>) {
    if !IS_NAMED.load(Ordering::Relaxed) {
        let named = hooks(py).and_then(|hooks| hooks.add(hook_entry as *const () as usize));
        IS_NAMED.store(named.is_ok(), Ordering::Relaxed);
    }
}

/// True if an evaluator is the hook of another tracer.
#[cold]
pub(in crate::cpython) fn is_one(py: Python<'_>, evaluator: usize) -> bool {
    hooks(py).and_then(|hooks| hooks.contains(evaluator)).unwrap_or(false)
}

/// Addresses of the hooks of all tracers.
#[cfg(not(Py_3_9))]
pub(in crate::cpython) fn known(py: Python<'_>) -> Vec<usize> {
    hooks(py).map(|hooks| hooks.iter().filter_map(|hook| hook.extract().ok()).collect()).unwrap_or_default()
}

fn hooks(py: Python<'_>) -> PyResult<Bound<'_, PySet>> {
    let shared = import(py, "sys")?.dict();
    if let Some(hooks) = shared.get_item(KEY)? {
        return Ok(hooks.cast_into()?);
    }
    let hooks = PySet::empty(py)?;
    shared.set_item(KEY, &hooks)?;
    Ok(hooks)
}
