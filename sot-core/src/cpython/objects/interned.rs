//! Names as CPython interns them.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyString;
use rustc_hash::FxHashMap;

/// Programs name fewer attributes than this; one that makes up names must not fill the memory.
const MOST: usize = 1 << 14;

/// The interned string of a name. Those asked for are kept: to make one anew, only for CPython to find that it has it,
/// takes several times as long.
pub fn interned<'py>(py: Python<'py>, name: &str) -> Bound<'py, PyString> {
    static NAMES: Mutex<Option<FxHashMap<Box<str>, Py<PyString>>>> = Mutex::new(None);
    // Whoever holds the lock is attached to the interpreter and runs no code of the program's.
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let names = names.get_or_insert_default();
    if let Some(known) = names.get(name) {
        return known.bind(py).clone();
    }
    if names.len() == MOST {
        names.clear();
    }
    let made = PyString::intern(py, name);
    names.insert(name.into(), made.clone().unbind());
    made
}
