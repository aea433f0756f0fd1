//! `set` and `frozenset`. Elements are known while tracing; the iteration order comes from a real set, the
//! [`Replica`]. If hashes are addresses of objects that do not exist yet, or if the program's `__eq__` compares
//! elements, the order is unknown, and iteration breaks the graph.
//!
//! Of a set from outside, only those elements are guarded that the program asks for, unless it asks for more than
//! single elements: then all are, in their order.

use std::any::TypeId;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyFrozenSet, PySet};

use sot_core::bytecode::Op;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{BinaryOp, CompareOp, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::tracker::{repr, TrackerId};
use sot_core::variable::{Argument, Form, Rebuild};
use sot_core::variable::{GraphArgument, VarId, Variable};

use crate::classes::subclass;
use crate::containers::hash_key::{self, HashKey, IteratesOver};
use crate::containers::key_index::LazyIndex;
use crate::containers::replica::{self, Elements, Replica};
use crate::containers::sequence;
use crate::iterators::library;
use crate::iterators::sequence::SequenceIterator;

mod changes;
mod operators;

pub use changes::add;
use changes::SetChange;
pub(crate) use changes::{discard, write};
use operators::unique;
pub(crate) use operators::{combine, elements, is_set_operator, only, operate};

sot_core::variable_kind! {
    "set",
    types: |py| Ok(vec![library(py, "builtins", "set")?, library(py, "builtins", "frozenset")?]),
    wrap: SetVariable::wrap
}

/// What is known of the iteration order.
pub enum SetOrder {
    /// The keys are in the order in which they were found. With the real set, if all hashes are known.
    AsFound(Option<Replica>),
    /// The order of this real set, to which the operations of the trace were applied.
    OfRealSet(Replica),
    /// The order is not known while tracing.
    Unknown,
}

/// A set.
pub struct SetVariable {
    /// Distinct elements. Their order is meaningful for `SetOrder::AsFound` only.
    pub keys: Vec<Rc<HashKey>>,
    /// True for a `frozenset`.
    pub frozen: bool,
    /// The iteration order, as far as it is known.
    pub order: SetOrder,
    outside: Option<Rc<SetFromOutside>>,
    /// Changes of a set from outside, as long as they are few. New code repeats them, so the hash table need not be
    /// guarded.
    changes: Option<Vec<SetChange>>,
    /// Index of the keys, built by the first lookup.
    index: LazyIndex,
}

/// A set from outside.
struct SetFromOutside {
    object: Py<PyAny>,
    /// The elements when the trace first looked at the set.
    keys: Vec<Rc<HashKey>>,
}

/// Returns the payload of a variable that must be a set; breaks the graph for other variables.
pub(crate) fn expect(cx: &mut OpcodeExecutor<'_>, set: VarId) -> Flow<Rc<SetVariable>> {
    if let Some(payload) = cx.see_as::<SetVariable>(set)? {
        Ok(payload)
    } else {
        let name = cx.type_name(set)?;
        Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("a set method on a {name} object")))
    }
}

/// Returns the operand as C code sees it: the storage, for an instance of a set subclass, even if it overrides
/// iteration.
pub(crate) fn seen(cx: &mut OpcodeExecutor<'_>, source: VarId) -> Flow<VarId> {
    let storage = subclass::seen_by_base(cx, source)?;
    Ok(if cx.see_as::<SetVariable>(storage)?.is_some() { storage } else { source })
}

/// True if all elements of the set are guarded. That includes their number, of which a subject has one guard at most.
fn is_looked_into(cx: &OpcodeExecutor<'_>, of: TrackerId) -> bool {
    cx.trace.guards.has(of, Test::Length(0))
}

impl SetVariable {
    /// Makes a set for a set display.
    pub fn build(cx: &mut OpcodeExecutor<'_>, items: Vec<VarId>) -> Flow<VarId> {
        let keys = unique(cx, items)?;
        let order = Replica::order_of_added(cx.py, &keys)?;
        Ok(SetVariable::make(cx, (keys, order), false))
    }

