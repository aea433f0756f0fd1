//! Bytecode that loads a value by its tracker.

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

use super::CodeGen;
use crate::cpython::{self, LruCache, Upcoming};
use crate::error::Flow;
use crate::guard::Test;
use crate::tracker::{Computation, Key, Tracker, TrackerId};
use crate::variable::VarId;

/// A function that gives what the method resolution order of a type holds under a name.
fn raw_lookup(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static LOOKUP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || -> PyResult<Py<PyAny>> {
        let lookup = cpython::fastcall(py, "__lookup__", "An entry of a type, unbound.", |py, values| match values {
            [ty, name] => {
                let found = cpython::type_lookup(ty.cast::<PyType>()?, name.cast::<PyString>()?);
                Ok(found.map_or_else(|| py.None(), Bound::unbind))
            }
            _ => Err(pyo3::exceptions::PyTypeError::new_err("a type and a name are expected")),
        })?;
        Ok(lookup.unbind())
    };
    Ok(LOOKUP.get_or_try_init(py, make)?.clone_ref(py))
}

/// A function that gives what an iterator is about to give.
fn ahead(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static AHEAD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || -> PyResult<Py<PyAny>> {
        let ahead =
            cpython::fastcall(py, "__upcoming__", "What an iterator is about to give.", |_, values| match values {
                [iterator, after] => match cpython::upcoming(iterator, after.extract()?) {
                    Some(Upcoming::Item(item)) => Ok(item.unbind()),
                    _ => Err(pyo3::exceptions::PyRuntimeError::new_err("an iterator that has nothing to give")),
                },
                _ => Err(pyo3::exceptions::PyTypeError::new_err("an iterator and a number are expected")),
            })?;
        Ok(ahead.unbind())
    };
    Ok(AHEAD.get_or_try_init(py, make)?.clone_ref(py))
}

/// A function that gives what the base of an object's class keeps in it under a key or at a position.
fn kept(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static KEPT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || -> PyResult<Py<PyAny>> {
        let kept =
            cpython::fastcall(py, "__kept__", "What an object of a subclass holds.", |py, values| match values {
                [object, key] => {
                    let bases = [py.get_type::<PyDict>(), py.get_type::<PyList>(), py.get_type::<PyTuple>()];
                    let base = bases.iter().find(|base| object.is_instance(base).unwrap_or(false));
                    let get = match base {
                        Some(base) => base.getattr("__getitem__")?,
                        None => cpython::import(py, "operator")?.getattr("getitem")?,
                    };
                    get.call1((object, key)).map(Bound::unbind)
                }
                _ => Err(pyo3::exceptions::PyTypeError::new_err("an object and a key are expected")),
            })?;
        Ok(kept.unbind())
    };
    Ok(KEPT.get_or_try_init(py, make)?.clone_ref(py))
}

/// A function that gives what a function behind `functools.lru_cache` has for a key and the arguments it stands for.
fn cached(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static CACHED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || -> PyResult<Py<PyAny>> {
        let cached = cpython::fastcall(py, "__cached__", "What a cached function has.", |_, values| match values {
            [function, key, args, keywords] => {
                let cache = LruCache::of(function).ok_or_else(|| PyTypeError::new_err("a cache is expected"))?;
                cache.ask(key, args.cast::<PyTuple>()?, keywords.cast::<PyDict>()?).map(Bound::unbind)
            }
            _ => Err(PyTypeError::new_err("a function, a key and its arguments are expected")),
        })?;
        Ok(cached.unbind())
    };
    Ok(CACHED.get_or_try_init(py, make)?.clone_ref(py))
}

/// What reads an attribute without asking a method of the program's.
fn own_read(py: Python<'_>) -> PyResult<Py<PyAny>> {
    py.get_type::<PyAny>().getattr("__getattribute__").map(Bound::unbind)
}

impl CodeGen<'_, '_> {
    /// Leaves an object's `__dict__` on the stack. A `__getattribute__` of the program's is not asked.
    pub fn load_instance_dict(&mut self, object: VarId) -> Flow<()> {
        let py = self.cx.py;
        let ty = self.cx.vars.get(object).python_type(self.cx);
        if ty.cast::<PyType>().is_ok_and(cpython::uses_generic_getattr) {
            self.load(object)?;
            return self.load_attr("__dict__");
        }
        let read = own_read(py)?;
        let name = self.cx.string("__dict__");
        self.call(|cg| cg.load_const(read), &[object, name])
    }

