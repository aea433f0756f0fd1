//! Keys of dicts and sets. For constants, tuples of constants and objects that compare by identity, CPython itself
//! compares the real keys. Methods `__hash__` and `__eq__` of the program are inlined where CPython would call them.

mod iterates_over;
mod plain;
mod real_key;

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString, PyTuple, PyType};

use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, refuse_deep_values, OpcodeExecutor, Trace};
use sot_core::guard::{has_key, Test};
use sot_core::side_effects::Effect;
use sot_core::stats;
use sot_core::tracker::{Key, TrackerId};
use sot_core::variable::VarId;

use crate::classes::subclass;
use crate::containers::key_index::KeyIndex;
use crate::containers::set::SetVariable;
use crate::containers::tuple::TupleVariable;
use crate::identity::IdVariable;

pub(crate) use iterates_over::IteratesOver;
use plain::{is_plain, MAX_DEPTH};
use real_key::{frozen, identity_hash, identity_of, key_object, stand_in, StandIn};

/// Integers below this are not taken for addresses of objects.
const LOWEST: u64 = 1 << 16;

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

impl HashKey {
    /// Returns the key for a variable. Raises a `TypeError` in the trace if the value is not hashable.
    pub fn of(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<Rc<HashKey>> {
        if let Some((of, is_id)) = identity_of(cx, variable)? {
            let object = stand_in(&cx.trace, identity_hash(of, is_id))?;
            let (hash, equality) = (object.hash()?, Equality::Identity(of, is_id));
            return Ok(Rc::new(HashKey { variable, object: object.unbind(), hash, equality, asked: 0 }));
        }
        let mut equality = Equality::Real;
        let object = key_object(cx, variable, &mut equality)?;
        let hash = object.hash().map_err(|error| cx.raise(error))?;
        let asked = cx.trace.effects.len();
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
        Ok(Rc::new(HashKey { variable, object: object.unbind(), hash, equality, asked: cx.trace.effects.len() }))
    }

    /// Returns the key for an element of a real dict or set. The guards of the container pin the element.
    pub fn found<'py>(cx: &mut OpcodeExecutor<'py>, object: &Bound<'py, PyAny>) -> Flow<Rc<HashKey>> {
        cx.refuse_keeping_alive(object)?;
        let tracker = cx.trace.found_tracker(object);
        let variable = cx.trace.wrap(object, tracker);
        if is_plain(object, 0) {
            let (object, hash) = (object.clone().unbind(), object.hash()?);
            return Ok(Rc::new(HashKey { variable, object, hash, equality: Equality::Real, asked: 0 }));
        }
        let key = HashKey::of(cx, variable)?;
        if key.equality == Equality::Followed && !cx.trace.effects.attributes_of(variable).is_empty() {
            let ty = cx.trace.vars.get(variable).python_type(&cx.trace);
            let read = names_read_by(&cx.trace, &ty, "__hash__")?;
            if cx.trace.effects.attributes_of(variable).iter().any(|(name, _)| read.iter().any(|read| **read == **name))
            {
                // CPython goes by the hash that the key had when it was inserted.
                let text = "a key whose hash may have changed since it was inserted";
                return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
            }
        }
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

    /// Returns the hash that the key has in CPython, in this call and in each call whose guards hold.
    pub(crate) fn real_hash(&self) -> Option<isize> {
        (self.equality == Equality::Real).then_some(self.hash)
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

    /// True if the key is hashed and compared by methods of the program.
    pub(crate) fn asks_program(&self) -> bool {
        self.equality == Equality::Followed
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
                let before = cx.trace.effects.len();
                let equal = object_model::equal(cx, self.variable, other.variable)?;
                let changes = |effect: &Effect| matches!(effect, Effect::Contents { .. });
                if cx.trace.effects.log().iter().skip(before).any(changes) {
                    // It may be the container that is being searched.
                    let text = "keys that change a container when they are compared";
                    return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
                }
                Ok(equal)
            }
        }
    }
}

/// Guards that a dict or set from outside has the key, or that it does not. Returns false, and guards nothing, if only
/// code of the program can tell, or if the key is another one in other calls.
pub(crate) fn guard_presence(cx: &mut OpcodeExecutor<'_>, of: TrackerId, container: &Py<PyAny>, key: &HashKey) -> bool {
    if key.real_hash().is_none() {
        return false;
    }
    let key = key.bind(cx.py);
    let Some(is_there) = has_key(container.bind(cx.py), key) else { return false };
    let key = Key::of(key);
    cx.trace.guards.add(of, if is_there { Test::HasKey(key) } else { Test::LacksKey(key) });
    true
}

/// Falls back if new code cannot rebuild a dict or set of these keys: rebuilding calls the program's `__hash__` and
/// `__eq__` again, before the side effects are replayed. Refuses keys for which the methods could then give other
/// results.
pub fn refuse_asking_again<'k>(trace: &Trace<'_>, keys: impl Iterator<Item = &'k Rc<HashKey>>) -> Flow<()> {
    let keys: Vec<_> = keys.filter(|key| key.equality == Equality::Followed).collect();
    let refuse = |what| Err(Unwind::fallback(ReasonId::CannotRestore, format!("a dict or set of keys {what}")));
    for (at, key) in keys.iter().enumerate() {
        if keys[..at].iter().any(|other| other.hash == key.hash) {
            return refuse("with equal hashes and an __eq__ of the program");
        }
        // An object that exists already has its former attributes then.
        let exists = trace.trackers.is_loadable(trace.vars.tracker(key.variable));
        let since = if exists { 0 } else { key.asked };
        let is_written =
            |effect: &Effect| matches!(effect, Effect::Attribute { object, .. } if *object == key.variable);
        if trace.effects.log().iter().skip(since).any(is_written) {
            return refuse("that have changed");
        }
        let ty = trace.vars.get(key.variable).python_type(trace);
        for method in ["__hash__", "__eq__"] {
            let Some(code) = code_of(trace, &ty, method) else { continue };
            let names: Vec<String> = code.getattr("co_names")?.extract()?;
            let free: Vec<String> = code.getattr("co_freevars")?.extract()?;
            let reads = |effect: &Effect| match effect {
                Effect::Global { name, .. } => names.iter().any(|read| **read == **name),
                Effect::Attribute { object, name, .. } => {
                    let exists = trace.trackers.is_loadable(trace.vars.tracker(*object));
                    exists && names.iter().any(|read| **read == **name)
                }
                _ => false,
            };
            if free.iter().any(|name| name != "__class__") || trace.effects.log().iter().any(reads) {
                return refuse("whose methods read variables that change");
            }
        }
    }
    Ok(())
}

/// The code of a method that the class has in Python.
fn code_of<'py>(trace: &Trace<'py>, class: &Bound<'py, PyAny>, method: &str) -> Option<Bound<'py, PyAny>> {
    let method = cpython::type_lookup(class.cast::<PyType>().ok()?, &PyString::intern(trace.py, method))?;
    method.getattr("__code__").ok()
}

/// Names of the attributes and globals that the class's method itself reads.
fn names_read_by<'py>(trace: &Trace<'py>, class: &Bound<'py, PyAny>, method: &str) -> Flow<Vec<String>> {
    let code = code_of(trace, class, method);
    Ok(code.map(|code| code.getattr("co_names")?.extract()).transpose()?.unwrap_or_default())
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
            self.index.push(&cx.trace, &key);
            self.keys.push(key);
        }
        Ok(())
    }

    pub(crate) fn into_keys(self) -> Vec<Rc<HashKey>> {
        self.keys
    }
}
