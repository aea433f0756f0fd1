//! Set operators of `dict.keys()` and `dict.items()`. Versions differ in which of two equal elements is kept, and
//! whether the result is a `frozenset`, so CPython performs the operation on copies of the operands.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyList, PySet, PyTuple, PyType};
use rustc_hash::{FxBuildHasher, FxHashMap};

use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{BinaryOp, OpcodeExecutor};
use sot_core::variable::VarId;

use super::dict_view::{DictView, View};
use crate::containers::hash_key::{HashKey, UniqueKeys};
use crate::containers::key_index::KeyIndex;
use crate::containers::replica::{self, Replica};
use crate::containers::set::{self, SetOrder, SetVariable};

/// The kind of operand, as CPython distinguishes them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    View(View),
    Set,
    FrozenSet,
    Dict,
    Iterable,
}

struct ViewOperand {
    kind: Kind,
    keys: Vec<Rc<HashKey>>,
    /// The replica, for a set.
    replica: Option<Replica>,
}

/// Simulates `left op right`, where one operand is a set-like view.
pub(super) fn operate(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, left: VarId, right: VarId) -> Flow<VarId> {
    let (left, right) = (ViewOperand::of(cx, left)?, ViewOperand::of(cx, right)?);
    if left.keys.iter().chain(&right.keys).any(|key| key.is_stand_in()) {
        return without_real_set(cx, op, &left, &right);
    }
    let result = op.apply(&left.copy(cx.py)?, &right.copy(cx.py)?)?;
    let frozen = result.is_instance_of::<PyFrozenSet>();
    let all = [&left.keys[..], &right.keys[..]].concat();
    let mut places = FxHashMap::with_capacity_and_hasher(all.len(), FxBuildHasher);
    for (at, key) in all.iter().enumerate() {
        places.entry(key.bind(cx.py).as_ptr()).or_insert(at);
    }
    let mut keys = Vec::new();
    for item in result.try_iter()? {
        let item = item?;
        let known = places.get(&item.as_ptr()).map(|&at| &all[at]);
        let found = known.or_else(|| all.iter().find(|key| is_one(key.bind(cx.py), &item)));
        keys.push(Rc::clone(found.ok_or_else(|| refuse("whose elements are not found again"))?));
    }
    let order =
        if left.is_in_order() && right.is_in_order() { Replica::like(&result, &keys)? } else { SetOrder::Unknown };
    Ok(SetVariable::make(cx, (keys, order), frozen))
}

/// Computes the result for keys that do not exist yet or that the program's `__eq__` compares. Breaks the graph if
/// the result depends on which of two equal elements is kept.
fn without_real_set(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, left: &ViewOperand, right: &ViewOperand) -> Flow<VarId> {
    if op == BinaryOp::And {
        if [left, right].iter().any(|operand| operand.kind == Kind::FrozenSet) {
            return Err(refuse("with a frozenset"));
        }
        let index = KeyIndex::of(&cx.trace, right.keys.iter());
        for key in &left.keys {
            let Some(at) = index.find(cx, key, |at| &right.keys[at])? else { continue };
            if !cx.is_same(key.variable, right.keys[at].variable)? {
                return Err(refuse("with equal elements that are two objects"));
            }
        }
    }
    let (left, right) = (left.unique(cx)?, right.unique(cx)?);
    let keys = set::combine(cx, op, &left, &right)?;
    Ok(SetVariable::make(cx, (keys, SetOrder::Unknown), false))
}

fn refuse(what: &str) -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedOperation, format!("an operator of a view of a dict {what}"))
}

/// True if the element is the key. Pairs of a view are made anew, so their items are compared.
fn is_one(key: &Bound<'_, PyAny>, item: &Bound<'_, PyAny>) -> bool {
    let same_items = |key: &Bound<'_, PyTuple>, item: &Bound<'_, PyTuple>| {
        key.len() == 2 && item.len() == 2 && key.iter().zip(item.iter()).all(|(one, other)| one.is(&other))
    };
    item.is(key)
        || match (key.cast_exact::<PyTuple>(), item.cast_exact::<PyTuple>()) {
            (Ok(key), Ok(item)) => same_items(key, item),
            _ => false,
        }
}

impl ViewOperand {
    fn of(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<ViewOperand> {
        if let Some(set) = cx.see_as::<SetVariable>(value)? {
            let kind = if set.frozen { Kind::FrozenSet } else { Kind::Set };
            let replica = replica::of(cx, value)?;
            return Ok(ViewOperand { kind, keys: set.keys.clone(), replica });
        }
        let kind = match cx.see_as::<DictView>(value)? {
            Some(view) if view.view != View::Values => Kind::View(view.view),
            _ => Kind::Iterable,
        };
        if kind == Kind::Iterable && is_set_of_a_class(cx, value)? {
            return Err(refuse("and a set of a subclass"));
        }
        let items = cx.unpack_all(value)?;
        let keys = items.into_iter().map(|item| HashKey::of(cx, item)).collect::<Flow<Vec<_>>>()?;
        let is_dict = crate::containers::dict::of(cx, value)?.is_some();
        Ok(ViewOperand { kind: if is_dict { Kind::Dict } else { kind }, keys, replica: None })
    }

    /// True if the copy iterates in the same order as the operand.
    fn is_in_order(&self) -> bool {
        self.replica.is_some() || !matches!(self.kind, Kind::Set | Kind::FrozenSet)
    }

    /// Returns a real object with the same elements that CPython treats alike.
    fn copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let items = || self.keys.iter().map(|key| key.bind(py));
        match self.kind {
            Kind::View(view) => {
                let dict = PyDict::new(py);
                for item in items() {
                    let (key, value) =
                        if view == View::Items { item.extract()? } else { (item.clone(), py.None().into_bound(py)) };
                    dict.set_item(key, value)?;
                }
                dict.call_method0(view.method())
            }
            Kind::Set | Kind::FrozenSet => {
                let frozen = self.kind == Kind::FrozenSet;
                if let Some(replica) = &self.replica {
                    return replica.copy(py, frozen);
                }
                let set = PySet::empty(py)?;
                items().try_for_each(|item| set.add(item))?;
                if frozen {
                    return Ok(PyFrozenSet::new(py, set.iter())?.into_any());
                }
                Ok(set.into_any())
            }
            Kind::Dict => py.get_type::<PyDict>().call_method1("fromkeys", (PyList::new(py, items())?,)),
            Kind::Iterable => Ok(PyList::new(py, items())?.into_any()),
        }
    }

    fn unique(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<Vec<Rc<HashKey>>> {
        let mut unique = UniqueKeys::default();
        self.keys.iter().try_for_each(|key| unique.add_key(cx, Rc::clone(key)))?;
        Ok(unique.into_keys())
    }
}

fn is_set_of_a_class(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<bool> {
    let ty = cx.type_of(value)?;
    let is_set = |ty: &Bound<'_, PyType>| {
        cpython::is_subtype(ty, &cx.py.get_type::<PySet>()) || cpython::is_subtype(ty, &cx.py.get_type::<PyFrozenSet>())
    };
    Ok(ty.cast::<PyType>().is_ok_and(is_set))
}
