//! What CPython says of all results of a function: those of a class are its instances, and `len` gives numbers. A
//! handler that gives anything else is at fault.

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

/// Classes whose calls may give what is none of their instances, as a method of the argument says.
const MAY_GIVE_OTHERS: [&str; 1] = ["reversed"];

/// The type of all results of a builtin, if there is one.
pub(super) fn type_of_results(path: &str, object: &Bound<'_, PyAny>) -> Option<Py<PyType>> {
    if let Ok(class) = object.cast::<PyType>() {
        return (!MAY_GIVE_OTHERS.contains(&path)).then(|| class.clone().unbind());
    }
    let (_, name) = RESULTS.iter().find(|(function, _)| *function == path)?;
    let found = object.py().import("builtins").ok()?.getattr(*name).ok()?;
    found.cast_into::<PyType>().ok().map(Bound::unbind)
}
