//! The search for a foundation: from a function or layer class, through all Python code that it may call.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyModule, PyString, PyType};
use rustc_hash::{FxHashMap, FxHashSet};
use sot_core::cpython::{self, DescriptorKind};

use super::scan::scanned;
use super::{functions, LookedUpName, LookedUpNames, NameHolder, ReplacedName};
use crate::backend::calls::origin::{self, Value};

/// A search for the names that code may look up.
pub(super) struct Search<'a, 'py> {
    /// The type of tensors, or of values of a program.
    tensor: &'a Bound<'py, PyType>,
    /// The layer class whose methods call each other, if the search is for a layer.
    class: Option<&'a Bound<'py, PyType>>,
    seen: FxHashSet<usize>,
    todo: Vec<Bound<'py, PyFunction>>,
    places: Vec<LookedUpNames>,
    /// Index in `places` of a namespace or class, by its address.
    by_address: FxHashMap<usize, usize>,
    /// Results of lookups, by the address of the namespace or class and the address of the interned name.
    looked_up: FxHashMap<(usize, usize), Option<Bound<'py, PyAny>>>,
    replaced: Vec<ReplacedName>,
}

impl<'a, 'py> Search<'a, 'py> {
    pub(super) fn new(tensor: &'a Bound<'py, PyType>, class: Option<&'a Bound<'py, PyType>>) -> Self {
        Search {
            tensor,
            class,
            seen: FxHashSet::default(),
            todo: Vec::new(),
            places: Vec::new(),
            by_address: FxHashMap::default(),
            looked_up: FxHashMap::default(),
            replaced: Vec::new(),
        }
    }

    pub(super) fn of_value(mut self, value: &Bound<'py, PyAny>) -> PyResult<(Vec<LookedUpNames>, Vec<ReplacedName>)> {
        self.value(value)?;
        self.finish()
    }

    pub(super) fn of_layer(mut self, class: &Bound<'py, PyType>) -> PyResult<(Vec<LookedUpNames>, Vec<ReplacedName>)> {
        for name in ["__call__", "forward"] {
            self.entry_of(class, &cpython::interned(class.py(), name))?;
        }
        self.finish()
    }

    /// The `__init__` of each base is searched, as `super().__init__()` is not found by its name.
    pub(super) fn of_making(mut self, class: &Bound<'py, PyType>) -> PyResult<(Vec<LookedUpNames>, Vec<ReplacedName>)> {
        let py = class.py();
        let name = cpython::interned(py, "__init__");
        let of_object = cpython::type_lookup(&py.get_type::<PyAny>(), &name);
        for base in class.mro().iter() {
            let base = base.cast_into::<PyType>().map_err(PyErr::from)?;
            let found = cpython::type_lookup(&base, &name);
            if found.is_some_and(|found| of_object.as_ref().is_none_or(|of_object| !of_object.is(&found))) {
                self.entry_of(&base, &name)?;
            }
        }
        self.finish()
    }

    fn finish(mut self) -> PyResult<(Vec<LookedUpNames>, Vec<ReplacedName>)> {
        while let Some(function) = self.todo.pop() {
            self.scan(&function)?;
        }
        Ok((self.places, self.replaced))
    }

    /// Continues the search in a value, if it is Python code.
    fn value(&mut self, value: &Bound<'py, PyAny>) -> PyResult<()> {
        if !self.seen.insert(value.as_ptr() as usize) {
            return Ok(());
        }
        match origin::value_of(value)? {
            Value::Function(function) => {
                functions().insert(function.as_ptr() as usize);
                for enclosed in origin::enclosed(&function)? {
                    self.value(&enclosed)?;
                }
                self.todo.push(function);
            }
            Value::Holder(held) => {
                for held in held {
                    self.value(&held)?;
                }
            }
            Value::Other => {}
        }
        Ok(())
    }

    fn scan(&mut self, function: &Bound<'py, PyFunction>) -> PyResult<()> {
        let py = function.py();
        let Ok(globals) = function.getattr(intern!(py, "__globals__"))?.cast_into::<PyDict>() else { return Ok(()) };
        let scanned = scanned(&cpython::function_code(function))?;
        let mut modules = Vec::new();
        for name in &scanned.globals {
            modules.extend(self.entry_in(&globals, name.bind(py))?.map_or(Ok(None), |value| own_module(&value))?);
        }
        for name in scanned.others.iter().map(|name| name.bind(py)) {
            match self.entry_in(&globals, name)? {
                Some(value) => modules.extend(own_module(&value)?),
                None => modules.extend(imported(name)?),
            }
            self.entry_of(self.tensor, name)?;
            if let Some(class) = self.class {
                self.entry_of(class, name)?;
            }
        }
        self.search_modules(modules, &scanned.others)?;
        for method in &scanned.methods {
            self.entry_of(self.tensor, method.bind(py))?;
        }
        Ok(())
    }

