//! Keys of dicts and sets. For constants, tuples of constants and objects that compare by identity, CPython itself
//! compares the real keys. Methods `__hash__` and `__eq__` of the program are inlined where CPython would call them.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyFrozenSet, PyInt, PyString, PyTuple, PyType, PyWeakrefMethods, PyWeakrefReference};

use sot_core::backend::ObjectTest;
use sot_core::cpython::{self, Place, Recorder};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, refuse_deep_values, CallArgs, OpcodeExecutor};
use sot_core::guard::{same_constant, Identity, Test};
use sot_core::side_effects::Effect;
use sot_core::stats;
use sot_core::variable::{Form, VarId};

use crate::classes::object::{is_c_value, is_compared_value};
use crate::classes::subclass;
use crate::containers::dict;
use crate::containers::key_index::KeyIndex;
use crate::containers::range::RangeVariable;
use crate::containers::set::SetVariable;
use crate::containers::tuple::TupleVariable;
use crate::identity::IdVariable;

/// Integers below this are not taken for addresses of objects.
const LOWEST: u64 = 1 << 16;

/// Maximum depth to which tuples and frozen sets are searched.
const MAX_DEPTH: usize = 20;

/// A key with its hash.
pub struct HashKey {
    /// The key as a variable.
    pub variable: VarId,
    object: Py<PyAny>,
    hash: isize,
    equality: Equality,
    /// Number of side effects when the program's `__hash__` was called.
    asked: usize,
}

/// How a key is compared with another key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Equality {
    /// By CPython, with the real object.
    Real,
    /// By CPython, but the key is or contains a value that is not equal to itself (`nan`) and was made in the trace.
    /// From 3.10 on, the hash of `nan` is an address, so it differs in other calls.
    UnstableHash,
    /// By the identity of a variable: an object that was made in the trace or differs from call to call, or the
    /// `id()` of such an object (then the flag is true). The real object of the key is a stand-in.
    Identity(VarId, bool),
    /// By the program's `__eq__`. The real object is a stand-in with the key's hash.
    Followed,
}

impl Equality {
    fn is_of_stand_in(self) -> bool {
        matches!(self, Equality::Identity(..) | Equality::Followed)
    }

    /// Updates the equality of a key that contains the item.
    fn holding(&mut self, item: Equality) {
        if item.is_of_stand_in() {
            *self = Equality::Followed;
        } else if item == Equality::UnstableHash && *self == Equality::Real {
            *self = Equality::UnstableHash;
        }
    }
}

/// Stands in for an object that does not exist yet, or whose `__hash__` belongs to the program.
#[pyclass(frozen)]
struct StandIn {
    hash: isize,
}

#[pymethods]
impl StandIn {
    fn __hash__(&self) -> isize {
        self.hash
    }
}

impl HashKey {
    /// Returns the key for a variable. Raises a `TypeError` in the trace if the value is not hashable.
    pub fn of(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<Rc<HashKey>> {
        if let Some((of, is_id)) = identity_of(cx, variable)? {
            let object = stand_in(cx, identity_hash(of, is_id))?;
            let (hash, equality) = (object.hash()?, Equality::Identity(of, is_id));
            return Ok(Rc::new(HashKey { variable, object: object.unbind(), hash, equality, asked: 0 }));
        }
        let mut equality = Equality::Real;
        let object = key_object(cx, variable, &mut equality)?;
        let hash = object.hash().map_err(|error| cx.raise(error))?;
        let asked = cx.effects.len();
        Ok(Rc::new(HashKey { variable, object: object.unbind(), hash, equality, asked }))
    }

    /// Returns the key to look up in a set. A `set`, which is not hashable, is replaced by the frozen set of its
    /// items, as CPython does.
    pub fn sought(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<Rc<HashKey>> {
        let refused = match HashKey::of(cx, variable) {
            Err(Unwind::Raise(error)) if cx.type_of(error)?.is(cx.py.get_type::<PyTypeError>()) => error,
            result => return result,
        };
        let items = subclass::seen_by_base(cx, variable)?;
        let Some(set) = cx.see_as::<SetVariable>(items)?.filter(|set| !set.frozen) else {
            return Err(Unwind::Raise(refused));
        };
        let mut equality = Equality::Real;
        let object = frozen(cx.py, &set, &mut equality)?;
        let hash = object.hash()?;
        Ok(Rc::new(HashKey { variable, object: object.unbind(), hash, equality, asked: cx.effects.len() }))
    }

    /// Returns the key for an element of a real dict or set. The guards of the container pin the element.
    pub fn found<'py>(cx: &mut OpcodeExecutor<'py>, object: &Bound<'py, PyAny>) -> Flow<Rc<HashKey>> {
        let tracker = cx.found_tracker(object);
        let variable = cx.wrap(object, tracker);
        if is_plain(object, 0) {
            let (object, hash) = (object.clone().unbind(), object.hash()?);
            return Ok(Rc::new(HashKey { variable, object, hash, equality: Equality::Real, asked: 0 }));
        }
        let key = HashKey::of(cx, variable)?;
        let (hash, equality, asked) = (key.hash, key.equality, key.asked);
        Ok(Rc::new(HashKey { variable, object: object.clone().unbind(), hash, equality, asked }))
    }

    /// Returns the real key, or its stand-in.
    pub fn bind<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.object.bind(py)
    }

