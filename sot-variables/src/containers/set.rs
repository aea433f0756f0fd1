//! `set` and `frozenset` of keys known while tracing. CPython's iteration order follows from the order of insertions alone
//! as long as nothing is removed; after that only CPython knows it, and iteration breaks the graph.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyFrozenSet, PySet};

use sot_core::codegen::CodeGen;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{BinaryOp, CompareOp, OpcodeExecutor};
use sot_core::side_effects::Effect;
use sot_core::tracker::{repr, TrackerId};
use sot_core::variable::{GraphArgument, VarId, Variable};

use crate::classes::subclass;
use crate::containers::hash_key::{self, position, HashKey, IteratesOver};
use crate::iterators::library;
use crate::iterators::sequence::SequenceIterator;

sot_core::variable_kind! { "set", types: |py| Ok(vec![library(py, "builtins", "set")?, library(py, "builtins", "frozenset")?]), wrap: SetVariable::wrap }

/// What is known of the iteration order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The keys stand in it.
    Known,
    /// It is that of a fresh set to which the keys were added one by one.
    Insertion,
    /// Only CPython knows.
    Unknown,
}

/// A set.
pub struct SetVariable {
    /// The elements, each once.
    pub keys: Vec<Rc<HashKey>>,
    /// Whether it is a frozenset.
    pub frozen: bool,
    /// What is known of its iteration order.
    pub order: Order,
    object: Option<Py<PyAny>>,
}

/// `set.add(item)`
pub fn add(cx: &mut OpcodeExecutor<'_>, set: VarId, item: VarId) -> Flow<()> {
    let old = expect(cx, set)?;
    let key = HashKey::of(cx, item)?;
    if position(cx, &old.keys, &key)?.is_some() {
        return Ok(());
    }
    let mut keys = old.keys.clone();
    keys.push(key);
    let order = if old.order == Order::Insertion || keys.len() == 1 { Order::Insertion } else { Order::Unknown };
    write(cx, set, keys, order)
}

/// Gives the set new elements.
pub(crate) fn write(cx: &mut OpcodeExecutor<'_>, set: VarId, keys: Vec<Rc<HashKey>>, order: Order) -> Flow<()> {
    let old = expect(cx, set)?;
    let object = old.object.as_ref().map(|object| object.clone_ref(cx.py));
    cx.charge(keys.len());
    let order = trivial(keys.len(), without_stand_ins(&keys, order));
    cx.vars.set(set, Rc::new(SetVariable { keys, frozen: old.frozen, order, object }));
    cx.effects.record(Effect::Contents { container: set });
    Ok(())
}

/// The payload of a variable that must be a set.
pub(crate) fn expect(cx: &mut OpcodeExecutor<'_>, set: VarId) -> Flow<Rc<SetVariable>> {
    if let Some(payload) = cx.see_as::<SetVariable>(set)? {
        Ok(payload)
    } else {
        let name = cx.type_name(set)?;
        Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("a set method on a {name} object")))
    }
}

/// What C code looks at: of a set of a subclass what its base keeps, in whatever way that is iterated.
pub(crate) fn seen(cx: &mut OpcodeExecutor<'_>, source: VarId) -> Flow<VarId> {
    let storage = subclass::seen_by_base(cx, source)?;
    Ok(if cx.see_as::<SetVariable>(storage)?.is_some() { storage } else { source })
}

/// The elements of a set or of any iterable, each once, in no order anyone may rely on.
pub(crate) fn elements(cx: &mut OpcodeExecutor<'_>, source: VarId) -> Flow<Vec<Rc<HashKey>>> {
    if let Some(set) = cx.see_as::<SetVariable>(source)? {
        return Ok(set.keys.clone());
    }
    if let Some(dict) = crate::containers::dict::of(cx, source)? {
        return Ok(dict.entries.iter().map(|entry| Rc::clone(&entry.key)).collect());
    }
    let mut keys = Vec::new();
    cx.each(source, |cx, item| add_unique(cx, &mut keys, item))?;
    Ok(keys)
}

