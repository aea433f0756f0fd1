//! Tensors that a function reads besides its arguments. A framework that builds a graph may give values of the graph
//! for the tensors of its models only; operations on any other tensor would not belong to the graph.

use std::collections::HashSet;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyFrozenSet, PyFunction, PyList, PySet, PyTuple, PyType};

use crate::backend::Models;
use crate::cpython;
use crate::machine::runtime::Runtime;
use crate::policy::MAX_STATE_PARTS;

/// Returns the place of a tensor that code reaches from an object, and that the framework does not replace by a value
/// of the graph.
pub(super) fn find(runtime: &Runtime, object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let mut search = Search { runtime, seen: HashSet::new(), left: MAX_STATE_PARTS };
    search.object(object, FoundIn::default(), "what it is given")
}

/// Returns the names that a code object and the functions nested in it look up.
pub(super) fn names_in(code: &Bound<'_, PyCode>) -> PyResult<Vec<String>> {
    let mut names: Vec<String> = code.getattr(intern!(code.py(), "co_names"))?.extract()?;
    for constant in code.getattr(intern!(code.py(), "co_consts"))?.cast_into::<PyTuple>()? {
        if let Ok(inner) = constant.cast::<PyCode>() {
            names.extend(names_in(inner)?);
        }
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// What an object was found in.
#[derive(Clone, Copy, Default)]
struct FoundIn<'a, 'py> {
    instance: Option<&'a Bound<'py, PyAny>>,
    container: Option<&'a Bound<'py, PyAny>>,
}

struct Search<'a> {
    runtime: &'a Runtime,
    seen: HashSet<usize>,
    left: usize,
}

impl Search<'_> {
    /// Searches what an object holds, which was found in `found_in`.
    fn object<'py>(
        &mut self,
        object: &Bound<'py, PyAny>,
        found_in: FoundIn<'_, 'py>,
        place: &str,
    ) -> PyResult<Option<String>> {
        if cpython::is_atom(object) || self.left == 0 || !cpython::has_stack_to_go_on() {
            return Ok(None);
        }
        self.left -= 1;
        if self.runtime.backend.is_tensor(object) {
            let is_value = self.models().becomes_value(found_in.instance, found_in.container);
            return Ok((!is_value).then(|| place.to_owned()));
        }
        if !self.seen.insert(object.as_ptr() as usize) {
            return Ok(None);
        }
        if let Ok(function) = object.cast::<PyFunction>() {
            return self.function(function);
        }
        if let Ok(class) = object.cast::<PyType>() {
            return self.class(class);
        }
        if let Some((function, receiver)) = cpython::bound_method(object) {
            return match self.object(&receiver, found_in, place)? {
                None => self.object(&function, FoundIn::default(), place),
                found => Ok(found),
            };
        }
        if let Some(parts) = parts_of_partial(object)? {
            return self.first(parts.iter(), |search, part| search.object(part, found_in, place));
        }
        if let Some(items) = items(object) {
            let found_in = FoundIn { container: Some(object), ..found_in };
            return self.first(items.iter(), |search, item| search.object(item, found_in, place));
        }
        self.instance(object)
    }

    fn instance(&mut self, object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
        let Some(dict) = cpython::instance_dict(object) else { return Ok(None) };
        let class = object.get_type();
        let found = self.first(dict.iter(), |search, (name, value)| {
            let place = format!("an attribute {name} of a {}", cpython::type_name(&class));
            search.object(&value, FoundIn { instance: Some(object), container: None }, &place)
        })?;
        match found {
            None => self.object(class.as_any(), FoundIn::default(), ""),
            found => Ok(found),
        }
    }

    /// Searches what the functions of a class and of its bases read.
    fn class(&mut self, class: &Bound<'_, PyType>) -> PyResult<Option<String>> {
        // A type of C has no functions of the program. It may lack an MRO until an attribute of it is looked up.
        if !cpython::is_heap_type(class) {
            return Ok(None);
        }
        self.first(class.mro().iter(), |search, base| {
            if base.cast::<PyType>().is_ok_and(|base| !cpython::is_heap_type(base)) {
                return Ok(None);
            }
            let held: Vec<Bound<'_, PyAny>> = base
                .getattr(intern!(base.py(), "__dict__"))?
                .call_method0("values")?
                .try_iter()?
                .collect::<PyResult<_>>()?;
            search.first(held.iter().filter(|held| held.is_instance_of::<PyFunction>()), |search, function| {
                search.object(function, FoundIn::default(), "")
            })
        })
    }

    /// Searches what a function of the program reads: its defaults, its closure, and the globals that its code names.
    fn function(&mut self, function: &Bound<'_, PyFunction>) -> PyResult<Option<String>> {
        let code = cpython::function_code(function);
        let file: String = code.getattr(intern!(code.py(), "co_filename"))?.extract()?;
        if self.runtime.skips(&file) {
            return Ok(None);
        }
        let name: String = function.getattr(intern!(code.py(), "__name__"))?.extract()?;
        let defaults = [
            cpython::function_defaults(function).map(Bound::into_any),
            cpython::function_kwdefaults(function).map(Bound::into_any),
        ];
        let place = format!("a default of {name}");
        let found =
            self.first(defaults.iter().flatten(), |search, held| search.object(held, FoundIn::default(), &place))?;
        if found.is_some() {
            return Ok(found);
        }
        let cells = cpython::function_closure(function).map(|cells| cells.iter().collect::<Vec<_>>());
        let place = format!("the closure of {name}");
        let found = self.first(cells.iter().flatten(), |search, cell| match cpython::cell_contents(cell) {
            Some(held) => search.object(&held, FoundIn::default(), &place),
            None => Ok(None),
        })?;
        if found.is_some() {
            return Ok(found);
        }
        let globals = cpython::function_globals(function);
        self.first(names_in(&code)?.iter(), |search, name| match globals.get_item(name)? {
            Some(held) => search.object(&held, FoundIn::default(), &format!("the global {name}")),
            None => Ok(None),
        })
    }

    fn first<T>(
        &mut self,
        all: impl Iterator<Item = T>,
        mut find: impl FnMut(&mut Self, T) -> PyResult<Option<String>>,
    ) -> PyResult<Option<String>> {
        for one in all {
            if let Some(found) = find(self, one)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn models(&self) -> &dyn Models {
        self.runtime.backend.models()
    }
}

/// Returns the function and the arguments of a `functools.partial`.
fn parts_of_partial<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<[Bound<'py, PyAny>; 3]>> {
    let partial = cpython::import(object.py(), "functools")?.getattr("partial")?.cast_into::<PyType>()?;
    if !cpython::is_subtype(&object.get_type(), &partial) {
        return Ok(None);
    }
    let part = |name: &str| partial.getattr(name)?.call_method1("__get__", (object,));
    Ok(Some([part("func")?, part("args")?, part("keywords")?]))
}

/// Returns what a container of Python's holds.
fn items<'py>(object: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    if let Ok(list) = object.cast::<PyList>() {
        return Some(list.iter().collect());
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return Some(tuple.iter().collect());
    }
    if let Ok(dict) = object.cast::<PyDict>() {
        return Some(dict.values().iter().collect());
    }
    if let Ok(set) = object.cast::<PySet>() {
        return Some(set.iter().collect());
    }
    object.cast::<PyFrozenSet>().ok().map(|set| set.iter().collect())
}
