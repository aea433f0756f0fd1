//! Replicas of sets: a real set for each set of the trace whose elements have known hashes. Each operation on the set
//! is also done on the replica, by CPython itself. So the iteration order, and that of the set which new code makes,
//! is CPython's.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyList, PySet, PyTuple};
use rustc_hash::{FxBuildHasher, FxHashMap};

use sot_core::backend::ObjectTest;
use sot_core::cpython::{self, Place, Recorder, SetTable};
use sot_core::error::Flow;
use sot_core::executor::{BinaryOp, OpcodeExecutor};
use sot_core::guard::Test;
use sot_core::variable::VarId;

use crate::containers::dict;
use crate::containers::hash_key::HashKey;
use crate::containers::key_index::KeyIndex;
use crate::containers::set::{self, SetOrder, SetVariable};

/// The elements of a set, and what is known of their order.
pub(crate) type Elements = (Vec<Rc<HashKey>>, SetOrder);

/// A real set. It is never modified; operations work on copies.
pub struct Replica(Py<PyAny>);

/// Returns the names of the method for a new set and of the method that changes its receiver.
const fn methods(op: BinaryOp) -> (&'static str, &'static str) {
    match op {
        BinaryOp::And => ("intersection", "intersection_update"),
        BinaryOp::Subtract => ("difference", "difference_update"),
        BinaryOp::Xor => ("symmetric_difference", "symmetric_difference_update"),
        _ => ("union", "update"),
    }
}

impl Replica {
    /// Returns the replica of a real set.
    pub(crate) fn of(set: &Bound<'_, PyAny>) -> PyResult<Replica> {
        Ok(Replica(cpython::copy_of_set(set, false)?.unbind()))
    }

    /// Returns the order of a set to which the keys were added one by one; unknown if a hash is unknown.
    pub(crate) fn order_of_added(py: Python<'_>, keys: &[Rc<HashKey>]) -> PyResult<SetOrder> {
        if !keys.iter().all(|key| key.stands_for_hash(py)) {
            return Ok(SetOrder::Unknown);
        }
        Ok(SetOrder::OfRealSet(Replica(plain(py, keys)?.unbind())))
    }

    /// Returns a replica with the hash table of a real set whose elements are pairwise equal to the keys.
    pub(crate) fn like(set: &Bound<'_, PyAny>, keys: &[Rc<HashKey>]) -> PyResult<SetOrder> {
        let py = set.py();
        let own = plain(py, keys)?;
        let items: Vec<_> = keys.iter().map(|key| key.bind(py).clone()).collect();
        if let Some(table) = SetTable::of(set) {
            table.arrange(&own, &items);
        }
        Ok(SetOrder::OfRealSet(Replica(own.unbind())))
    }

    /// Returns another handle on the replica.
    pub(crate) fn again(&self, py: Python<'_>) -> Replica {
        Replica(self.0.clone_ref(py))
    }

    /// Returns the keys in CPython's order. `among` contains all of them.
    pub(crate) fn ordered(&self, py: Python<'_>, among: &[Rc<HashKey>]) -> PyResult<Vec<Rc<HashKey>>> {
        in_order(self.0.bind(py), among)
    }

    /// Returns a new real set with the same elements and table.
    pub(crate) fn copy<'py>(&self, py: Python<'py>, frozen: bool) -> PyResult<Bound<'py, PyAny>> {
        cpython::copy_of_set(self.0.bind(py), frozen)
    }

    /// Returns the replica after a call of `method` with an element.
    pub(crate) fn after(&self, method: &str, item: &Bound<'_, PyAny>) -> PyResult<Replica> {
        let copy = self.copy(item.py(), false)?;
        copy.call_method1(method, (item,))?;
        Ok(Replica(copy.unbind()))
    }

    /// Calls a method on a copy. Returns the elements afterwards and the method's result. `among` contains all
    /// elements.
    pub(crate) fn change<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        args: &[Bound<'py, PyAny>],
        among: &[Rc<HashKey>],
    ) -> PyResult<(Elements, Bound<'py, PyAny>)> {
        let copy = self.copy(py, false)?;
        // CPython tests whether an operand is the set itself.
        let args = args.iter().map(|arg| if arg.is(&self.0) { &copy } else { arg });
        let returned = copy.call_method1(method, PyTuple::new(py, args)?)?;
        Ok(((in_order(&copy, among)?, SetOrder::OfRealSet(Replica(copy.unbind()))), returned))
    }
}

