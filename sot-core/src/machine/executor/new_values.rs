//! Values made in the trace: constants, containers, and results of pure calls.

use std::rc::Rc;

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyIterator, PyList, PyString, PyTuple, PyType};

use super::{limits, OpcodeExecutor, Trace};
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::is_held_weakly;
use crate::machine::variable::{VarId, Variable};
use crate::policy::MAX_ITEMS;
use crate::tracker::{ById, Tracker, TrackerId};

impl<'py> Trace<'py> {
    /// Adds a variable made in the trace.
    pub fn produce(&mut self, payload: Rc<dyn Variable>) -> VarId {
        let tracker = self.trackers.add(Tracker::Produced);
        self.vars.add(payload, tracker)
    }

    /// Adds a constant of the trace.
    pub fn constant(&mut self, value: Py<PyAny>) -> VarId {
        let tracker = self.trackers.constant(value.clone_ref(self.py));
        let payload = (self.runtime.factories.constant)(value);
        self.vars.add(payload, tracker)
    }

    /// A tuple made in the trace.
    pub fn tuple(&mut self, items: Vec<VarId>) -> VarId {
        let payload = (self.runtime.factories.tuple)(items);
        self.produce(payload)
    }

    /// A list made in the trace.
    pub fn list(&mut self, items: Vec<VarId>) -> VarId {
        let payload = (self.runtime.factories.list)(items);
        self.produce(payload)
    }

    /// The `None` constant.
    pub fn none(&mut self) -> VarId {
        let none = self.py.None();
        self.constant(none)
    }

    /// `True` or `False`.
    pub fn boolean(&mut self, value: bool) -> VarId {
        let value = PyBool::new(self.py, value).to_owned().into_any().unbind();
        self.constant(value)
    }

    /// An `int` constant.
    pub fn integer(&mut self, value: i64) -> Flow<VarId> {
        let value = value.into_pyobject(self.py).map_err(PyErr::from)?.into_any().unbind();
        Ok(self.constant(value))
    }

    /// A `str` constant.
    pub fn string(&mut self, value: &str) -> VarId {
        let value = PyString::new(self.py, value).into_any().unbind();
        self.constant(value)
    }

    /// Returns the tracker of an object that guards have found as a key.
    pub fn found_tracker(&mut self, object: &Bound<'py, PyAny>) -> TrackerId {
        let object = ById(object.clone().unbind());
        self.trackers.add(if is_held_weakly(object.0.bind(self.py)) {
            Tracker::GuardedKey(object)
        } else {
            Tracker::Constant(object)
        })
    }
}

impl<'py> OpcodeExecutor<'py> {
    /// Returns a variable for the result of a pure call made while tracing: a new value, which new code must make
    /// anew.
    pub fn wrap_fresh(&mut self, object: &Bound<'py, PyAny>) -> Flow<VarId> {
        if self.runtime.is_constant(object) {
            self.limits.charge_bytes(object);
            return Ok(self.trace.constant(object.clone().unbind()));
        }
        limits::refuse_deep_values()?;
        if let Ok(tuple) = object.cast_exact::<PyTuple>() {
            self.limits.refuse_many(tuple.len())?;
            let items = tuple.iter().map(|item| self.wrap_fresh(&item)).collect::<Flow<Vec<_>>>()?;
            return Ok(self.trace.tuple(items));
        }
        if let Ok(list) = object.cast_exact::<PyList>() {
            self.limits.refuse_many(list.len())?;
            let items = list.iter().map(|item| self.wrap_fresh(&item)).collect::<Flow<Vec<_>>>()?;
            let payload = (self.runtime.factories.list)(items);
            return Ok(self.trace.produce(payload));
        }
        if object.is_instance_of::<PyBaseException>() {
            return (self.runtime.factories.exception)(self, object);
        }
        if let Ok(items) = object.cast::<PyIterator>() {
            // The remaining items are known, because only the trace advances the iterator.
            let items = items.clone().take(MAX_ITEMS + 1).collect::<PyResult<Vec<_>>>()?;
            self.limits.refuse_many(items.len())?;
            let items = items.iter().map(|item| self.wrap_fresh(item)).collect::<Flow<Vec<_>>>()?;
            let items = self.trace.tuple(items);
            return self.iter(items);
        }
        self.dependencies.class_of(object);
        let is_value = (self.runtime.factories.is_value)(object);
        if is_value || object.is_instance_of::<PyType>() || object.is_callable() {
            // Pure calls do not make types and functions, they only return existing ones. Of an immutable value any
            // object will do.
            let tracker = self.trace.trackers.constant(object.clone().unbind());
            return Ok(self.trace.wrap(object, tracker));
        }
        let has_kind = !self.runtime.kinds.find(object).is_some_and(|kind| kind.of_any_class);
        // New code would make a plain tuple of a named tuple.
        if !has_kind || object.is_instance_of::<PyTuple>() {
            let name = object.get_type().qualname().map_or_else(|_| "?".to_owned(), |name| name.to_string());
            let text = format!("a call that makes a {name}");
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
        }
        let tracker = self.trace.trackers.add(Tracker::Produced);
        Ok(self.trace.wrap(object, tracker))
    }
}
