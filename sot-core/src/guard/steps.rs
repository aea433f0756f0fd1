//! Steps of a guard program: fetches, each of which fills the next register, and tests of a register.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyFrozenSetMethods, PyList, PySet, PySetMethods, PyString, PyTuple, PyType};
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::constants::{has_key, may_run_code, same_constant, same_key};
use super::program::FrameView;
use super::{Identity, ObjectTest, ObjectsTest};
use crate::cpython::{self, LruCache, Part, Upcoming};
use crate::foreign::Foreign;
use crate::tracker::Computation;

/// Index of a fetched value.
pub(super) type Register = u32;

pub(super) enum Step {
    Fetch(Fetch),
    Test(Register, Check),
}

pub(super) enum Fetch {
    Argument(usize),
    FreeCell(usize),
    Globals,
    Builtins,
    Constant(Py<PyAny>),
    /// An object referenced weakly; the fetch fails if the object has died.
    GuardedKey(Identity),
    /// The object's own `__dict__`; `None` (Python's) if it has no dict.
    InstanceDict(Register),
    Lookup(Register, Py<PyString>),
    Getattr(Register, Py<PyString>),
    /// An attribute as `object.__getattribute__` finds it, so that no method of the program's runs.
    Own(Register, Py<PyString>),
    /// The result that a `functools.lru_cache` function has for a key.
    Cached(Register, Py<PyAny>),
    Type(Register),
    Index(Register, usize),
    /// An item, counted from the end of a list or deque.
    Last(Register, usize),
    DictItem(Register, Identity),
    /// A dict item whose key may run the program's code when it is hashed or compared: found by the key's identity.
    DictEntry(Register, Identity),
    CellContents(Register),
    Part(Register, Part),
    Length(Register),
    Upcoming(Register, usize),
    Iterated(Register, usize),
    Foreign(Register, Foreign),
    Computed(Computation, Vec<Register>),
}

pub(super) enum Check {
    Is(Identity),
    TypeIs(Identity),
    Equals(Py<PyAny>),
    Length(usize),
    Keys(Vec<Identity>),
    HasKey(Identity),
    LacksKey(Identity),
    /// Like `LacksKey`, but passes for an object that is no dict.
    LacksEntry(Py<PyString>),
    LacksLookup(Py<PyString>),
    PlainReads,
    Subclass(Identity, bool),
    EmptySlot(Py<PyString>),
    LacksPart(Part),
    EmptyCell,
    Exhausted(usize),
    SameAs(Register),
    DiffersFrom(Register),
    /// The first `n` objects are different objects, and differ from all other objects. `n` is the number.
    Apart(Box<[Register]>, usize),
    Object(Box<dyn ObjectTest>),
    /// The other objects, besides the tested one.
    Objects(Box<[Register]>, Box<dyn ObjectsTest>),
}

/// The fetched values.
pub(super) trait Registers<'py> {
    /// The value of a register.
    fn at(&self, register: Register) -> &Bound<'py, PyAny>;
}

impl<'py> Registers<'py> for Vec<Bound<'py, PyAny>> {
    #[inline]
    fn at(&self, register: Register) -> &Bound<'py, PyAny> {
        &self[register as usize]
    }
}

impl Fetch {
    /// Fetches the value. `None` if it cannot be reached any more: the guard fails.
    #[inline]
    pub(super) fn run<'py>(
        &self,
        frame: &impl FrameView<'py>,
        registers: &impl Registers<'py>,
    ) -> Option<Bound<'py, PyAny>> {
        let py = frame.py();
        let at = |register: &Register| registers.at(*register);
        match self {
            Fetch::Argument(slot) => frame.argument(*slot),
            Fetch::FreeCell(index) => frame.free_cell(*index),
            Fetch::Globals => Some(frame.globals()),
            Fetch::Builtins => Some(frame.builtins()),
            Fetch::Constant(object) => Some(object.bind(py).clone()),
            Fetch::GuardedKey(object) => object.get(py),
            Fetch::InstanceDict(of) => {
                Some(cpython::instance_dict(at(of)).map_or_else(|| py.None().into_bound(py), Bound::into_any))
            }
            Fetch::Lookup(of, name) => cpython::type_lookup(at(of).cast::<PyType>().ok()?, name.bind(py)),
            Fetch::Getattr(of, name) => at(of).getattr(name.bind(py)).ok(),
            Fetch::Own(of, name) => cpython::generic_getattr(at(of), name.bind(py)).ok().flatten(),
            Fetch::Cached(of, key) => LruCache::of(at(of))?.kept(key.bind(py)),
            Fetch::Type(of) => Some(at(of).get_type().into_any()),
            Fetch::Index(of, index) => item(at(of), *index),
            Fetch::Last(of, back) => item(at(of), length(at(of))?.checked_sub(*back)?),
            Fetch::DictItem(of, key) => {
                let key = key.get(py)?;
                match at(of).cast::<PyDict>() {
                    Ok(dict) => cpython::dict_get(dict, &key),
                    Err(_) => cpython::dict_get(&cpython::proxied_dict(at(of))?, &key),
                }
            }
            Fetch::DictEntry(of, key) => {
                let mut entries = dict_of(at(of))?.iter();
                entries.find(|(known, _)| key.is(known)).map(|(_, value)| value)
            }
            Fetch::CellContents(of) => cpython::cell_contents(at(of)),
            Fetch::Part(of, part) => part.of(at(of)),
            Fetch::Length(of) => length(at(of))?.into_pyobject(py).ok().map(Bound::into_any),
            Fetch::Upcoming(of, after) => match cpython::upcoming(at(of), *after)? {
                Upcoming::Item(item) => Some(item),
                Upcoming::End => None,
            },
            Fetch::Computed(how, of) => how.apply(&of.iter().map(|of| at(of).clone()).collect::<Vec<_>>()),
            Fetch::Foreign(of, how) => how.0.fetch(at(of)),
            Fetch::Iterated(of, index) => cpython::iterated(at(of))?.into_iter().nth(*index),
        }
    }
}