/// Returns a real set to which the keys were added one by one.
fn plain<'py>(py: Python<'py>, keys: &[Rc<HashKey>]) -> PyResult<Bound<'py, PyAny>> {
    let set = PySet::empty(py)?;
    keys.iter().try_for_each(|key| set.add(key.bind(py)))?;
    Ok(set.into_any())
}

/// Returns the keys in the iteration order of a real set that contains them.
fn in_order(set: &Bound<'_, PyAny>, among: &[Rc<HashKey>]) -> PyResult<Vec<Rc<HashKey>>> {
    let mut found = FxHashMap::with_capacity_and_hasher(among.len(), FxBuildHasher);
    for key in among {
        found.entry(key.bind(set.py()).as_ptr()).or_insert(key);
    }
    let items = set.try_iter()?.map(|item| Ok(found.get(&item?.as_ptr()).map(|key| Rc::clone(key))));
    Ok(items.collect::<PyResult<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Returns the replica of a set. For a set from outside, its hash table is guarded: equal sets can have different
/// tables, and so give results of different order.
pub(crate) fn of(cx: &mut OpcodeExecutor<'_>, set: VarId) -> Flow<Option<Replica>> {
    let payload = set::expect(cx, set)?;
    let replica = payload.replica(cx.py);
    let tracker = cx.trace.vars.tracker(set);
    if let Some(object) = payload.began_with().filter(|_| replica.is_some() && cx.trace.trackers.is_sourced(tracker)) {
        // The guard is on the set as it is before the trace's writes.
        if let Some(table) = SetTable::of(object.bind(cx.py)) {
            cx.trace.guards.add(tracker, Test::Object(Box::new(HashTableTest(table))));
        }
    }
    Ok(replica)
}

/// An operand of a set operation.
struct ReplicaOperand {
    keys: Vec<Rc<HashKey>>,
    is_set: bool,
    /// A real object that CPython treats in the same way; `None` if a hash is unknown.
    real: Option<Py<PyAny>>,
}

impl ReplicaOperand {
    fn of(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<ReplicaOperand> {
        let keys = set::elements(cx, value)?;
        let is_set = cx.see_as::<SetVariable>(value)?.is_some();
        let real = if is_set {
            of(cx, value)?.map(|replica| replica.0)
        } else if !keys.iter().all(|key| key.stands_for_hash(cx.py)) {
            None
        } else {
            let items = PyList::new(cx.py, keys.iter().map(|key| key.bind(cx.py)))?;
            let is_dict = dict::of(cx, value)?.is_some();
            // For a dict operand, CPython resizes the set's table in advance.
            let dict = is_dict.then(|| cx.py.get_type::<PyDict>().call_method1("fromkeys", (&items,))).transpose()?;
            Some(dict.unwrap_or(items.into_any()).unbind())
        };
        Ok(ReplicaOperand { keys, is_set, real })
    }
}

/// Returns the real operands for CPython, and all keys. `None` if some hash is unknown, or if keys that are equal by
/// the program's `__eq__` are different objects, which CPython would not notice.
fn shown<'py>(
    cx: &mut OpcodeExecutor<'py>,
    left: &[Rc<HashKey>],
    others: &[ReplicaOperand],
) -> Flow<Option<(Vec<Bound<'py, PyAny>>, Vec<Rc<HashKey>>)>> {
    let Some(real) = others.iter().map(|other| Some(other.real.as_ref()?.bind(cx.py).clone())).collect() else {
        return Ok(None);
    };
    let mut known = left.to_vec();
    let mut index = KeyIndex::of(&cx.trace, known.iter());
    let mut has_stand_ins = known.iter().any(|known| known.is_stand_in());
    for key in others.iter().flat_map(|other| &other.keys) {
        has_stand_ins |= key.is_stand_in();
        if let Some(at) = if has_stand_ins { index.find(cx, key, |at| &known[at])? } else { None } {
            if !known[at].bind(cx.py).is(key.bind(cx.py)) {
                return Ok(None);
            }
        }
        index.push(&cx.trace, key);
        known.push(Rc::clone(key));
    }
    Ok(Some((real, known)))
}

fn combine_without_replica(
    cx: &mut OpcodeExecutor<'_>,
    op: BinaryOp,
    left: Vec<Rc<HashKey>>,
    others: &[ReplicaOperand],
) -> Flow<Elements> {
    let mut keys = left;
    for other in others {
        keys = if op == BinaryOp::And && !other.is_set {
            // Of two equal elements, the one from the iterable is kept.
            set::only(cx, &other.keys, &keys, true)?
        } else {
            set::combine(cx, op, &keys, &other.keys)?
        };
    }
    Ok((keys, SetOrder::Unknown))
}

/// Returns the elements of `left op right`, or of the set method with several operands. CPython decides which of two
/// equal elements is kept.
pub(crate) fn combined(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, left: VarId, others: &[VarId]) -> Flow<Elements> {
    let others = others.iter().map(|&other| ReplicaOperand::of(cx, other)).collect::<Flow<Vec<_>>>()?;
    let replica = of(cx, left)?;
    let left = set::expect(cx, left)?.keys.clone();
    let (Some(replica), Some((real, known))) = (replica, shown(cx, &left, &others)?) else {
        return combine_without_replica(cx, op, left, &others);
    };
    let result = replica.0.bind(cx.py).call_method1(methods(op).0, PyTuple::new(cx.py, real)?);
    let result = result.map_err(|error| cx.raise(error))?;
    Ok((in_order(&result, &known)?, SetOrder::OfRealSet(Replica(result.unbind()))))
}

/// Returns the elements of a set after `left op= right`.
pub(crate) fn changed(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, left: VarId, right: VarId) -> Flow<Elements> {
    let right = [ReplicaOperand::of(cx, right)?];
    let replica = of(cx, left)?;
    let left = set::expect(cx, left)?.keys.clone();
    match (replica, shown(cx, &left, &right)?) {
        (Some(replica), Some((real, known))) => Ok(replica.change(cx.py, methods(op).1, &real, &known)?.0),
        _ => combine_without_replica(cx, op, left, &right),
    }
}

/// Returns the elements of `set(source)`.
pub(crate) fn made_of(cx: &mut OpcodeExecutor<'_>, source: VarId) -> Flow<Elements> {
    let empty = SetVariable::build(cx, Vec::new())?;
    changed(cx, BinaryOp::Or, empty, source)
}

/// Returns C functions with which new code gives a set the replica's hash table. `None` if adding the elements one by
/// one in their order gives that table anyway.
pub(crate) fn arranged(py: Python<'_>, replica: &Replica, ordered: &[Rc<HashKey>]) -> PyResult<Option<Py<PyAny>>> {
    let added = plain(py, ordered)?;
    let Some(table) = SetTable::of(replica.0.bind(py)) else { return Ok(None) };
    let in_order = in_order(&added, ordered)?;
    if table.is_of(&added) && in_order.iter().zip(ordered).all(|(one, other)| Rc::ptr_eq(one, other)) {
        return Ok(None);
    }
    Ok(Some(Bound::new(py, TableFiller(table))?.into_any().unbind()))
}

/// C functions that make or fill a set with a given hash table; see [`arranged`].
#[pyclass(frozen)]
struct TableFiller(SetTable);

#[pymethods]
impl TableFiller {
    /// Makes a set of the items, which are given in their order.
    fn make<'py>(&self, items: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PySet>> {
        let set = PySet::empty(items.py())?;
        self.fill(&set, items)?;
        Ok(set)
    }

    fn make_frozen<'py>(&self, items: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyFrozenSet>> {
        let set = PyFrozenSet::new(items.py(), items)?;
        self.arrange(&set, items);
        Ok(set)
    }

    /// Replaces the elements of a set, without calling methods of subclasses.
    fn fill(&self, set: &Bound<'_, PySet>, items: &Bound<'_, PyTuple>) -> PyResult<()> {
        set.clear();
        items.iter().try_for_each(|item| set.add(item))?;
        self.arrange(set, items);
        Ok(())
    }

    /// Gives a set with these items the hash table.
    fn arrange(&self, set: &Bound<'_, PyAny>, items: &Bound<'_, PyTuple>) {
        self.0.arrange(set, &items.iter().collect::<Vec<_>>());
    }
}

/// Guard: the set has this layout of its hash table, whatever its elements are.
struct HashTableTest(SetTable);

impl ObjectTest for HashTableTest {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        self.0.is_of(object)
    }

    fn note(&self, _: &Place<'_>, _: &mut Recorder) -> bool {
        false
    }

    fn describe(&self, subject: &str) -> String {
        format!("the places in {subject} that are free are the same")
    }
}
