//! A real set beside each set of the trace whose elements' hashes are known: what happens to the one happens to the
//! other, in CPython itself. So the order of the elements is CPython's, and so are the set that new code makes and what
//! it later becomes.

use std::collections::HashMap;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyList, PySet, PyTuple};

use sot_core::backend::ObjectTest;
use sot_core::cpython::{self, Place, Recorder, SetTable};
use sot_core::error::Flow;
use sot_core::executor::{BinaryOp, OpcodeExecutor};
use sot_core::guard::Test;
use sot_core::variable::VarId;

use crate::containers::dict;
use crate::containers::hash_key::HashKey;
use crate::containers::key_index::KeyIndex;
use crate::containers::set::{self, Order, SetVariable};

/// The elements of a set with what is known of their order.
pub(crate) type Elements = (Vec<Rc<HashKey>>, Order);

/// The real set. It is never changed, a copy is.
pub struct Replica(Py<PyAny>);

/// The method that gives a new set, and the one that changes its receiver.
const fn methods(op: BinaryOp) -> (&'static str, &'static str) {
    match op {
        BinaryOp::And => ("intersection", "intersection_update"),
        BinaryOp::Subtract => ("difference", "difference_update"),
        BinaryOp::Xor => ("symmetric_difference", "symmetric_difference_update"),
        _ => ("union", "update"),
    }
}

impl Replica {
    /// That of a real set.
    pub(crate) fn of(set: &Bound<'_, PyAny>) -> PyResult<Replica> {
        Ok(Replica(cpython::copy_of_set(set, false)?.unbind()))
    }

    /// That of a set to which elements were added one by one, as far as their hashes are known.
    pub(crate) fn of_added(py: Python<'_>, keys: &[Rc<HashKey>]) -> PyResult<Order> {
        if !keys.iter().all(|key| key.stands_for_hash(py)) {
            return Ok(Order::Unknown);
        }
        Ok(Order::Made(Replica(plain(py, keys)?.unbind())))
    }

    /// One with the table of a real set of other objects, which are equal to the keys one by one.
    pub(crate) fn like(set: &Bound<'_, PyAny>, keys: &[Rc<HashKey>]) -> PyResult<Order> {
        let py = set.py();
        let own = plain(py, keys)?;
        let items: Vec<_> = keys.iter().map(|key| key.bind(py).clone()).collect();
        if let Some(table) = SetTable::of(set) {
            table.arrange(&own, &items);
        }
        Ok(Order::Made(Replica(own.unbind())))
    }

    /// Another one of the same.
    pub(crate) fn again(&self, py: Python<'_>) -> Replica {
        Replica(self.0.clone_ref(py))
    }

    /// The keys in CPython's order, all of which are among others.
    pub(crate) fn ordered(&self, py: Python<'_>, among: &[Rc<HashKey>]) -> PyResult<Vec<Rc<HashKey>>> {
        in_order(self.0.bind(py), among)
    }

    /// A real set that nobody else has.
    pub(crate) fn copy<'py>(&self, py: Python<'py>, frozen: bool) -> PyResult<Bound<'py, PyAny>> {
        cpython::copy_of_set(self.0.bind(py), frozen)
    }

    /// That of the set after a method was called with an element.
    pub(crate) fn after(&self, method: &str, item: &Bound<'_, PyAny>) -> PyResult<Replica> {
        let copy = self.copy(item.py(), false)?;
        copy.call_method1(method, (item,))?;
        Ok(Replica(copy.unbind()))
    }

    /// What one of its methods makes of a copy of it, and what the method returns. All elements are among others.
    pub(crate) fn change<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        args: &[Bound<'py, PyAny>],
        among: &[Rc<HashKey>],
    ) -> PyResult<(Elements, Bound<'py, PyAny>)> {
        let copy = self.copy(py, false)?;
        // CPython asks whether an operand is the set itself.
        let args = args.iter().map(|arg| if arg.is(&self.0) { &copy } else { arg });
        let returned = copy.call_method1(method, PyTuple::new(py, args)?)?;
        Ok(((in_order(&copy, among)?, Order::Made(Replica(copy.unbind()))), returned))
    }
}

/// A real set to which the keys were added one by one.
fn plain<'py>(py: Python<'py>, keys: &[Rc<HashKey>]) -> PyResult<Bound<'py, PyAny>> {
    let set = PySet::empty(py)?;
    keys.iter().try_for_each(|key| set.add(key.bind(py)))?;
    Ok(set.into_any())
}

/// The keys as a real set that holds them iterates.
fn in_order(set: &Bound<'_, PyAny>, among: &[Rc<HashKey>]) -> PyResult<Vec<Rc<HashKey>>> {
    let mut found = HashMap::with_capacity(among.len());
    for key in among {
        found.entry(key.bind(set.py()).as_ptr()).or_insert(key);
    }
    let items = set.try_iter()?.map(|item| Ok(found.get(&item?.as_ptr()).map(|key| Rc::clone(key))));
    Ok(items.collect::<PyResult<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The real set beside one of the trace. Of one from outside the table is guarded: those of equal sets may differ, and
/// with them what CPython makes of them.
pub(crate) fn of(cx: &mut OpcodeExecutor<'_>, set: VarId) -> Flow<Option<Replica>> {
    let payload = set::expect(cx, set)?;
    let replica = payload.replica(cx.py);
    let tracker = cx.vars.tracker(set);
    if let Some(object) = payload.began_with().filter(|_| replica.is_some() && cx.trackers.is_sourced(tracker)) {
        // The trace's writes are still to come.
        if let Some(table) = SetTable::of(object.bind(cx.py)) {
            cx.guards.add(tracker, Test::Object(Box::new(HasTable(table))));
        }
    }
    Ok(replica)
}

/// What a method or operator is given.
struct ReplicaOperand {
    keys: Vec<Rc<HashKey>>,
    is_set: bool,
    /// A real object that CPython takes in the same way.
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
            // CPython makes room for a dict's keys at once.
            let dict = is_dict.then(|| cx.py.get_type::<PyDict>().call_method1("fromkeys", (&items,))).transpose()?;
            Some(dict.unwrap_or(items.into_any()).unbind())
        };
        Ok(ReplicaOperand { keys, is_set, real })
    }
}