    /// Looks up all of the names in each of the modules, and in modules found in this way, because `a.b.c` may be any
    /// chain of these names.
    fn search_modules(&mut self, modules: Vec<Bound<'py, PyModule>>, names: &[Py<PyString>]) -> PyResult<()> {
        let mut known: FxHashSet<usize> = modules.iter().map(|module| module.as_ptr() as usize).collect();
        let mut todo = modules;
        while let Some(module) = todo.pop() {
            let namespace = module.dict();
            for name in names.iter().map(|name| name.bind(module.py())) {
                let Some(value) = self.entry_in(&namespace, name)? else { continue };
                todo.extend(own_module(&value)?.filter(|found| known.insert(found.as_ptr() as usize)));
            }
        }
        Ok(())
    }

    fn entry_in(
        &mut self,
        namespace: &Bound<'py, PyDict>,
        name: &Bound<'py, PyString>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = (namespace.as_ptr() as usize, name.as_ptr() as usize);
        if let Some(known) = self.looked_up.get(&key) {
            return Ok(known.clone());
        }
        let found = cpython::dict_get(namespace, name.as_any());
        self.looked_up.insert(key, found.clone());
        if let Some(value) = &found {
            self.entry(namespace.as_any(), || NameHolder::Namespace(namespace.clone().unbind()), name, value)?;
        }
        Ok(found)
    }

    fn entry_of(&mut self, class: &Bound<'py, PyType>, name: &Bound<'py, PyString>) -> PyResult<()> {
        let key = (class.as_ptr() as usize, name.as_ptr() as usize);
        if self.looked_up.contains_key(&key) {
            return Ok(());
        }
        let found = cpython::type_lookup(class, name);
        self.looked_up.insert(key, found.clone());
        let Some(value) = found else { return Ok(()) };
        self.entry(class.as_any(), || NameHolder::Class(class.clone().unbind()), name, &value)
    }

    fn entry(
        &mut self,
        holder: &Bound<'py, PyAny>,
        make: impl FnOnce() -> NameHolder,
        name: &Bound<'py, PyString>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        if !may_be_called(value) {
            return Ok(());
        }
        let places = &mut self.places;
        let at = *self.by_address.entry(holder.as_ptr() as usize).or_insert_with(|| {
            places.push(LookedUpNames { holder: make(), entries: Vec::new() });
            places.len() - 1
        });
        let entry = LookedUpName {
            name: name.clone().unbind(),
            was: value.clone().unbind(),
            is_instance: origin::is_instance(value)?,
        };
        self.places[at].entries.push(entry);
        if origin::is_own(value)? {
            self.value(value)?;
        } else {
            self.replaced.push(ReplacedName { name: name.to_string(), by: value.clone().unbind() });
        }
        Ok(())
    }
}

/// True if a replacement of the value might run other code.
pub(super) fn may_be_called(value: &Bound<'_, PyAny>) -> bool {
    value.is_callable()
        || value.cast::<PyModule>().is_ok()
        || matches!(
            DescriptorKind::of(value),
            DescriptorKind::Property
                | DescriptorKind::StaticMethod
                | DescriptorKind::ClassMethod
                | DescriptorKind::Getset
                | DescriptorKind::Member
        )
}

/// Returns the value if it is a module of Paddle's.
pub(super) fn own_module<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyModule>>> {
    let Ok(module) = value.cast::<PyModule>() else { return Ok(None) };
    let Ok(name) = module.name() else { return Ok(None) };
    let name = name.to_str()?;
    Ok((name == "paddle" || name.starts_with("paddle.")).then(|| module.clone()))
}

/// Returns the module of Paddle's that code imports under this name when it runs.
fn imported<'py>(name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyModule>>> {
    if !name.to_str()?.starts_with("paddle") {
        return Ok(None);
    }
    let modules = cpython::import(name.py(), "sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    cpython::dict_get(&modules, name.as_any()).map_or(Ok(None), |module| own_module(&module))
}
