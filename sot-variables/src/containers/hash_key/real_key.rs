//! The real object of a key: the key itself, or a stand-in with its hash.

use std::hash::{Hash, Hasher};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyFrozenSet, PyInt, PyTuple, PyType};

use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, refuse_deep_values, CallArgs, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::variable::{Form, VarId};

use super::plain::{hashed_in_c, is_atom, type_compares_by_identity, MAX_DEPTH};
use super::Equality;
use crate::classes::object::is_compared_value;
use crate::classes::stand_in::is_constructed;
use crate::containers::dict;
use crate::containers::range::RangeVariable;
use crate::containers::set::SetVariable;
use crate::containers::tuple::TupleVariable;
use crate::identity::IdVariable;

/// Returns a real object with the key's hash. `equality` is updated if the object does not have the key's equality.
pub(super) fn key_object<'py>(
    cx: &mut OpcodeExecutor<'py>,
    variable: VarId,
    equality: &mut Equality,
) -> Flow<Bound<'py, PyAny>> {
    let py = cx.py;
    if let Some(known) = cx.known(variable)? {
        if differs_from_itself(&known, 0) {
            if cx.trace.trackers.is_sourced(cx.trace.vars.tracker(variable)) {
                return with_guarded_identity(cx, variable, &known);
            }
            *equality = Equality::UnstableHash;
        }
        return Ok(known);
    }
    if let Some(id) = cx.see_as::<IdVariable>(variable)? {
        // A known number or string is the very object that the program has.
        if let Some(known) = cx.known(id.object())? {
            return Ok((known.as_ptr() as usize).into_pyobject(py).map_err(PyErr::from)?.into_any());
        }
    }
    if let Some((of, is_id)) = identity_of(cx, variable)? {
        *equality = Equality::Followed;
        return stand_in(&cx.trace, identity_hash(of, is_id));
    }
    if let Some(tuple) = cx.see_as::<TupleVariable>(variable)?.filter(|tuple| tuple.is_hashed_as_tuple(py)) {
        refuse_deep_values()?;
        let mut items = Vec::with_capacity(tuple.items.len());
        for &item in &tuple.items {
            let mut own = Equality::Real;
            items.push(key_object(cx, item, &mut own)?);
            equality.holding(own);
        }
        return Ok(PyTuple::new(py, items)?.into_any());
    }
    if let Some(range) = cx.see_as::<RangeVariable>(variable)? {
        return Ok(range.bind(py));
    }
    if let Some(set) = cx.see_as::<SetVariable>(variable)? {
        if set.frozen {
            return frozen(py, &set, equality);
        }
    }
    let unhashable = cx.trace.vars.get(variable).form() == Form::List
        || dict::of(cx, variable)?.is_some()
        || cx.trace.vars.as_kind::<SetVariable>(variable).is_some();
    if unhashable {
        return Err(refuse_unhashable(cx, variable)?);
    }
    let object = cx.see(variable)?.object().map(|object| object.bind(py).clone());
    if let Some(object) = object.as_ref().filter(|object| hashed_in_c(object)) {
        assume_own_comparison(cx, variable)?;
        return with_guarded_identity(cx, variable, object);
    }
    let hash = followed_hash(cx, variable)?;
    let Some(hash) = hash else {
        // A parameter is the same object in all calls, so its identity is guarded.
        if let Some(object) = object.filter(|object| cx.runtime.backend().is_parameter(object)) {
            return with_guarded_identity(cx, variable, &object);
        }
        *equality = Equality::Identity(variable, false);
        return stand_in(&cx.trace, identity_hash(variable, false));
    };
    *equality = Equality::Followed;
    stand_in(&cx.trace, hash)
}

/// Returns the real frozen set of the items.
pub(super) fn frozen<'py>(py: Python<'py>, set: &SetVariable, equality: &mut Equality) -> Flow<Bound<'py, PyAny>> {
    set.keys.iter().for_each(|key| equality.holding(key.equality));
    Ok(PyFrozenSet::new(py, set.keys.iter().map(|key| key.bind(py)))?.into_any())
}

/// Stands in for an object that does not exist yet, or whose `__hash__` belongs to the program.
#[pyclass(frozen)]
pub(super) struct StandIn {
    hash: isize,
}

#[pymethods]
impl StandIn {
    fn __hash__(&self) -> isize {
        self.hash
    }
}

pub(super) fn stand_in<'py>(trace: &Trace<'py>, hash: isize) -> Flow<Bound<'py, PyAny>> {
    Ok(Bound::new(trace.py, StandIn { hash })?.into_any())
}