/// Fewer than two elements have one order.
fn trivial(len: usize, order: Order) -> Order {
    if len < 2 {
        Order::Insertion
    } else {
        order
    }
}

/// The order of keys whose hashes the trace does not know is not known.
fn without_stand_ins(keys: &[Rc<HashKey>], order: Order) -> Order {
    if keys.iter().any(|key| key.is_stand_in()) {
        Order::Unknown
    } else {
        order
    }
}

/// The keys as a real set that holds them iterates.
fn in_order(keys: &[Rc<HashKey>], set: &Bound<'_, PyAny>) -> PyResult<Vec<Rc<HashKey>>> {
    let mut ordered = Vec::with_capacity(keys.len());
    for item in set.try_iter()? {
        let item = item?;
        ordered.extend(keys.iter().find(|key| key.bind(set.py()).is(&item)).cloned());
    }
    Ok(ordered)
}

fn unique(cx: &mut OpcodeExecutor<'_>, items: Vec<VarId>) -> Flow<Vec<Rc<HashKey>>> {
    let mut keys = Vec::with_capacity(items.len());
    items.into_iter().try_for_each(|item| add_unique(cx, &mut keys, item))?;
    Ok(keys)
}

fn add_unique(cx: &mut OpcodeExecutor<'_>, keys: &mut Vec<Rc<HashKey>>, item: VarId) -> Flow<()> {
    let key = HashKey::of(cx, item)?;
    if position(cx, keys, &key)?.is_none() {
        keys.push(key);
    }
    Ok(())
}

/// Whether sets answer the operator.
pub(crate) const fn is_set_operator(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Subtract | BinaryOp::Xor)
}

/// The elements of `left op right`.
pub(crate) fn combine(
    cx: &mut OpcodeExecutor<'_>,
    op: BinaryOp,
    left: &[Rc<HashKey>],
    right: &[Rc<HashKey>],
) -> Flow<Vec<Rc<HashKey>>> {
    Ok(match op {
        // Of two equal elements CPython keeps that of the smaller set, or of the right one.
        BinaryOp::And if right.len() > left.len() => only(cx, left, right, true)?,
        BinaryOp::And => only(cx, right, left, true)?,
        BinaryOp::Subtract => only(cx, left, right, false)?,
        BinaryOp::Xor => [only(cx, left, right, false)?, only(cx, right, left, false)?].concat(),
        _ => [left.to_vec(), only(cx, right, left, false)?].concat(),
    })
}

/// Those elements that are among others too, or that are not.
pub(crate) fn only(
    cx: &mut OpcodeExecutor<'_>,
    these: &[Rc<HashKey>],
    others: &[Rc<HashKey>],
    inside: bool,
) -> Flow<Vec<Rc<HashKey>>> {
    let mut found = Vec::new();
    for key in these {
        if position(cx, others, key)?.is_some() == inside {
            found.push(Rc::clone(key));
        }
    }
    Ok(found)
}

/// `left op right` for two sets, as a new set of the left one's type.
pub(crate) fn operate(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, left: VarId, right: VarId) -> Flow<VarId> {
    let (left, right) = (expect(cx, left)?, expect(cx, right)?);
    let (keys, order) = left.combined(cx, op, &right)?;
    Ok(SetVariable::make(cx, keys, left.frozen, order))
}

impl SetVariable {
    /// A set display.
    pub fn build(cx: &mut OpcodeExecutor<'_>, items: Vec<VarId>) -> Flow<VarId> {
        let keys = unique(cx, items)?;
        Ok(SetVariable::make(cx, keys, false, Order::Insertion))
    }

