//! The types of builtins' results that CPython fixes: a class returns its instances, and `len` an `int`. A handler
//! that returns anything else has a bug.

use pyo3::prelude::*;
use pyo3::types::PyType;

/// Functions of `builtins`, and the types of their results.
const RESULTS: [(&str, &str); 22] = [
    ("all", "bool"),
    ("any", "bool"),
    ("ascii", "str"),
    ("bin", "str"),
    ("callable", "bool"),
    ("chr", "str"),
    ("dir", "list"),
    ("format", "str"),
    ("hasattr", "bool"),
    ("hash", "int"),
    ("hex", "str"),
    ("id", "int"),
    ("isinstance", "bool"),
    ("issubclass", "bool"),
    ("len", "int"),
    ("oct", "str"),
    ("ord", "int"),
    ("repr", "str"),
    ("sorted", "list"),
    ("str.join", "str"),
    ("str.split", "list"),
    ("dict.copy", "dict"),
];

/// Classes whose calls may return an object that is not their instance, because a method of the argument makes it.
const MAY_GIVE_OTHERS: [&str; 1] = ["reversed"];

/// Returns the type of all results of a builtin, if CPython fixes one.
pub(super) fn type_of_results(path: &str, object: &Bound<'_, PyAny>) -> Option<Py<PyType>> {
    if let Ok(class) = object.cast::<PyType>() {
        return (!MAY_GIVE_OTHERS.contains(&path)).then(|| class.clone().unbind());
    }
    let (_, name) = RESULTS.iter().find(|(function, _)| *function == path)?;
    let found = object.py().import("builtins").ok()?.getattr(*name).ok()?;
    found.cast_into::<PyType>().ok().map(Bound::unbind)
}