    /// Returns the hash of the real key, or of its stand-in.
    pub(crate) fn hash(&self) -> isize {
        self.hash
    }

    /// True if the real key is or contains an integer that may be an address.
    pub(crate) fn may_hold_address(&self, py: Python<'_>) -> bool {
        holds_address(self.bind(py), 0)
    }

    /// True if the real key is a stand-in, which no other code may look at: the key does not exist yet, or its
    /// methods belong to the program.
    pub fn is_stand_in(&self) -> bool {
        self.equality.is_of_stand_in()
    }

    /// True if the real key, or its stand-in, has the hash that the key has in CPython. Then it can represent the key
    /// in a real set, whose order is CPython's.
    pub fn stands_for_hash(&self, py: Python<'_>) -> bool {
        self.equality == Equality::Real
            || self.equality == Equality::Followed && self.bind(py).is_exact_instance_of::<StandIn>()
    }

    /// True if the hash is an address.
    pub fn is_address(&self) -> bool {
        matches!(self.equality, Equality::Identity(..))
    }

    /// True if the key is the identity of `variable`, which was made in the trace.
    pub fn is_own(&self, variable: VarId) -> bool {
        self.equality == Equality::Identity(variable, false)
    }

    /// True if the keys are the same object, or strings with equal text, as attribute names are made anew.
    pub fn is_alike(&self, py: Python<'_>, other: &HashKey) -> bool {
        let text =
            |key: &HashKey| key.bind(py).cast_exact::<PyString>().ok().map(|text| text.to_string_lossy().into_owned());
        self.variable == other.variable
            || self.object.is(&other.object)
            || text(self).is_some_and(|own| text(other) == Some(own))
    }

    /// True if this key may contain, as an integer, the `id()` of an existing object that the other key contains. An
    /// object made in the trace has no address yet, and the `id()` of a constant is that of no other object.
    fn may_be_address_of(&self, cx: &mut OpcodeExecutor<'_>, other: &HashKey) -> Flow<bool> {
        // Cheap tests first, as this runs for each pair of keys.
        Ok(!self.is_stand_in()
            && other.is_stand_in()
            && holds_address(self.bind(cx.py), 0)
            && cx.see_as::<IdVariable>(self.variable)?.is_none()
            && has_address(cx, other.variable)?)
    }

    /// True if the hashes alone tell that the keys differ.
    #[inline]
    pub(crate) fn is_apart(&self, other: &HashKey) -> bool {
        self.hash != other.hash && !self.is_stand_in() && !other.is_stand_in()
    }

    /// True if the keys are equal, so that they denote the same entry.
    pub fn same(&self, cx: &mut OpcodeExecutor<'_>, other: &HashKey) -> Flow<bool> {
        stats::work(1);
        if self.may_be_address_of(cx, other)? || other.may_be_address_of(cx, self)? {
            let text = "an id() among keys that may be addresses of objects";
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
        }
        if let (Equality::Identity(one, false), Equality::Identity(another, false)) = (self.equality, other.equality) {
            return cx.is_same(one, another);
        }
        if self.hash != other.hash {
            return Ok(false);
        }
        match (self.equality, other.equality) {
            (Equality::Real | Equality::UnstableHash, Equality::Real | Equality::UnstableHash) => {
                Ok(self.object.is(&other.object) || self.bind(cx.py).eq(other.bind(cx.py)).unwrap_or(false))
            }
            (Equality::Identity(..), _) | (_, Equality::Identity(..)) => Ok(self.equality == other.equality),
            _ => {
                let before = cx.effects.len();
                let equal = object_model::equal(cx, self.variable, other.variable)?;
                let changes = |effect: &Effect| matches!(effect, Effect::Contents { .. });
                if cx.effects.log().iter().skip(before).any(changes) {
                    // It may be the container that is being searched.
                    let text = "keys that change a container when they are compared";
                    return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
                }
                Ok(equal)
            }
        }
    }
}