    /// A new set of the trace.
    pub(crate) fn make(cx: &mut OpcodeExecutor<'_>, keys: Vec<Rc<HashKey>>, frozen: bool, order: Order) -> VarId {
        cx.charge(keys.len());
        let order = trivial(keys.len(), without_stand_ins(&keys, order));
        cx.produce(Rc::new(SetVariable { keys, frozen, order, object: None }))
    }

    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
        cx.refuse_changing_contents(of, "a set")?;
        let object = object.clone().unbind();
        let set = object.bind(cx.py).clone();
        let frozen = set.is_instance_of::<PyFrozenSet>();
        let ty = if frozen { cx.py.get_type::<PyFrozenSet>().into_any() } else { cx.py.get_type::<PySet>().into_any() };
        // No method of a subclass is called.
        let items = ty.call_method1("__iter__", (&set,))?.try_iter()?;
        let keys = items.map(|item| HashKey::found(cx, &item?)).collect::<Flow<Vec<_>>>()?;
        Ok(Rc::new(SetVariable { keys, frozen, order: Order::Known, object: Some(object) }))
    }

    /// The elements of `self op other` with what is known of their order: where both sets can be made as CPython made
    /// them, CPython shows it.
    pub(crate) fn combined(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        other: &SetVariable,
    ) -> Flow<(Vec<Rc<HashKey>>, Order)> {
        let stand_ins = self.keys.iter().chain(&other.keys).any(|key| key.is_stand_in());
        if stand_ins || self.order != Order::Insertion || other.order != Order::Insertion {
            return Ok((combine(cx, op, &self.keys, &other.keys)?, Order::Unknown));
        }
        let result = op.apply(self.replica(cx.py)?.as_any(), other.replica(cx.py)?.as_any())?;
        // Of two equal elements CPython also says which one stays.
        let all = [&self.keys[..], &other.keys[..]].concat();
        Ok((in_order(&all, &result)?, Order::Known))
    }

    /// A real set to which the elements were added one by one.
    fn replica<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PySet>> {
        let set = PySet::empty(py)?;
        for key in &self.keys {
            set.add(key.bind(py))?;
        }
        Ok(set)
    }

    /// The elements in CPython's iteration order.
    fn ordered(&self, py: Python<'_>) -> Flow<Vec<VarId>> {
        let keys = match self.order {
            Order::Known => self.keys.clone(),
            Order::Insertion if self.keys.len() < 2 => self.keys.clone(),
            Order::Insertion => in_order(&self.keys, self.replica(py)?.as_any())?,
            Order::Unknown => Err(Unwind::break_graph(
                ReasonId::UnsupportedOperation,
                "iteration over a set whose order only CPython knows; sorted() gives one",
            ))?,
        };
        Ok(keys.iter().map(|key| key.variable).collect())
    }
}

