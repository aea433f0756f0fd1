//! Names and contents of registered modules.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyFunction, PyModule, PyString, PyType};
use rustc_hash::FxHashSet;

use super::RegistrationKind;
use crate::cpython::{self, DescriptorKind};
use crate::tracker;

/// Returns the name of a module; an error if the object is no module.
pub fn name_of(module: &Bound<'_, PyAny>) -> PyResult<String> {
    if !module.is_instance_of::<PyModule>() {
        let shown = tracker::repr(module.py(), module.as_unbound());
        return Err(PyTypeError::new_err(format!("{shown} is not a module")));
    }
    let name =
        cpython::instance_dict(module).map(|dict| dict.get_item(intern!(module.py(), "__name__"))).transpose()?;
    match name.flatten().and_then(|name| name.extract().ok()) {
        Some(name) => Ok(name),
        None => Err(PyTypeError::new_err("a module without a name")),
    }
}

/// Returns the module of a function or class; for another callable, the module that its own `__module__` names
/// (wrappers have one), or the module of its class. Runs no code of the program.
pub fn module_of(object: &Bound<'_, PyAny>) -> Option<String> {
    let name = intern!(object.py(), "__module__");
    if let Ok(function) = object.cast::<PyFunction>() {
        // A wrapper made by a decorator has the `__module__` of the wrapped function.
        let said = function.getattr(name).ok().and_then(|said| text(&said));
        return said.or_else(|| of_globals(&cpython::function_globals(function)));
    }
    if object.is_instance_of::<PyCFunction>() {
        return text(&object.getattr(name).ok()?);
    }
    let class = match object.cast::<PyType>() {
        Ok(class) => class.clone(),
        Err(_) => match cpython::instance_dict_if_made(object).and_then(|own| own.get_item(name).ok()?) {
            Some(said) => return text(&said),
            None => owner(object).unwrap_or_else(|| object.get_type()),
        },
    };
    // With a metaclass of its own, reading the attribute might run the program's code.
    if class.get_type().is(class.py().get_type::<PyType>()) {
        return text(&class.getattr(name).ok()?);
    }
    text(&cpython::class_dict(class.as_any()).ok()?.get_item(name).ok()?)
}

/// The class of a method implemented in C.
fn owner<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyType>> {
    let is_descriptor = DescriptorKind::of(object).is_c_method();
    let owner = is_descriptor.then(|| object.getattr(intern!(object.py(), "__objclass__")))?;
    owner.ok()?.cast_into().ok()
}

/// Name of the module with these globals.
pub(super) fn of_globals(globals: &Bound<'_, PyDict>) -> Option<String> {
    text(&globals.get_item(intern!(globals.py(), "__name__")).ok()??)
}

fn text(name: &Bound<'_, PyAny>) -> Option<String> {
    name.cast_exact::<PyString>().ok()?.extract().ok()
}

/// True if a module is `outer` or a submodule of it.
pub fn is_within(module: &str, outer: &str) -> bool {
    module.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Number that stands for a module among the addresses that a translation met.
pub fn mark_of(name: &str) -> usize {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish() as usize
}

/// The addresses that a registered module concerns, for the module and its submodules: globals, the functions and
/// classes they define, and the marks of the modules.
pub(super) fn contents(py: Python<'_>, name: &str) -> PyResult<FxHashSet<usize>> {
    let mut found = FxHashSet::from_iter([mark_of(name)]);
    for (other, globals) in modules_within(py, name)? {
        found.insert(mark_of(&other));
        let Some(globals) = globals else { continue };
        found.insert(globals.as_ptr() as usize);
        let own = globals.copy()?.values();
        let own = own.iter().filter(|value| module_of(value).is_some_and(|module| is_within(&module, name)));
        found.extend(own.map(|value| value.as_ptr() as usize));
    }
    Ok(found)
}

/// Returns the names and globals of the module of this name and of its submodules.
fn modules_within<'py>(py: Python<'py>, name: &str) -> PyResult<Vec<(String, Option<Bound<'py, PyDict>>)>> {
    let modules = cpython::import(py, "sys")?.getattr("modules")?.cast_into::<PyDict>()?.copy()?;
    let within = modules.iter().filter_map(|(other, module)| {
        let other = text(&other).filter(|other| is_within(other, name))?;
        Some((other, cpython::instance_dict(&module)))
    });
    Ok(within.collect())
}

/// Returns the reason if registering a module has no effect; `None` if it has one.
pub fn why_without_effect(module: &Bound<'_, PyAny>, kind: &RegistrationKind) -> PyResult<Option<String>> {
    let py = module.py();
    let Some(globals) = cpython::instance_dict(module) else { return Ok(None) };
    let name = name_of(module)?;
    if is_unfinished(&globals, &name)? {
        return Ok(None);
    }
    let within = modules_within(py, &name)?.into_iter().filter_map(|(_, globals)| globals);
    let all: Vec<_> = within.chain([globals]).flat_map(|globals| globals.values()).collect();
    let own = all.iter().filter(|value| module_of(value).is_some_and(|module| is_within(&module, &name)));
    if !matches!(kind, RegistrationKind::Followed) {
        let others: BTreeSet<_> = all.iter().filter(|value| value.is_callable()).filter_map(module_of).collect();
        let others = others.into_iter().take(3).collect::<Vec<_>>().join(", ");
        let say = if others.is_empty() { String::new() } else { format!("; its contents belong to {others}") };
        let why = || format!("no function or class belongs to this module by its __module__{say}");
        return Ok({ own }.next().is_none().then(why));
    }
    let has_code = { own }.any(|value| {
        let class = value.cast::<PyType>().ok().and_then(|class| cpython::class_dict(class.as_any()).ok());
        let held = class.and_then(|class| class.call_method0(intern!(py, "values")).ok()?.try_iter().ok());
        held.map_or_else(|| is_in_python(value), |held| held.flatten().any(|held| is_in_python(&held)))
    });
    Ok((!has_code).then(|| "it has no Python functions, and C functions cannot be followed".to_owned()))
}

/// True if a module may get more functions later: a package, `__main__`, or a module that is being imported.
fn is_unfinished(globals: &Bound<'_, PyDict>, name: &str) -> PyResult<bool> {
    let py = globals.py();
    let spec = globals.get_item(intern!(py, "__spec__"))?;
    let is_begun = spec.map(|spec| spec.getattr_opt(intern!(py, "_initializing"))).transpose()?.flatten();
    let is_begun = is_begun.is_some_and(|is_begun| is_begun.is_truthy().unwrap_or(false));
    Ok(is_begun || name == "__main__" || globals.contains(intern!(py, "__path__"))?)
}

/// True if the value is a Python function, static method, class method or property.
fn is_in_python(value: &Bound<'_, PyAny>) -> bool {
    let held = || {
        matches!(
            DescriptorKind::of(value),
            DescriptorKind::StaticMethod | DescriptorKind::ClassMethod | DescriptorKind::Property
        )
    };
    value.is_instance_of::<PyFunction>() || held()
}

#[cfg(test)]
mod tests {
    use super::is_within;

    #[test]
    fn names_end_at_a_dot() {
        assert!(is_within("numpy.fft", "numpy") && is_within("numpy", "numpy"));
        assert!(!is_within("numpyro", "numpy") && !is_within("numpy", "numpy.fft"));
    }
}