/// What CPython is shown: its own objects for the operands, and all keys there are. It cannot ask the program whether
/// two of them are equal.
fn shown<'py>(
    cx: &mut OpcodeExecutor<'py>,
    left: &[Rc<HashKey>],
    others: &[ReplicaOperand],
) -> Flow<Option<(Vec<Bound<'py, PyAny>>, Vec<Rc<HashKey>>)>> {
    let Some(real) = others.iter().map(|other| Some(other.real.as_ref()?.bind(cx.py).clone())).collect() else {
        return Ok(None);
    };
    let mut known = left.to_vec();
    let mut index = KeyIndex::of(cx, known.iter());
    let mut has_stand_ins = known.iter().any(|known| known.is_stand_in());
    for key in others.iter().flat_map(|other| &other.keys) {
        has_stand_ins |= key.is_stand_in();
        if let Some(at) = if has_stand_ins { index.find(cx, key, |at| &known[at])? } else { None } {
            if !known[at].bind(cx.py).is(key.bind(cx.py)) {
                return Ok(None);
            }
        }
        index.push(cx, key);
        known.push(Rc::clone(key));
    }
    Ok(Some((real, known)))
}

fn unshown(
    cx: &mut OpcodeExecutor<'_>,
    op: BinaryOp,
    left: Vec<Rc<HashKey>>,
    others: &[ReplicaOperand],
) -> Flow<Elements> {
    let mut keys = left;
    for other in others {
        keys = if op == BinaryOp::And && !other.is_set {
            // Of two equal elements that of the iterable stays.
            set::only(cx, &other.keys, &keys, true)?
        } else {
            set::combine(cx, op, &keys, &other.keys)?
        };
    }
    Ok((keys, Order::Unknown))
}

/// The elements of `left op right`, or of the method with several others; of two equal elements CPython says which one
/// stays.
pub(crate) fn combined(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, left: VarId, others: &[VarId]) -> Flow<Elements> {
    let others = others.iter().map(|&other| ReplicaOperand::of(cx, other)).collect::<Flow<Vec<_>>>()?;
    let replica = of(cx, left)?;
    let left = set::expect(cx, left)?.keys.clone();
    let (Some(replica), Some((real, known))) = (replica, shown(cx, &left, &others)?) else {
        return unshown(cx, op, left, &others);
    };
    let result = replica.0.bind(cx.py).call_method1(methods(op).0, PyTuple::new(cx.py, real)?);
    let result = result.map_err(|error| cx.raise(error))?;
    Ok((in_order(&result, &known)?, Order::Made(Replica(result.unbind()))))
}

/// The elements of a set after `left op= right`.
pub(crate) fn changed(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, left: VarId, right: VarId) -> Flow<Elements> {
    let right = [ReplicaOperand::of(cx, right)?];
    let replica = of(cx, left)?;
    let left = set::expect(cx, left)?.keys.clone();
    match (replica, shown(cx, &left, &right)?) {
        (Some(replica), Some((real, known))) => Ok(replica.change(cx.py, methods(op).1, &real, &known)?.0),
        _ => unshown(cx, op, left, &right),
    }
}

/// The elements of `set(source)`
pub(crate) fn made_of(cx: &mut OpcodeExecutor<'_>, source: VarId) -> Flow<Elements> {
    let empty = SetVariable::build(cx, Vec::new())?;
    changed(cx, BinaryOp::Or, empty, source)
}

/// C functions for new code that give a set the table of this one, where adding the elements one by one, in their
/// order, gives another.
pub(crate) fn arranged(py: Python<'_>, replica: &Replica, ordered: &[Rc<HashKey>]) -> PyResult<Option<Py<PyAny>>> {
    let added = plain(py, ordered)?;
    let Some(table) = SetTable::of(replica.0.bind(py)) else { return Ok(None) };
    let in_order = in_order(&added, ordered)?;
    if table.is_of(&added) && in_order.iter().zip(ordered).all(|(one, other)| Rc::ptr_eq(one, other)) {
        return Ok(None);
    }
    Ok(Some(Bound::new(py, Arranged(table))?.into_any().unbind()))
}

/// See [`arranged`].
#[pyclass(frozen)]
struct Arranged(SetTable);

#[pymethods]
impl Arranged {
    /// A set of the items, given in their order.
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

    /// Gives a set these items alone. Methods of subclasses are not asked.
    fn fill(&self, set: &Bound<'_, PySet>, items: &Bound<'_, PyTuple>) -> PyResult<()> {
        set.clear();
        items.iter().try_for_each(|item| set.add(item))?;
        self.arrange(set, items);
        Ok(())
    }

    /// Gives a set that has these items its table.
    fn arrange(&self, set: &Bound<'_, PyAny>, items: &Bound<'_, PyTuple>) {
        self.0.arrange(set, &items.iter().collect::<Vec<_>>());
    }
}

/// A guard: the set has this table, whatever its elements.
struct HasTable(SetTable);

impl ObjectTest for HasTable {
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
