//! Keys of dicts and sets. CPython's own hash and equality decide which keys are one; only keys for which these run no
//! user code qualify: known constants, tuples of such, and objects that compare by identity.

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyFrozenSet, PyString, PyTuple, PyType};

use sot_core::backend::ObjectTest;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::guard::{Identity, Test};
use sot_core::variable::VarId;

use crate::dict::DictVariable;
use crate::identity::IdVariable;
use crate::list::ListVariable;
use crate::range::RangeVariable;
use crate::set::SetVariable;
use crate::tuple::TupleVariable;

/// A key with its hash.
pub struct HashKey {
    /// The key as a variable.
    pub variable: VarId,
    object: Py<PyAny>,
    hash: isize,
    /// For an object made in the trace that compares by identity, or an `id()`: whose it is. The object is a stand-in.
    identity: Option<(VarId, bool)>,
}

impl HashKey {
    /// The key a variable is; an unhashable one is the user's `TypeError`.
    pub fn of(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<Rc<HashKey>> {
        if let Some(identity) = identity_of(cx, variable)? {
            let object = cx.py.get_type::<PyAny>().call0()?;
            let hash = object.hash()?;
            return Ok(Rc::new(HashKey { variable, object: object.unbind(), hash, identity: Some(identity) }));
        }
        let object = key_object(cx, variable)?;
        let hash = object.hash().map_err(|error| cx.raise(error))?;
        Ok(Rc::new(HashKey { variable, object: object.unbind(), hash, identity: None }))
    }

    /// A key found in a real dict or set whose guards pin it.
    pub fn found<'py>(cx: &mut OpcodeExecutor<'py>, object: &Bound<'py, PyAny>) -> Flow<Rc<HashKey>> {
        if !is_plain(object, 0) {
            let name = object.get_type().name()?;
            let text = format!("a dict or set with a {name} object as key");
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
        }
        let tracker = cx.constant_tracker(object.clone().unbind());
        let variable = cx.wrap(object, tracker);
        Ok(Rc::new(HashKey { variable, object: object.clone().unbind(), hash: object.hash()?, identity: None }))
    }

    /// The real key.
    pub fn bind<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.object.bind(py)
    }

    /// Whether the real key is not there yet: nothing may look at what stands in for it.
    pub fn is_stand_in(&self) -> bool {
        self.identity.is_some()
    }

    /// Whether both stand for one entry.
    pub fn same(&self, py: Python<'_>, other: &HashKey) -> bool {
        if self.identity.is_some() || other.identity.is_some() {
            return self.identity == other.identity;
        }
        self.hash == other.hash && (self.object.is(&other.object) || self.bind(py).eq(other.bind(py)).unwrap_or(false))
    }
}