    /// Makes a set in the trace.
    pub(crate) fn make(cx: &mut OpcodeExecutor<'_>, (keys, order): Elements, frozen: bool) -> VarId {
        cx.limits.charge(keys.len());
        cx.trace.produce(Rc::new(SetVariable {
            keys,
            frozen,
            order,
            outside: None,
            changes: None,
            index: LazyIndex::default(),
        }))
    }

    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        let object = object.clone().unbind();
        let set = object.bind(cx.py).clone();
        let frozen = set.is_instance_of::<PyFrozenSet>();
        let ty = if frozen { cx.py.get_type::<PyFrozenSet>().into_any() } else { cx.py.get_type::<PySet>().into_any() };
        // Methods of a subclass are not called.
        let items = ty.call_method1("__iter__", (&set,))?.try_iter()?;
        let keys = items.map(|item| HashKey::found(cx, &item?)).collect::<Flow<Vec<_>>>()?;
        let known = keys.iter().all(|key| !key.is_stand_in());
        let replica = known.then(|| Replica::of(&set)).transpose()?;
        let outside = Some(Rc::new(SetFromOutside { object, keys: keys.clone() }));
        Ok(Rc::new(SetVariable {
            keys,
            frozen,
            order: SetOrder::AsFound(replica),
            outside,
            changes: Some(Vec::new()),
            index: LazyIndex::default(),
        }))
    }

    /// Guards the elements of a set from outside and their order, as they were before the trace.
    fn look(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let of = cx.trace.vars.tracker(this);
        let Some(outside) = self.outside.as_ref().filter(|_| cx.trace.trackers.is_sourced(of)) else { return Ok(()) };
        if is_looked_into(cx, of) {
            return Ok(());
        }
        cx.refuse_changing_contents(of, "a set", false)?;
        // For the storage of an instance of a subclass, this is the type of the instance.
        let ty = outside.object.bind(cx.py).get_type().into_any();
        let test = IteratesOver::test(cx.py, &ty, &self.python_type(&cx.trace), &outside.keys)?;
        cx.trace.guards.add(of, Test::Length(outside.keys.len()));
        cx.trace.guards.add(of, test);
        Ok(())
    }

    /// Guards that a set from outside has the element, or that it does not. Guards all elements if only code of the
    /// program can tell.
    fn ask(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: &HashKey) -> Flow<()> {
        let of = cx.trace.vars.tracker(this);
        let Some(outside) = self.outside.as_ref().filter(|_| cx.trace.trackers.is_sourced(of)) else { return Ok(()) };
        if is_looked_into(cx, of) || hash_key::guard_presence(cx, of, &outside.object, key) {
            return Ok(());
        }
        self.look(cx, this)
    }

    fn position(&self, cx: &mut OpcodeExecutor<'_>, key: &HashKey) -> Flow<Option<usize>> {
        self.index.find(cx, key, self.keys.len(), |at| &self.keys[at])
    }

    /// Returns the replica, if the hashes are known.
    pub(crate) fn replica(&self, py: Python<'_>) -> Option<Replica> {
        match &self.order {
            SetOrder::AsFound(Some(replica)) | SetOrder::OfRealSet(replica) => Some(replica.again(py)),
            SetOrder::AsFound(None) | SetOrder::Unknown => None,
        }
    }

    /// Returns the set from outside whose hash table determines the order, as long as that table has not been
    /// guarded.
    pub(crate) fn began_with(&self) -> Option<&Py<PyAny>> {
        self.object().filter(|_| self.changes.is_some())
    }

    /// True for a set from outside with changes that new code repeats one by one.
    fn is_to_be_changed(&self) -> bool {
        self.changes.as_ref().is_some_and(|changes| !changes.is_empty())
    }

    /// Returns the keys in CPython's iteration order. Breaks the graph if the order is unknown.
    fn ordered(&self, py: Python<'_>) -> Flow<Vec<Rc<HashKey>>> {
        match &self.order {
            SetOrder::OfRealSet(replica) => Ok(replica.ordered(py, &self.keys)?),
            SetOrder::Unknown if self.keys.len() > 1 => Err(Unwind::break_graph(
                ReasonId::UnsupportedOperation,
                "iteration over a set whose order only CPython knows: it follows from addresses of objects that are not \
                 there yet, or the program compares elements; sorted() gives one",
            )),
            SetOrder::AsFound(_) | SetOrder::Unknown => Ok(self.keys.clone()),
        }
    }

    /// True if the elements can be sorted starting from any order: the order is unknown, and either does not affect
    /// the result, or depends on addresses.
    pub(crate) fn sorts_in_any_order(&self, by_key: bool) -> bool {
        matches!(self.order, SetOrder::Unknown) && (!by_key || self.keys.iter().any(|key| key.is_address()))
    }

    /// Returns a real copy of the set, and whether it is an exact copy.
    pub(crate) fn copied<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, bool)> {
        let stand_ins = self.keys.iter().any(|key| key.is_stand_in());
        if let Some(replica) = self.replica(py).filter(|_| !stand_ins) {
            return Ok((replica.copy(py, self.frozen)?, !self.is_to_be_changed()));
        }
        let keys = self.keys.iter().map(|key| key.bind(py));
        let copy = if self.frozen { PyFrozenSet::new(py, keys)?.into_any() } else { PySet::new(py, keys)?.into_any() };
        Ok((copy, !stand_ins))
    }

    fn ordered_items(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Vec<VarId>> {
        self.look(cx, this)?;
        if self.is_to_be_changed() {
            replica::of(cx, this)?;
        }
        Ok(self.ordered(cx.py)?.iter().map(|key| key.variable).collect())
    }

    /// Returns the functions that give the set its hash table in new code, if needed, and the elements in their order
    /// as far as known.
    pub(crate) fn rebuilding(&self, trace: &Trace<'_>) -> Flow<(Option<Py<PyAny>>, Vec<VarId>)> {
        let Some(replica) = self.replica(trace.py) else {
            return Ok((None, self.keys.iter().map(|key| key.variable).collect()));
        };
        let keys = replica.ordered(trace.py, &self.keys)?;
        Ok((replica::arranged(trace.py, &replica, &keys)?, keys.iter().map(|key| key.variable).collect()))
    }
}