/// Returns the hash of a stand-in for an identity.
pub(super) fn identity_hash(of: VarId, is_id: bool) -> isize {
    let mut state = std::collections::hash_map::DefaultHasher::new();
    (of, is_id).hash(&mut state);
    state.finish() as isize
}

pub(super) fn identity_of(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<Option<(VarId, bool)>> {
    if let Some(id) = cx.see_as::<IdVariable>(variable)? {
        if id.is_hash() {
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, "the hash of an object as a key"));
        }
        let constant = cx.see(id.object())?.constant().is_some();
        return Ok((!constant).then_some((id.object(), true)));
    }
    let payload = cx.see(variable)?;
    let is_made = is_constructed(&cx.trace, variable);
    if payload.constant().is_some() || payload.object().is_some() && !is_made {
        return Ok(None);
    }
    let ty = payload.python_type(&cx.trace);
    let is_object = matches!(payload.form(), Form::Instance | Form::Function | Form::Exception);
    let by_identity = (is_object || is_made) && ty.cast::<PyType>().is_ok_and(type_compares_by_identity);
    if by_identity {
        assume_own_comparison(cx, variable)?;
    }
    Ok(by_identity.then_some((variable, false)))
}

/// Guards that the class gets no other `__hash__` or `__eq__`.
fn assume_own_comparison(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<()> {
    let ty = cx.type_of(variable)?;
    if !ty.cast::<PyType>().is_ok_and(cpython::is_heap_type) {
        return Ok(());
    }
    for name in ["__hash__", "__eq__"] {
        if let Some((method, tracker)) = object_model::lookup(cx, variable, &name.into())? {
            object_model::guard_identity(cx, &method, tracker);
        }
    }
    Ok(())
}

/// True if a value is, or contains, a value that is not equal to itself.
pub(super) fn differs_from_itself(value: &Bound<'_, PyAny>, depth: usize) -> bool {
    if let Ok(items) = value.cast_exact::<PyTuple>() {
        return depth > MAX_DEPTH || items.iter().any(|item| differs_from_itself(&item, depth + 1));
    }
    if let Ok(items) = value.cast_exact::<PyFrozenSet>() {
        return depth > MAX_DEPTH || items.iter().any(|item| differs_from_itself(&item, depth + 1));
    }
    (is_atom(value) || is_compared_value(value)) && !value.eq(value).unwrap_or(true)
}

/// Returns the object, and guards its identity.
fn with_guarded_identity<'py>(
    cx: &mut OpcodeExecutor<'py>,
    variable: VarId,
    object: &Bound<'py, PyAny>,
) -> Flow<Bound<'py, PyAny>> {
    let tracker = cx.trace.vars.tracker(variable);
    if cx.trace.trackers.is_sourced(tracker) {
        cx.refuse_keeping_alive(object)?;
        cx.trace.guards.add(tracker, Test::Is(Identity::of(object)));
    }
    Ok(object.clone())
}

fn refuse_unhashable(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<Unwind> {
    let name = cx.type_name(variable)?;
    Ok(cx.raise(PyTypeError::new_err(format!("unhashable type: '{name}'"))))
}

/// Returns the result of the type's `__hash__`, or `None` if that is the object's own `id()`. Then no other object
/// has the same hash, so the program's `__eq__` is never called.
fn followed_hash(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<Option<isize>> {
    let Some(method) = cx.special_method(variable, "__hash__")? else {
        return Err(refuse_unhashable(cx, variable)?);
    };
    let before = cx.trace.effects.len();
    let hash = cx.call(method, &CallArgs::default())?;
    if cx.trace.effects.len() != before {
        // New code that rebuilds a dict or set would repeat the side effects.
        let text = format!("a {} object as a key: its __hash__ has side effects", cx.type_name(variable)?);
        return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
    }
    if cx.see_as::<IdVariable>(hash)?.is_some_and(|id| id.is_of(variable)) {
        return Ok(None);
    }
    let Some(hash) = cx.known(hash)? else {
        let name = cx.type_name(variable)?;
        let text = format!("a {name} object as a key: its hash is not known while tracing");
        return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
    };
    if !hash.is_instance_of::<PyInt>() {
        return Err(cx.raise(PyTypeError::new_err("__hash__ method should return an integer")));
    }
    // An integer that does not fit into a hash is hashed itself.
    Ok(Some(hash.extract::<isize>().or_else(|_| hash.hash())?))
}