fn identity_of(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<Option<(VarId, bool)>> {
    if let Some(id) = cx.see_as::<IdVariable>(variable)? {
        let constant = cx.see(id.object())?.constant().is_some();
        return Ok((!constant).then_some((id.object(), true)));
    }
    let payload = cx.see(variable)?;
    if payload.object().is_some() || payload.constant().is_some() {
        return Ok(None);
    }
    let ty = payload.python_type(cx);
    let by_identity = matches!(payload.kind(), "instance" | "function" | "exception")
        && ty.cast::<PyType>().is_ok_and(type_compares_by_identity);
    Ok(by_identity.then_some((variable, false)))
}

/// Position of a key.
pub fn position(py: Python<'_>, keys: &[Rc<HashKey>], key: &HashKey) -> Option<usize> {
    keys.iter().position(|known| known.same(py, key))
}

fn key_object<'py>(cx: &mut OpcodeExecutor<'py>, variable: VarId) -> Flow<Bound<'py, PyAny>> {
    let py = cx.py;
    if let Some(known) = cx.known(variable)? {
        return Ok(known);
    }
    if let Some(id) = cx.see_as::<IdVariable>(variable)? {
        // A number or string that is here is the one the program has.
        if let Some(known) = cx.known(id.object())? {
            return Ok((known.as_ptr() as usize).into_pyobject(py).map_err(PyErr::from)?.into_any());
        }
    }
    if let Some(tuple) = cx.see_as::<TupleVariable>(variable)? {
        let items = tuple.items.iter().map(|&item| key_object(cx, item)).collect::<Flow<Vec<_>>>()?;
        return Ok(PyTuple::new(py, items)?.into_any());
    }
    if let Some(range) = cx.see_as::<RangeVariable>(variable)? {
        return Ok(range.bind(py));
    }
    if let Some(set) = cx.see_as::<SetVariable>(variable)? {
        if set.frozen {
            return Ok(PyFrozenSet::new(py, set.keys.iter().map(|key| key.bind(py)))?.into_any());
        }
    }
    let unhashable = cx.vars.as_kind::<ListVariable>(variable).is_some()
        || cx.vars.as_kind::<DictVariable>(variable).is_some()
        || cx.vars.as_kind::<SetVariable>(variable).is_some();
    let name = cx.type_name(variable)?;
    if unhashable {
        return Err(cx.raise(PyTypeError::new_err(format!("unhashable type: '{name}'"))));
    }
    let object = cx.see(variable)?.object().map(|object| object.bind(py).clone());
    if let Some(object) = object.filter(compares_by_identity) {
        let tracker = cx.vars.tracker(variable);
        if cx.trackers.is_sourced(tracker) {
            cx.guards.add(tracker, Test::Is(Identity::of(&object)));
        }
        Ok(object)
    } else {
        let text = format!("a {name} object as a key: its hash or equality may run code");
        Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text))
    }
}

/// Whether hash and equality of the object run no user code and never change.
fn is_plain(object: &Bound<'_, PyAny>, depth: usize) -> bool {
    if depth > 20 {
        return false;
    }
    if let Ok(tuple) = object.cast_exact::<PyTuple>() {
        return tuple.iter().all(|item| is_plain(&item, depth + 1));
    }
    if let Ok(set) = object.cast_exact::<PyFrozenSet>() {
        return set.iter().all(|item| is_plain(&item, depth + 1));
    }
    is_atom(object) || compares_by_identity(object)
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
    // The hash of a member of an enumeration is that of its name.
    let of_enum = || py.import("enum").and_then(|module| module.getattr("Enum")?.getattr("__hash__"));
    is_default("__eq__", base.getattr("__eq__"))
        && (is_default("__hash__", base.getattr("__hash__")) || is_default("__hash__", of_enum()))
}

/// A guard: an object of exactly this type iterates over exactly these keys, in this order. For collections whose items
/// cannot be fetched one by one; iterating them runs no user code.
pub(crate) struct IteratesOver {
    ty: Py<PyType>,
    /// `__iter__` of the builtin type, where subclasses may have their own.
    iterate: Py<PyAny>,
    keys: Vec<Py<PyAny>>,
}

impl IteratesOver {
    /// The test for a real collection of a type, which iterates as its `base` does, and its keys.
    pub(crate) fn test(
        py: Python<'_>,
        ty: &Bound<'_, PyAny>,
        base: &Bound<'_, PyAny>,
        keys: &[Rc<HashKey>],
    ) -> Flow<Test> {
        let ty = ty.cast::<PyType>().map_err(PyErr::from)?.clone().unbind();
        let iterate = base.getattr("__iter__")?.unbind();
        let keys = keys.iter().map(|key| key.object.clone_ref(py)).collect();
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
        self.keys.iter().all(|key| matches!(items.next(), Some(Ok(item)) if same_key(&item, key.bind(py))))
            && items.next().is_none()
    }

    fn describe(&self, subject: &str) -> String {
        Python::attach(|py| {
            let keys: Vec<String> = self.keys.iter().map(|key| sot_core::tracker::repr(py, key)).collect();
            format!("list({subject}) == [{}]", keys.join(", "))
        })
    }
}

fn same_key(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> bool {
    a.is(b) || (a.get_type().is(b.get_type()) && is_plain(a, 0) && a.eq(b).unwrap_or(false))
}
