//! Tensors that a function reads besides its arguments. A framework that builds a graph may give values of the graph
//! for the tensors of its models only; operations on any other tensor would not belong to the graph.

use std::collections::BTreeSet;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyCode, PyDict, PyFrozenSet, PyFunction, PyList, PyModule, PySet, PyString, PyTuple, PyType, PyWeakrefMethods,
    PyWeakrefReference,
};
use rustc_hash::FxHashSet;

use super::kept_contents::KeptContents;
use crate::backend::Models;
use crate::bytecode::Names;
use crate::cpython;
use crate::machine::runtime::Runtime;
use crate::policy::MAX_STATE_PARTS;
use crate::tracker;

/// Why a function may read a tensor that the framework does not replace by a value of the graph.
pub(super) enum Hidden {
    /// There is such a tensor at this place.
    Tensor(String),
    /// The function reaches more objects than are searched.
    Unsearched,
}

/// Searches for a tensor that code can reach from the object and that the framework does not replace by a value of the
/// graph. In a module, only the attributes that the code names are searched, and modules of libraries are not searched.
/// Copies the contents of the containers that the search meets into `kept`.
pub(super) fn find<'py>(
    runtime: &Runtime,
    object: &Bound<'py, PyAny>,
    kept: &mut KeptContents<'py>,
) -> PyResult<Option<Hidden>> {
    let (seen, names) = (FxHashSet::default(), BTreeSet::new());
    let mut search = Search { runtime, seen, left: MAX_STATE_PARTS, names, modules: Vec::new(), kept };
    match search.object(object, FoundIn::default(), "what it is given")? {
        None => search.modules(),
        found => Ok(found),
    }
}