fn item<'py>(of: &Bound<'py, PyAny>, index: usize) -> Option<Bound<'py, PyAny>> {
    if let Ok(tuple) = of.cast::<PyTuple>() {
        tuple.get_item(index).ok()
    } else if let Ok(list) = of.cast::<PyList>() {
        list.get_item(index).ok()
    } else if cpython::is_deque(of) {
        of.get_item(index).ok()
    } else {
        dict_of(of)?.get_item(index).ok().flatten()
    }
}

/// The dict itself, or the dict behind a `MappingProxyType`.
fn dict_of<'py>(of: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
    of.cast::<PyDict>().ok().cloned().or_else(|| cpython::proxied_dict(of))
}

impl Check {
    #[inline]
    pub(super) fn run<'py>(&self, value: &Bound<'py, PyAny>, registers: &impl Registers<'py>) -> bool {
        let py = value.py();
        match self {
            Check::Is(object) => object.is(value),
            Check::TypeIs(ty) => ty.is_type_of(value),
            Check::Equals(constant) => same_constant(value, constant.bind(py)),
            Check::Length(n) => length(value) == Some(*n),
            Check::Keys(keys) => has_keys(value, keys),
            Check::HasKey(key) => key.get(py).is_some_and(|key| has_key(value, &key) == Some(true)),
            Check::LacksKey(key) => key.get(py).is_some_and(|key| has_key(value, &key) == Some(false)),
            Check::LacksEntry(name) => {
                value.cast::<PyDict>().map_or(true, |dict| cpython::dict_lacks(dict, name.bind(py)))
            }
            Check::LacksLookup(name) => {
                value.cast::<PyType>().is_ok_and(|ty| cpython::type_lookup(ty, name.bind(py)).is_none())
            }
            Check::PlainReads => value.cast::<PyType>().is_ok_and(cpython::uses_generic_getattr),
            Check::Subclass(class, is) => class.is_base_of(value) == *is,
            Check::EmptySlot(name) => !matches!(cpython::generic_getattr(value, name.bind(py)), Ok(Some(_))),
            Check::LacksPart(part) => part.of(value).is_none(),
            Check::EmptyCell => cpython::cell_contents(value).is_none(),
            Check::Exhausted(after) => matches!(cpython::upcoming(value, *after), Some(Upcoming::End)),
            Check::SameAs(other) => value.is(registers.at(*other)),
            Check::DiffersFrom(other) => !value.is(registers.at(*other)),
            Check::Apart(all, written) => {
                let (written, others) = all.split_at(*written);
                let address = |register: &Register| registers.at(*register).as_ptr() as usize;
                let mut seen = FxHashSet::with_capacity_and_hasher(written.len(), FxBuildHasher);
                written.iter().all(|register| seen.insert(address(register)))
                    && !others.iter().any(|register| seen.contains(&address(register)))
            }
            Check::Object(test) => test.check(value),
            Check::Objects(others, test) => {
                let others = others.iter().map(|register| registers.at(*register));
                test.check(&std::iter::once(value).chain(others).collect::<Vec<_>>())
            }
        }
    }

    /// The registers that the tested value is compared with.
    pub(super) fn compared(&self) -> &[Register] {
        match self {
            Check::SameAs(other) | Check::DiffersFrom(other) => std::slice::from_ref(other),
            Check::Apart(all, _) => all,
            Check::Objects(others, _) => others,
            _ => &[],
        }
    }
}

fn length(value: &Bound<'_, PyAny>) -> Option<usize> {
    if let Ok(tuple) = value.cast::<PyTuple>() {
        Some(tuple.len())
    } else if let Ok(list) = value.cast::<PyList>() {
        Some(list.len())
    } else if let Ok(dict) = value.cast::<PyDict>() {
        Some(dict.len())
    } else if cpython::is_deque(value) {
        value.len().ok()
    } else {
        let frozen = || value.cast::<PyFrozenSet>().ok().map(PyFrozenSetMethods::len);
        value.cast::<PySet>().ok().map(PySetMethods::len).or_else(frozen)
    }
}

fn has_keys(value: &Bound<'_, PyAny>, keys: &[Identity]) -> bool {
    let Some(dict) = dict_of(value) else { return false };
    let is_expected = |key: &Bound<'_, PyAny>, expected: &Identity| {
        expected.is(key)
            || !may_run_code(key) && expected.get(key.py()).is_some_and(|expected| same_key(key, &expected))
    };
    let mut expected = keys.iter();
    dict.len() == keys.len()
        && cpython::all_keys(&dict, |key| expected.next().is_some_and(|expected| is_expected(key, expected)))
}
