//! Interned names.

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyString;
use rustc_hash::FxHashMap;

/// Maximum number of names kept. Programs use fewer names; one that generates names must not fill the memory.
const MAX_NAMES: usize = 1 << 14;

/// Returns the interned string of a name. Strings are kept, because creating a string that CPython then replaces by
/// the interned one takes several times as long.
pub fn interned<'py>(py: Python<'py>, name: &str) -> Bound<'py, PyString> {
    static NAMES: Mutex<Option<FxHashMap<Box<str>, Py<PyString>>>> = Mutex::new(None);
    // The holder of the lock is attached to the interpreter, and runs no code of the program's.
    let mut names = NAMES.lock();
    let names = names.get_or_insert_default();
    if let Some(known) = names.get(name) {
        return known.bind(py).clone();
    }
    if names.len() == MAX_NAMES {
        names.clear();
    }
    let made = PyString::intern(py, name);
    names.insert(name.into(), made.clone().unbind());
    made
}
