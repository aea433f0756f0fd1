//! Texts of Python objects for people, made without running the program's code.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFunction, PySlice, PyString, PyType, PyWeakrefReference};

use crate::cpython;

/// Names a callable for people: module and qualified name.
pub fn name(callable: &Bound<'_, PyAny>) -> String {
    let class = callable.is_instance_of::<PyType>();
    if !class && cpython::is_heap_type(&callable.get_type()) {
        return repr(callable.py(), &callable.clone().unbind());
    }
    // For a class, read by `type`'s own descriptors, because a metaclass may override attribute reads.
    let read = |name: &str| {
        if class {
            let getter = callable.py().get_type::<PyType>().getattr("__dict__")?.get_item(name)?;
            getter.call_method1("__get__", (callable,))
        } else {
            callable.getattr(name)
        }
    };
    let text = |name: &str| read(name).and_then(|value| value.extract::<String>()).ok();
    let Some(name) = text("__qualname__").or_else(|| text("__name__")) else {
        return repr(callable.py(), &callable.clone().unbind());
    };
    match text("__module__") {
        Some(module) => format!("{module}.{name}"),
        None => name,
    }
}

/// Number of characters that describe an object at most.
const MAX_LENGTH: usize = 120;

/// Describes an object for people in at most 120 characters: its `repr` if that is implemented in C, else its type or
/// name. Never fails, and never runs Python code.
pub fn repr(py: Python<'_>, object: &Py<PyAny>) -> String {
    let full = text_of(object.bind(py));
    if full.chars().count() > MAX_LENGTH {
        format!("{}...", full.chars().take(MAX_LENGTH - 3).collect::<String>())
    } else {
        full
    }
}

/// The beginning of a long text, so that describing one takes no longer than describing a short one.
fn beginning<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let is_text = object.is_exact_instance_of::<PyString>() || object.is_exact_instance_of::<PyBytes>();
    if is_text && object.len()? > MAX_LENGTH {
        return object.get_item(PySlice::new(object.py(), 0, MAX_LENGTH as isize, 1));
    }
    Ok(object.clone())
}

fn text_of(object: &Bound<'_, PyAny>) -> String {
    let ty = object.get_type();
    if let Ok(class) = object.cast::<PyType>() {
        return format!("<class '{}'>", cpython::type_name(class));
    }
    let name = intern!(object.py(), "__repr__");
    let made_by_python = cpython::type_lookup(&ty, name).is_none_or(|repr| repr.is_exact_instance_of::<PyFunction>());
    let holds_others = cpython::instance_dict(object).is_some()
        // Before 3.12, the `repr` of a weak reference reads the `__name__` of the referent.
        || object.is_instance_of::<PyWeakrefReference>()
        || [
            "list",
            "tuple",
            "dict",
            "set",
            "frozenset",
            "OrderedDict",
            "deque",
            "method",
            "slice",
            "mappingproxy",
            "repeat",
            "count",
        ]
        .contains(&&*cpython::type_name(&ty));
    if object.is_exact_instance_of::<PyFunction>() || !(made_by_python || holds_others) {
        return beginning(object)
            .and_then(|object| object.repr())
            .map_or_else(|_| "<unprintable>".to_owned(), |text| text.to_string());
    }
    format!("<{} object>", cpython::type_name(&ty))
}