impl Variable for SetVariable {
    fn kind(&self) -> &'static str {
        "set"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        if self.frozen {
            cx.py.get_type::<PyFrozenSet>().into_any()
        } else {
            cx.py.get_type::<PySet>().into_any()
        }
    }

    fn text(&self, _: &OpcodeExecutor<'_>) -> String {
        format!("SetVariable(len: {})", self.keys.len())
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.object.as_ref()
    }

    fn materialize(&self, cx: &OpcodeExecutor<'_>) -> Option<Py<PyAny>> {
        if self.keys.iter().any(|key| key.is_stand_in()) {
            return None;
        }
        if let (Order::Known, Some(object)) = (self.order, &self.object) {
            return Some(object.clone_ref(cx.py));
        }
        let copy = self.replica(cx.py).ok()?;
        // A copy that iterates in another order is not the same set to those who look.
        let order = self.ordered(cx.py).ok()?;
        let copied = in_order(&self.keys, copy.as_any()).ok()?;
        if !copied.iter().map(|key| key.variable).eq(order) {
            return None;
        }
        if self.frozen {
            return PyFrozenSet::new(cx.py, copy.iter()).ok().map(|set| set.into_any().unbind());
        }
        Some(copy.into_any().unbind())
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        // The storage of an object of a subclass is guarded with that object's type.
        let ty = self
            .object
            .as_ref()
            .map_or_else(|| self.python_type(cx), |object| object.bind(cx.py).get_type().into_any());
        let test = IteratesOver::test(cx.py, &ty, &self.python_type(cx), &self.keys)?;
        cx.guards.add(cx.vars.tracker(this), test);
        Ok(())
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<GraphArgument> {
        let value = self.materialize(cx).ok_or_else(|| {
            Unwind::break_graph(ReasonId::UnsupportedCall, "a changed set as an argument of a graph operation")
        })?;
        let text = repr(cx.py, &value);
        Ok(GraphArgument { value, text, holds_tensor: false })
    }

    fn reconstruct(&self, cg: &mut CodeGen<'_, '_>, _: VarId) -> Flow<()> {
        hash_key::refuse_asking_again(cg.cx, self.keys.iter())?;
        if self.frozen {
            let items = cg.cx.list(self.keys.iter().map(|key| key.variable).collect());
            let ty = cg.cx.py.get_type::<PyFrozenSet>().into_any().unbind();
            return cg.call(|cg| cg.load_const(ty), &[items]);
        }
        for key in &self.keys {
            cg.load(key.variable)?;
        }
        cg.op("BUILD_SET", self.keys.len() as u32)
    }

    fn restore_contents(&self, cg: &mut CodeGen<'_, '_>, this: VarId) -> Flow<()> {
        hash_key::refuse_asking_again(cg.cx, self.keys.iter())?;
        let items = cg.cx.tuple(self.keys.iter().map(|key| key.variable).collect());
        let ty = self.python_type(cg.cx);
        // The C methods: a subclass may have its own, which the trace has followed already.
        let (clear, update) = (ty.getattr("clear")?.unbind(), ty.getattr("update")?.unbind());
        cg.call(|cg| cg.load_const(clear), &[this])?;
        cg.op("POP_TOP", 0)?;
        cg.call(|cg| cg.load_const(update), &[this, items])?;
        cg.op("POP_TOP", 0)
    }

    fn children(&self) -> Vec<VarId> {
        self.keys.iter().map(|key| key.variable).collect()
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        let items = self.ordered(cx.py)?;
        Ok(SequenceIterator::over_set(cx, this, items))
    }

    fn items(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<Option<Vec<VarId>>> {
        self.ordered(cx.py).map(Some)
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        cx.integer(self.keys.len() as i64)
    }

    fn truth(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        Ok(!self.keys.is_empty())
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, item: VarId) -> Flow<VarId> {
        let key = HashKey::sought(cx, item)?;
        let found = position(cx, &self.keys, &key)?.is_some();
        Ok(cx.boolean(found))
    }

    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        this: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        if reflected || !is_set_operator(op) || cx.see_as::<SetVariable>(other)?.is_none() {
            return Ok(None);
        }
        operate(cx, op, this, other).map(Some)
    }

    fn inplace(&self, cx: &mut OpcodeExecutor<'_>, op: BinaryOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        if self.frozen || !is_set_operator(op) {
            return Ok(None);
        }
        let Some(right) = cx.see_as::<SetVariable>(other)? else { return Ok(None) };
        let keys = combine(cx, op, &self.keys, &right.keys)?;
        write(cx, this, keys, Order::Unknown)?;
        Ok(Some(this))
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, _: VarId, other: VarId) -> Flow<Option<VarId>> {
        let other = subclass::seen_by_base(cx, other)?;
        let Some(right) = cx.see_as::<SetVariable>(other)? else { return Ok(None) };
        let common = combine(cx, BinaryOp::And, &self.keys, &right.keys)?.len();
        let (left, right) = (self.keys.len(), right.keys.len());
        let answer = match op {
            CompareOp::Less => common == left && left < right,
            CompareOp::LessEqual => common == left,
            CompareOp::Equal => common == left && left == right,
            CompareOp::NotEqual => common != left || left != right,
            CompareOp::Greater => common == right && right < left,
            CompareOp::GreaterEqual => common == right,
        };
        Ok(Some(cx.boolean(answer)))
    }
}