/// Falls back if new code cannot rebuild a dict or set of these keys: rebuilding calls the program's `__hash__` and
/// `__eq__` again, before the side effects are replayed. Refuses keys for which the methods could then give other
/// results.
pub fn refuse_asking_again<'k>(cx: &OpcodeExecutor<'_>, keys: impl Iterator<Item = &'k Rc<HashKey>>) -> Flow<()> {
    let keys: Vec<_> = keys.filter(|key| key.equality == Equality::Followed).collect();
    let refuse = |what| Err(Unwind::fallback(ReasonId::CannotRestore, format!("a dict or set of keys {what}")));
    for (at, key) in keys.iter().enumerate() {
        if keys[..at].iter().any(|other| other.hash == key.hash) {
            return refuse("of one hash, which compare themselves");
        }
        let is_written =
            |effect: &Effect| matches!(effect, Effect::Attribute { object, .. } if *object == key.variable);
        if cx.effects.log().iter().skip(key.asked).any(is_written) {
            return refuse("that have changed since");
        }
        let ty = cx.vars.get(key.variable).python_type(cx);
        let Ok(ty) = ty.cast::<PyType>() else { continue };
        for method in ["__hash__", "__eq__"] {
            let method = cpython::type_lookup(ty, &PyString::intern(cx.py, method));
            let Some(code) = method.and_then(|method| method.getattr("__code__").ok()) else { continue };
            let names: Vec<String> = code.getattr("co_names")?.extract()?;
            let free: Vec<String> = code.getattr("co_freevars")?.extract()?;
            let reads = |effect: &Effect| match effect {
                Effect::Global { name, .. } => names.iter().any(|read| **read == **name),
                _ => false,
            };
            if free.iter().any(|name| name != "__class__") || cx.effects.log().iter().any(reads) {
                return refuse("whose methods read variables that change");
            }
        }
    }
    Ok(())
}

fn stand_in<'py>(cx: &OpcodeExecutor<'py>, hash: isize) -> Flow<Bound<'py, PyAny>> {
    Ok(Bound::new(cx.py, StandIn { hash })?.into_any())
}

/// Returns the hash of a stand-in for an identity.
fn identity_hash(of: VarId, is_id: bool) -> isize {
    let mut state = std::collections::hash_map::DefaultHasher::new();
    (of, is_id).hash(&mut state);
    state.finish() as isize
}

fn identity_of(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<Option<(VarId, bool)>> {
    if let Some(id) = cx.see_as::<IdVariable>(variable)? {
        if id.is_hash() {
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, "the hash of an object as a key"));
        }
        let constant = cx.see(id.object())?.constant().is_some();
        return Ok((!constant).then_some((id.object(), true)));
    }
    let payload = cx.see(variable)?;
    if payload.object().is_some() || payload.constant().is_some() {
        return Ok(None);
    }
    let ty = payload.python_type(cx);
    let by_identity = matches!(payload.form(), Form::Instance | Form::Function | Form::Exception)
        && ty.cast::<PyType>().is_ok_and(type_compares_by_identity);
    Ok(by_identity.then_some((variable, false)))
}