/// Returns the names that a code object and the functions nested in it look up.
fn names_in(code: &Bound<'_, PyCode>) -> PyResult<Vec<String>> {
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

/// Returns the names that a code object and the functions nested in it look up in the globals.
pub(super) fn globals_in(code: &Bound<'_, PyCode>) -> PyResult<Vec<String>> {
    let Ok(names) = Names::of(code) else { return names_in(code) };
    let mut names: Vec<String> = names.globals.iter().map(|name| name.extract()).collect::<PyResult<_>>()?;
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Returns the texts in a code object and the functions nested in it that may be names of attributes.
fn texts_in(code: &Bound<'_, PyCode>) -> PyResult<Vec<String>> {
    let mut texts = Vec::new();
    for constant in code.getattr(intern!(code.py(), "co_consts"))?.cast_into::<PyTuple>()? {
        if let Ok(inner) = constant.cast::<PyCode>() {
            texts.extend(texts_in(inner)?);
        } else if let Ok(text) = constant.cast_exact::<PyString>() {
            // A text with a lone surrogate is no name.
            texts.extend(text.extract::<String>().ok());
        }
    }
    Ok(texts)
}

/// Returns the modules of these names that have been imported: a function may import what it reads.
fn imported<'py>(py: Python<'py>, names: &[String]) -> PyResult<Vec<Bound<'py, PyModule>>> {
    let modules = cpython::import(py, "sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    let found = names.iter().map(|name| modules.get_item(name));
    let found = found.collect::<PyResult<Vec<_>>>()?;
    Ok(found.into_iter().flatten().filter_map(|module| module.cast_into().ok()).collect())
}

/// What an object was found in.
#[derive(Clone, Copy, Default)]
struct FoundIn<'a, 'py> {
    instance: Option<&'a Bound<'py, PyAny>>,
    container: Option<&'a Bound<'py, PyAny>>,
}

struct Search<'a, 'py> {
    runtime: &'a Runtime,
    seen: FxHashSet<usize>,
    left: usize,
    /// What the code names, also in texts, for `getattr`.
    names: BTreeSet<String>,
    modules: Vec<Bound<'py, PyModule>>,
    kept: &'a mut KeptContents<'py>,
}

impl<'py> Search<'_, 'py> {
    /// Searches what an object holds, which was found in `found_in`.
    fn object(
        &mut self,
        object: &Bound<'py, PyAny>,
        found_in: FoundIn<'_, 'py>,
        place: &str,
    ) -> PyResult<Option<Hidden>> {
        if cpython::is_atom(object) {
            return Ok(None);
        }
        if self.left == 0 || !cpython::has_stack_to_go_on() {
            return Ok(Some(Hidden::Unsearched));
        }
        self.left -= 1;
        if self.runtime.backend().is_tensor(object) {
            let is_value = self.models().becomes_value(found_in.instance, found_in.container);
            return Ok((!is_value).then(|| Hidden::Tensor(place.to_owned())));
        }
        if !self.seen.insert(object.as_ptr() as usize) {
            return Ok(None);
        }
        if let Ok(module) = object.cast::<PyModule>() {
            if !self.is_library(module)? {
                self.modules.push(module.clone());
            }
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
        if let Ok(reference) = object.cast::<PyWeakrefReference>() {
            return match reference.upgrade() {
                Some(object) => self.object(&object, FoundIn::default(), place),
                None => Ok(None),
            };
        }
        self.kept.keep(object, place)?;
        if let Some(items) = items(object) {
            let found_in = FoundIn { container: Some(object), ..found_in };
            let found = self.first(items.iter(), |search, item| search.object(item, found_in, place))?;
            if found.is_some() || !cpython::is_heap_type(&object.get_type()) {
                return Ok(found);
            }
        }
        self.instance(object, place)
    }

    /// Searches the attributes of an object, its class, and what an object of C or with `__slots__` refers to besides.
    fn instance(&mut self, object: &Bound<'py, PyAny>, place: &str) -> PyResult<Option<Hidden>> {
        let class = object.get_type();
        let mut known = FxHashSet::from_iter([class.as_ptr() as usize]);
        if let Some(dict) = cpython::instance_dict(object) {
            known.insert(dict.as_ptr() as usize);
            // Models note in attributes of their own what they have prepared for calls.
            if !self.models().may_hold_tensors(object) {
                self.kept.keep(&dict, &format!("the attributes of a {}", cpython::type_name(&class)))?;
            }
            known.extend(dict.values().iter().map(|value| value.as_ptr() as usize));
            let found = self.first(dict.iter(), |search, (name, value)| {
                let place = format!("an attribute {name} of a {}", cpython::type_name(&class));
                search.object(&value, FoundIn { instance: Some(object), container: None }, &place)
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        let mut others = cpython::held_objects(object, usize::MAX);
        others.retain(|held| !known.contains(&(held.as_ptr() as usize)));
        match self.first(others.into_iter(), |search, held| search.object(&held, FoundIn::default(), place))? {
            None => self.object(class.as_any(), FoundIn::default(), ""),
            found => Ok(found),
        }
    }

    /// Searches what the functions of a class and of its bases read, and their other attributes.
    fn class(&mut self, class: &Bound<'py, PyType>) -> PyResult<Option<Hidden>> {
        // A type of C has no functions of the program. It may lack an MRO until an attribute of it is looked up.
        if !cpython::is_heap_type(class) {
            return Ok(None);
        }
        self.first(class.mro().iter(), |search, base| {
            if base.cast::<PyType>().is_ok_and(|base| !cpython::is_heap_type(base)) {
                return Ok(None);
            }
            let held = base.getattr(intern!(base.py(), "__dict__"))?.call_method0("items")?.try_iter()?;
            let held: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> =
                held.map(|pair| pair?.extract()).collect::<PyResult<_>>()?;
            search.first(held.iter(), |search, (name, held)| {
                let place = format!("the attribute {name} of the class {}", tracker::name(&base));
                search.object(held, FoundIn::default(), &place)
            })
        })
    }

    /// True for a module of a library, in which a program keeps no tensors of its own.
    fn is_library(&self, module: &Bound<'_, PyModule>) -> PyResult<bool> {
        let file = module.dict().get_item("__file__")?.and_then(|file| file.extract::<String>().ok());
        Ok(file.is_some_and(|file| self.runtime.is_library(&file)))
    }

    /// Searches the attributes of the modules found that the code found names, until there are no new ones.
    fn modules(&mut self) -> PyResult<Option<Hidden>> {
        let mut known = (0, 0);
        while known != (self.modules.len(), self.names.len()) {
            known = (self.modules.len(), self.names.len());
            let modules = self.modules.iter().cloned();
            let pairs: Vec<_> =
                modules.flat_map(|module| self.names.iter().map(move |name| (module.clone(), name.clone()))).collect();
            for (module, name) in pairs {
                let Some(held) = module.dict().get_item(&name)? else { continue };
                let place = format!("the attribute {name} of the module {}", tracker::name(&module));
                let found = self.object(&held, FoundIn::default(), &place)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// Searches what a function of the program reads: its defaults, its closure, and the globals that its code names.
    fn function(&mut self, function: &Bound<'py, PyFunction>) -> PyResult<Option<Hidden>> {
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
        let names = names_in(&code)?;
        self.names.extend(names.iter().cloned());
        self.names.extend(texts_in(&code)?);
        for module in imported(code.py(), &names)? {
            self.object(module.as_any(), FoundIn::default(), "")?;
        }
        let globals = cpython::function_globals(function);
        self.first(globals_in(&code)?.iter(), |search, name| match globals.get_item(name)? {
            Some(held) => search.object(&held, FoundIn::default(), &format!("the global {name}")),
            None => Ok(None),
        })
    }

    fn first<T>(
        &mut self,
        all: impl Iterator<Item = T>,
        mut find: impl FnMut(&mut Self, T) -> PyResult<Option<Hidden>>,
    ) -> PyResult<Option<Hidden>> {
        for one in all {
            if let Some(found) = find(self, one)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn models(&self) -> &dyn Models {
        self.runtime.backend().models()
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
        return Some(dict.keys().iter().chain(dict.values().iter()).collect());
    }
    if let Ok(set) = object.cast::<PySet>() {
        return Some(set.iter().collect());
    }
    object.cast::<PyFrozenSet>().ok().map(|set| set.iter().collect())
}