    /// Leaves the tracker's value on the stack.
    pub(super) fn load_tracker(&mut self, id: TrackerId) -> Flow<()> {
        let py = self.cx.py;
        match &*self.cx.trackers.share(id) {
            Tracker::Local { slot, .. } => self.load_argument(*slot),
            Tracker::FreeCell { index, .. } => {
                self.emitter.load_closure(self.root.code.cellvars.len() + *index as usize)
            }
            Tracker::Globals => self.call(|cg| cg.load_builtin("globals"), &[]),
            Tracker::Builtins => {
                let module = cpython::import(py, "builtins")?.into_any().unbind();
                self.load_const(module)?;
                self.load_attr("__dict__")
            }
            Tracker::Constant(object) => self.load_const(object.0.clone_ref(py)),
            Tracker::Attribute { of, name } | Tracker::Getattr { of, name }
                if matches!(self.cx.trackers.get(*of), Tracker::Storage { .. }) =>
            {
                let read = own_read(py)?;
                self.begin_call(|cg| cg.load_const(read))?;
                self.load_tracker(*of)?;
                self.load_const(PyString::intern(py, name).into_any().unbind())?;
                self.end_call(2)
            }
            Tracker::Attribute { of, name } | Tracker::Getattr { of, name } => {
                self.load_tracker(*of)?;
                self.load_attr(name)
            }
            Tracker::Lookup { of, name } => {
                // Reading the attribute would run a descriptor; what is wanted is the entry itself.
                let lookup = raw_lookup(py)?;
                let name = PyString::intern(py, name).into_any().unbind();
                self.begin_call(|cg| cg.load_const(lookup))?;
                self.load_tracker(*of)?;
                self.load_const(name)?;
                self.end_call(2)
            }
            Tracker::Cached { of, key, args, keywords } => {
                let cached = cached(py)?;
                self.begin_call(|cg| cg.load_const(cached))?;
                self.load_tracker(*of)?;
                for part in [key, args, keywords] {
                    self.load_const(part.0.clone_ref(py))?;
                }
                self.end_call(4)
            }
            Tracker::Type { of } => {
                self.emitter.begin_call()?;
                self.load_builtin("type")?;
                self.emitter.callable_loaded()?;
                self.load_tracker(*of)?;
                self.emitter.call(1)
            }
            Tracker::Item { of, key } => self.load_item(*of, key),
            Tracker::CellContents { of } => self.load_cell_contents(*of),
            Tracker::Part { of, part } => {
                self.load_tracker(*of)?;
                self.load_attr(part.attribute())
            }
            Tracker::Made(variable) => self.load(*variable),
            Tracker::Storage { of } => self.load_tracker(*of),
            Tracker::Length { of } => {
                self.begin_call(|cg| cg.load_builtin("len"))?;
                self.load_tracker(*of)?;
                self.end_call(1)
            }
            Tracker::Upcoming { of, after } => {
                let ahead = ahead(py)?;
                self.begin_call(|cg| cg.load_const(ahead))?;
                self.load_tracker(*of)?;
                self.load_const(after.into_pyobject(py).map_err(PyErr::from)?.into_any().unbind())?;
                self.end_call(2)
            }
            Tracker::Computed { how, of } => self.load_computed(id, how, of),
            // Guards alone ask what an iterator goes over.
            Tracker::Iterated { .. } | Tracker::Produced => {
                Err(pyo3::exceptions::PyRuntimeError::new_err("a value made in the trace was loaded").into())
            }
        }
    }

    /// Computes it once: what it is computed from may be asked for again and again.
    fn load_computed(&mut self, id: TrackerId, how: &Computation, of: &[TrackerId]) -> Flow<()> {
        if let Some(&temp) = self.computed.get(&id) {
            return self.op("LOAD_FAST", temp);
        }
        if let Computation::Call(function) = how {
            let function = function.0.clone_ref(self.cx.py);
            self.begin_call(|cg| cg.load_const(function))?;
        }
        for &number in of {
            self.load_tracker(number)?;
        }
        match how {
            Computation::Binary(op) => self.binary(*op)?,
            Computation::Call(_) => self.end_call(of.len() as u32)?,
            // Its outcome is assumed.
            Computation::Compare(_) => {
                return Err(pyo3::exceptions::PyRuntimeError::new_err("a comparison of the guards was loaded").into())
            }
        }
        let temp = self.emitter.new_local(&format!("___n{}", self.computed.len()));
        self.computed.insert(id, temp);
        self.op("STORE_FAST", temp)?;
        self.op("LOAD_FAST", temp)
    }

    fn load_argument(&mut self, slot: u32) -> Flow<()> {
        let root = Rc::clone(&self.root);
        let name = &root.code.varnames[slot as usize];
        match root.code.cellvars.iter().position(|cell| cell == name) {
            Some(cell) => self.emitter.cell_op("LOAD_DEREF", cell),
            None => self.op("LOAD_FAST", slot),
        }
    }

    fn load_item(&mut self, of: TrackerId, key: &Key) -> Flow<()> {
        if let Key::Str(name) = key {
            let is_found = match self.cx.trackers.get(of) {
                Tracker::Globals => true,
                // A function of another module may have found it there, where the frame's own globals have something else.
                Tracker::Builtins => {
                    let globals = self.cx.trackers.add(Tracker::Globals);
                    self.cx.guards.has(globals, Test::LacksKey(Key::Str(Rc::clone(name))))
                }
                _ => false,
            };
            if is_found {
                return self.emitter.load_global(name);
            }
        }
        let object = key.object(self.cx.py)?.unbind();
        if matches!(self.cx.trackers.get(of), Tracker::Storage { .. }) {
            let kept = kept(self.cx.py)?;
            self.begin_call(|cg| cg.load_const(kept))?;
            self.load_tracker(of)?;
            self.load_const(object)?;
            return self.end_call(2);
        }
        self.load_tracker(of)?;
        self.load_const(object)?;
        self.op("BINARY_SUBSCR", 0)
    }

    fn load_cell_contents(&mut self, of: TrackerId) -> Flow<()> {
        if let Tracker::FreeCell { index, .. } = self.cx.trackers.get(of) {
            let cell = self.root.code.cellvars.len() + *index as usize;
            return self.emitter.cell_op("LOAD_DEREF", cell);
        }
        self.load_tracker(of)?;
        self.load_attr("cell_contents")
    }
}
