//! The function that makes a class, both while tracing and in new code.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use sot_core::cpython;

use super::{is_followed, is_of_library};

/// Returns the function that makes a class without calling the hooks that the trace has already inlined.
pub(super) fn maker(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static MAKER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || -> PyResult<Py<PyAny>> {
        let make =
            cpython::fastcall(py, "__make_class__", "A class whose hooks have run.", |_, values| match values {
                [metaclass, name, bases, namespace, keywords, told] => {
                    let (namespace, keywords) = (namespace.cast::<PyDict>()?, keywords.cast::<PyDict>()?);
                    Ok(make_class(metaclass, name, bases, namespace, keywords, told)?.unbind())
                }
                _ => Err(pyo3::exceptions::PyTypeError::new_err("the parts of a class are expected")),
            })?;
        Ok(make.unbind())
    };
    Ok(MAKER.get_or_try_init(py, make)?.clone_ref(py))
}

fn make_class<'py>(
    metaclass: &Bound<'py, PyAny>,
    name: &Bound<'py, PyAny>,
    bases: &Bound<'py, PyAny>,
    namespace: &Bound<'py, PyDict>,
    keywords: &Bound<'py, PyDict>,
    told: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = metaclass.py();
    let ty = py.get_type::<PyType>();
    if is_of_library(metaclass) && !metaclass.is(&ty) {
        let names = metaclass.getattr("__prepare__")?.call((name, bases), Some(keywords))?;
        for (key, value) in namespace.iter() {
            names.set_item(key, value)?;
        }
        return metaclass.call((name, bases, names), Some(keywords));
    }
    let namespace = namespace.copy()?;
    let mut late = Vec::new();
    for key in told.try_iter()? {
        let key = key?;
        late.push((key.clone(), namespace.get_item(&key)?));
        namespace.set_item(key, py.None())?;
    }
    let silenced = silence(bases)?;
    let class = ty.getattr("__new__")?.call((metaclass, name, bases, namespace), Some(keywords));
    for (owner, hook) in silenced {
        ty.call_method1("__setattr__", (owner, "__init_subclass__", hook))?;
    }
    let class = class?;
    for (key, value) in late {
        ty.call_method1("__setattr__", (&class, key, value))?;
    }
    Ok(class)
}

#[pyfunction]
#[pyo3(signature = (*_args, **_keywords))]
fn nothing(_args: &Bound<'_, PyTuple>, _keywords: Option<&Bound<'_, PyDict>>) {}

/// Replaces `__init_subclass__` of all bases by a function that does nothing, and returns the replaced hooks for
/// their restoration. C code makes the class in between, so no code of the program can observe the replacement.
fn silence<'py>(bases: &Bound<'py, PyAny>) -> PyResult<Vec<(Bound<'py, PyType>, Bound<'py, PyAny>)>> {
    let py = bases.py();
    let mut silenced = Vec::new();
    for base in bases.try_iter()? {
        let Ok(base) = base?.cast_into::<PyType>() else { continue };
        for owner in base.mro().iter().filter_map(|owner| owner.cast_into::<PyType>().ok()) {
            let hook = cpython::class_dict(&owner)?.get_item("__init_subclass__").ok();
            if let Some(hook) = hook.filter(is_followed) {
                let nothing = wrap_pyfunction!(nothing, py)?;
                py.get_type::<PyType>().call_method1("__setattr__", (&owner, "__init_subclass__", nothing))?;
                silenced.push((owner, hook));
            }
        }
    }
    Ok(silenced)
}