impl Variable for SetVariable {
    fn kind(&self) -> &'static str {
        "set"
    }

    fn form(&self) -> Form {
        Form::Set
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        if self.frozen {
            trace.py.get_type::<PyFrozenSet>().into_any()
        } else {
            trace.py.get_type::<PySet>().into_any()
        }
    }

    fn text(&self, _: &Trace<'_>) -> String {
        format!("SetVariable(len: {})", self.keys.len())
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.outside.as_ref().map(|outside| &outside.object)
    }

    fn materialize(&self, trace: &Trace<'_>) -> Option<Py<PyAny>> {
        if self.keys.iter().any(|key| key.is_stand_in()) {
            return None;
        }
        match (&self.order, self.object()) {
            (SetOrder::AsFound(_), Some(object)) => Some(object.clone_ref(trace.py)),
            // A copy that iterates in a different order is observably different.
            _ if self.is_to_be_changed() => None,
            _ => self.replica(trace.py)?.copy(trace.py, self.frozen).ok().map(Bound::unbind),
        }
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        // For the storage of an instance of a subclass, this is the type of the instance.
        let ty = self
            .object()
            .map_or_else(|| self.python_type(&cx.trace), |object| object.bind(cx.py).get_type().into_any());
        cx.trace.guards.add(cx.trace.vars.tracker(this), Test::TypeIs(Identity::of(&ty)));
        Ok(())
    }

    fn opens_to(&self) -> Option<TypeId> {
        self.outside.as_ref().map(|_| TypeId::of::<SetVariable>())
    }

    fn open(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        self.look(cx, this)
    }

    fn prepare(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        self.look(cx, this)
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<GraphArgument> {
        self.look(cx, this)?;
        let value = self.materialize(&cx.trace).ok_or_else(|| {
            Unwind::break_graph(ReasonId::UnsupportedCall, "a changed set as an argument of a graph operation")
        })?;
        let text = repr(cx.py, &value);
        Ok(GraphArgument { value, text, holds_tensor: false })
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        hash_key::refuse_asking_again(cg.trace(), self.keys.iter())?;
        let (arranged, items) = self.rebuilding(cg.trace())?;
        if let Some(arranged) = arranged {
            let make = arranged.getattr(cg.py(), if self.frozen { "make_frozen" } else { "make" })?;
            return cg.call(|cg| cg.load_const(make), [Argument::tuple(items)]);
        }
        if self.frozen {
            let ty = cg.py().get_type::<PyFrozenSet>().into_any().unbind();
            return cg.call(|cg| cg.load_const(ty), [Argument::list(items)]);
        }
        for &item in &items {
            cg.load(item)?;
        }
        cg.op(Op::BUILD_SET, items.len() as u32)
    }

    fn restore_contents(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let changed = self.changes.iter().flatten().map(|(_, key)| key);
        hash_key::refuse_asking_again(cg.trace(), self.keys.iter().chain(changed))?;
        let ty = self.python_type(cg.trace());
        for (method, key) in self.changes.iter().flatten() {
            // The C methods: overrides in a subclass have been inlined by the trace already.
            let method = ty.getattr(*method)?.unbind();
            cg.call(|cg| cg.load_const(method), [this, key.variable])?;
            cg.op(Op::POP_TOP, 0)?;
        }
        if self.changes.is_some() {
            return Ok(());
        }
        let (arranged, items) = self.rebuilding(cg.trace())?;
        let items = Argument::tuple(items);
        if let Some(arranged) = arranged {
            let fill = arranged.getattr(cg.py(), "fill")?;
            cg.call(|cg| cg.load_const(fill), [this.into(), items])?;
            return cg.op(Op::POP_TOP, 0);
        }
        let (clear, update) = (ty.getattr("clear")?.unbind(), ty.getattr("update")?.unbind());
        cg.call(|cg| cg.load_const(clear), [this])?;
        cg.op(Op::POP_TOP, 0)?;
        cg.call(|cg| cg.load_const(update), [this.into(), items])?;
        cg.op(Op::POP_TOP, 0)
    }

    fn restored(&self, _: &Trace<'_>, _: VarId) -> Vec<VarId> {
        match &self.changes {
            Some(changes) => changes.iter().map(|(_, key)| key.variable).collect(),
            None => self.children(),
        }
    }

    fn children(&self) -> Vec<VarId> {
        let changed = self.changes.iter().flatten().map(|(_, key)| key);
        self.keys.iter().chain(changed).map(|key| key.variable).collect()
    }

    fn holds(&self) -> Vec<VarId> {
        self.keys.iter().map(|key| key.variable).collect()
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        let items = self.ordered_items(cx, this)?;
        Ok(SequenceIterator::over_set(cx, this, items))
    }

    fn items(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<Vec<VarId>>> {
        self.ordered_items(cx, this).map(Some)
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        let had = self.outside.as_ref().map(|outside| outside.keys.len());
        sequence::length(cx, this, had, self.keys.len())
    }

    fn truth(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
        let length = self.len(cx, this)?;
        cx.truth(length)
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, item: VarId) -> Flow<VarId> {
        let key = HashKey::sought(cx, item)?;
        self.ask(cx, this, &key)?;
        let found = self.position(cx, &key)?.is_some();
        Ok(cx.trace.boolean(found))
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
        self.look(cx, this)?;
        operate(cx, op, this, other).map(Some)
    }

    fn inplace(&self, cx: &mut OpcodeExecutor<'_>, op: BinaryOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        if self.frozen || !is_set_operator(op) {
            return Ok(None);
        }
        if cx.see_as::<SetVariable>(other)?.is_none() {
            return Ok(None);
        }
        let changed = replica::changed(cx, op, this, other)?;
        write(cx, this, changed)?;
        Ok(Some(this))
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        let other = subclass::seen_by_base(cx, other)?;
        let Some(right) = cx.see_as::<SetVariable>(other)? else { return Ok(None) };
        self.look(cx, this)?;
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
        Ok(Some(cx.trace.boolean(answer)))
    }
}