/// True if a key is or contains the `id()` of an existing object.
fn has_address(cx: &mut OpcodeExecutor<'_>, key: VarId) -> Flow<bool> {
    if let Some(id) = cx.see_as::<IdVariable>(key)? {
        return Ok(cx.see(id.object())?.object().is_some());
    }
    let Some(tuple) = cx.see_as::<TupleVariable>(key)? else { return Ok(false) };
    refuse_deep_values()?;
    for &item in &tuple.items {
        if has_address(cx, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True if a key is or contains an integer that may be an address.
fn holds_address(key: &Bound<'_, PyAny>, depth: usize) -> bool {
    match key.cast_exact::<PyTuple>() {
        Ok(items) => depth > MAX_DEPTH || items.iter().any(|item| holds_address(&item, depth + 1)),
        Err(_) => key.cast_exact::<PyInt>().is_ok_and(|key| key.extract().is_ok_and(|key: u64| key >= LOWEST)),
    }
}

/// Returns the position of a key.
pub fn position(cx: &mut OpcodeExecutor<'_>, keys: &[Rc<HashKey>], key: &HashKey) -> Flow<Option<usize>> {
    for (at, known) in keys.iter().enumerate() {
        if !known.is_apart(key) && known.same(cx, key)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Distinct keys in the order of their insertion.
#[derive(Default)]
pub(crate) struct UniqueKeys {
    keys: Vec<Rc<HashKey>>,
    index: KeyIndex,
}

impl UniqueKeys {
    /// Adds a key unless it is present.
    pub(crate) fn add(&mut self, cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<()> {
        let key = HashKey::of(cx, variable)?;
        self.add_key(cx, key)
    }

    /// Adds a key unless it is present.
    pub(crate) fn add_key(&mut self, cx: &mut OpcodeExecutor<'_>, key: Rc<HashKey>) -> Flow<()> {
        if self.index.find(cx, &key, |at| &self.keys[at])?.is_none() {
            self.index.push(cx, &key);
            self.keys.push(key);
        }
        Ok(())
    }

    pub(crate) fn into_keys(self) -> Vec<Rc<HashKey>> {
        self.keys
    }
}

/// Returns a real object with the key's hash. `equality` is updated if the object does not have the key's equality.
fn key_object<'py>(cx: &mut OpcodeExecutor<'py>, variable: VarId, equality: &mut Equality) -> Flow<Bound<'py, PyAny>> {
    let py = cx.py;
    if let Some(known) = cx.known(variable)? {
        if differs_from_itself(&known, 0) {
            if cx.trackers.is_sourced(cx.vars.tracker(variable)) {
                return Ok(with_guarded_identity(cx, variable, &known));
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
        return stand_in(cx, identity_hash(of, is_id));
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
    let unhashable = cx.vars.get(variable).form() == Form::List
        || dict::of(cx, variable)?.is_some()
        || cx.vars.as_kind::<SetVariable>(variable).is_some();
    if unhashable {
        return Err(refuse_unhashable(cx, variable)?);
    }
    let object = cx.see(variable)?.object().map(|object| object.bind(py).clone());
    if let Some(object) = object.as_ref().filter(|object| hashed_in_c(object)) {
        return Ok(with_guarded_identity(cx, variable, object));
    }
    let hash = followed_hash(cx, variable)?;
    let Some(hash) = hash else {
        // A parameter is the same object in all calls, so its identity is guarded.
        if let Some(object) = object.filter(|object| cx.runtime.backend.is_parameter(object)) {
            return Ok(with_guarded_identity(cx, variable, &object));
        }
        *equality = Equality::Identity(variable, false);
        return stand_in(cx, identity_hash(variable, false));
    };
    *equality = Equality::Followed;
    stand_in(cx, hash)
}

/// Returns the real frozen set of the items.
fn frozen<'py>(py: Python<'py>, set: &SetVariable, equality: &mut Equality) -> Flow<Bound<'py, PyAny>> {
    set.keys.iter().for_each(|key| equality.holding(key.equality));
    Ok(PyFrozenSet::new(py, set.keys.iter().map(|key| key.bind(py)))?.into_any())
}

/// True if a value is, or contains, a value that is not equal to itself.
fn differs_from_itself(value: &Bound<'_, PyAny>, depth: usize) -> bool {
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
) -> Bound<'py, PyAny> {
    let tracker = cx.vars.tracker(variable);
    if cx.trackers.is_sourced(tracker) {
        cx.guards.add(tracker, Test::Is(Identity::of(object)));
    }
    object.clone()
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
    let before = cx.effects.len();
    let hash = cx.call(method, &CallArgs::default())?;
    if cx.effects.len() != before {
        // New code that rebuilds a dict or set would repeat the side effects.
        let text = format!("a {} object as a key: its hash does more than to give a number", cx.type_name(variable)?);
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

/// True if hashing and comparing the object runs no code of the program, and its results never change.
fn is_plain(object: &Bound<'_, PyAny>, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    if let Ok(tuple) = object.cast_exact::<PyTuple>() {
        return tuple.iter().all(|item| is_plain(&item, depth + 1));
    }
    if let Ok(set) = object.cast_exact::<PyFrozenSet>() {
        return set.iter().all(|item| is_plain(&item, depth + 1));
    }
    is_atom(object) || hashed_in_c(object)
}

fn is_atom(object: &Bound<'_, PyAny>) -> bool {
    use pyo3::types::{PyBool, PyBytes, PyComplex, PyFloat, PyInt, PyRange};
    object.is_none()
        || object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyBool>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyBytes>()
        || object.is_exact_instance_of::<PyComplex>()
        || object.is_exact_instance_of::<PyRange>()
        || object.is(object.py().Ellipsis())
}

/// True if C code hashes and compares the object.
fn hashed_in_c(object: &Bound<'_, PyAny>) -> bool {
    compares_by_identity(object)
        || is_c_value(object)
        || object.is_instance_of::<PyCFunction>()
        || refers_to_class(object)
}

/// True if the object is a weak reference to a class that compares by identity. The reference compares as the class
/// does.
fn refers_to_class(object: &Bound<'_, PyAny>) -> bool {
    let reference = object.cast_exact::<PyWeakrefReference>().ok().and_then(PyWeakrefMethods::upgrade);
    reference.is_some_and(|referent| referent.is_instance_of::<PyType>() && compares_by_identity(&referent))
}

fn compares_by_identity(object: &Bound<'_, PyAny>) -> bool {
    type_compares_by_identity(&object.get_type())
}

fn type_compares_by_identity(ty: &Bound<'_, PyType>) -> bool {
    let py = ty.py();
    let base = py.get_type::<PyAny>();
    let is_default = |name: &str, default: PyResult<Bound<'_, PyAny>>| {
        let found = cpython::type_lookup(ty, &PyString::intern(py, name));
        matches!((found, default), (Some(found), Ok(default)) if found.is(&default))
    };
    // Members of an enumeration hash by their name.
    let of_enum = || cpython::import(py, "enum").and_then(|module| module.getattr("Enum")?.getattr("__hash__"));
    is_default("__eq__", base.getattr("__eq__"))
        && (is_default("__hash__", base.getattr("__hash__")) || is_default("__hash__", of_enum()))
}

/// Guard: an object of exactly this type iterates over exactly these keys, in this order. For collections whose items
/// cannot be fetched one by one. Checking runs no code of the program.
pub(crate) struct IteratesOver {
    ty: Py<PyType>,
    /// `__iter__` of the builtin type, which subclasses may override.
    iterate: Py<PyAny>,
    keys: Vec<Identity>,
}

impl IteratesOver {
    /// Returns the test for a collection of type `ty`, which is iterated by the `__iter__` of `base`.
    pub(crate) fn test(
        py: Python<'_>,
        ty: &Bound<'_, PyAny>,
        base: &Bound<'_, PyAny>,
        keys: &[Rc<HashKey>],
    ) -> Flow<Test> {
        let ty = ty.cast::<PyType>().map_err(PyErr::from)?.clone().unbind();
        let iterate = base.getattr("__iter__")?.unbind();
        let keys = keys.iter().map(|key| Identity::of_key(key.bind(py))).collect();
        Ok(Test::Object(Box::new(IteratesOver { ty, iterate, keys })))
    }
}

impl ObjectTest for IteratesOver {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        let py = object.py();
        if !object.get_type().is(&self.ty) {
            return false;
        }
        let items = self.iterate.bind(py).call1((object,)).and_then(|items| items.try_iter());
        let Ok(mut items) = items else { return false };
        let is_next = |key: &Identity| match (items.next(), key.get(py)) {
            (Some(Ok(item)), Some(key)) => same_key(&item, &key),
            _ => false,
        };
        self.keys.iter().all(is_next) && items.next().is_none()
    }

    fn note(&self, place: &Place<'_>, recorder: &mut Recorder) -> bool {
        recorder.dict(place)
    }

    fn describe(&self, subject: &str) -> String {
        Python::attach(|py| {
            let keys: Vec<String> = self.keys.iter().map(|key| key.text(py)).collect();
            format!("list({subject}) == [{}]", keys.join(", "))
        })
    }
}

/// True if the keys are interchangeable. Equal keys of different types (`1` and `True`) are not.
fn same_key(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> bool {
    if a.is(b) {
        return true;
    }
    if let (Ok(a), Ok(b)) = (a.cast_exact::<PyTuple>(), b.cast_exact::<PyTuple>()) {
        return a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same_key(&a, &b));
    }
    if let (Ok(a), Ok(b)) = (a.cast_exact::<PyFrozenSet>(), b.cast_exact::<PyFrozenSet>()) {
        return a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same_key(&a, &b));
    }
    if is_atom(a) {
        return same_constant(a, b) && !differs_from_itself(a, 0);
    }
    is_compared_value(a) && a.get_type().is(b.get_type()) && a.eq(b).unwrap_or(false)
}
