//! `dict` and `collections.OrderedDict`. Keys are known while tracing, values are variables. A write replaces the
//! payload. A dict that outlives the frame is updated in place, entry by entry, so its identity and its views are
//! kept.
//!
//! Of a dict from outside, only those keys are guarded that the program asks for, unless it asks for more than single
//! keys: then all keys are.

use std::any::TypeId;
use std::rc::Rc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;

use sot_core::bytecode::Op;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, CompareOp, Globals, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::side_effects::Effect;
use sot_core::tracker::{Key, Tracker, TrackerId};
use sot_core::variable::{Argument, Form, Rebuild};
use sot_core::variable::{GraphArgument, VarId, Variable};

use crate::classes::instance_dict::InstanceDictVariable;
use crate::classes::subclass;
use crate::containers::hash_key::{self, HashKey};
use crate::containers::key_index::LazyIndex;
use crate::containers::sequence;
use crate::globals::GlobalsVariable;
use crate::iterators::dict_view::{DictIterator, View};

mod entries;
mod mapping;
mod restore;
mod single_keys;

pub use entries::Entry;
pub(crate) use entries::{empty_error, find, key_error, pair, put, IndexedEntries};
pub(crate) use mapping::{copied, pairs};
pub use mapping::{merge, update, update_from_mapping};
use restore::DictFromOutside;
pub(crate) use single_keys::{by_keys, remove, see, value_of};

sot_core::variable_kind! { "dict", types: |py| DictVariable::types(py), wrap: DictVariable::wrap }

/// A dict.
pub struct DictVariable {
    /// The entries in order.
    pub entries: Vec<Entry>,
    /// True for an `OrderedDict`.
    pub ordered: bool,
    outside: Option<Rc<DictFromOutside>>,
    /// Index of the keys, built by the first lookup.
    index: LazyIndex,
}

fn keys(entries: &[Entry]) -> impl ExactSizeIterator<Item = &Rc<HashKey>> + Clone {
    entries.iter().map(|entry| &entry.key)
}

/// Replaces the entries of a dict, and records the side effect.
pub(crate) fn write(cx: &mut OpcodeExecutor<'_>, dict: VarId, entries: Vec<Entry>) -> Flow<()> {
    if let Some(attributes) = cx.see_as::<InstanceDictVariable>(dict)? {
        return attributes.write(cx, &entries);
    }
    expect(cx, dict)?.replace(cx, dict, entries);
    Ok(())
}

/// Returns the contents if the variable is a dict.
pub(crate) fn of(cx: &mut OpcodeExecutor<'_>, dict: VarId) -> Flow<Option<Rc<DictVariable>>> {
    match cx.see_as::<InstanceDictVariable>(dict)? {
        Some(attributes) => Ok(Some(Rc::new(attributes.contents(cx)?))),
        None => cx.see_as(dict),
    }
}

/// Returns the contents of a variable that must be a dict; breaks the graph for other variables.
pub(crate) fn expect(cx: &mut OpcodeExecutor<'_>, dict: VarId) -> Flow<Rc<DictVariable>> {
    if let Some(contents) = of(cx, dict)? {
        Ok(contents)
    } else {
        let name = cx.type_name(dict)?;
        Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("a dict method on a {name} object")))
    }
}

/// Breaks the graph for a method of `dict` that `OrderedDict` overrides: it would leave the separate order of an
/// `OrderedDict` unchanged.
pub(crate) fn refuse_method_of_base(
    cx: &mut OpcodeExecutor<'_>,
    descriptor: &Bound<'_, PyAny>,
    receiver: VarId,
) -> Flow<()> {
    let of_dict = descriptor.getattr("__objclass__").is_ok_and(|owner| owner.is(cx.py.get_type::<PyDict>()));
    if !of_dict || !by_keys(cx, receiver)?.is_some_and(|dict| dict.ordered) {
        return Ok(());
    }
    if ordered_type(cx.py)?.getattr("__dict__")?.contains(descriptor.getattr("__name__")?)? {
        let text = "a method of dict that is not the one of OrderedDict";
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    }
    Ok(())
}

/// True if the dict is the globals of some code, or `sys.modules`. Entries that the program does not ask for come and
/// go in these, so the set of keys is not guarded.
fn is_namespace(dict: &Bound<'_, PyDict>) -> PyResult<bool> {
    let py = dict.py();
    Ok(dict.contains(intern!(py, "__builtins__"))? || cpython::import(py, "sys")?.getattr("modules")?.is(dict))
}

impl DictVariable {
    /// Returns a dict made in the trace.
    pub(crate) fn new(entries: Vec<Entry>, ordered: bool) -> Self {
        DictVariable { entries, ordered, outside: None, index: LazyIndex::default() }
    }

    /// Returns a dict of keyword arguments, as `**kwargs` makes it.
    pub fn from_keywords(cx: &mut OpcodeExecutor<'_>, keywords: Vec<(Rc<str>, VarId)>) -> Flow<Rc<dyn Variable>> {
        let mut entries = Vec::with_capacity(keywords.len());
        for (name, value) in keywords {
            let key = cx.trace.string(&name);
            entries.push(Entry { key: HashKey::of(cx, key)?, value });
        }
        Ok(Rc::new(DictVariable::new(entries, false)))
    }

    /// Makes a dict for a dict display.
    pub fn build(cx: &mut OpcodeExecutor<'_>, items: Vec<(VarId, VarId)>) -> Flow<VarId> {
        let mut filling = IndexedEntries::of(&cx.trace, Vec::with_capacity(items.len()));
        for (key, value) in items {
            let key = HashKey::of(cx, key)?;
            filling.put(cx, key, value)?;
        }
        Ok(cx.trace.produce(Rc::new(DictVariable::new(filling.finish(), false))))
    }

    /// Returns a copy of the same type. Methods of a subclass are not called.
    pub(crate) fn copy(&self, cx: &mut OpcodeExecutor<'_>) -> VarId {
        cx.trace.produce(Rc::new(DictVariable::new(self.entries.clone(), self.ordered)))
    }

    /// Returns the value of a key, or `None`.
    pub fn find(&self, cx: &mut OpcodeExecutor<'_>, key: VarId) -> Flow<Option<VarId>> {
        let key = HashKey::of(cx, key)?;
        self.get(cx, &key)
    }

    /// Returns the value of a key, or `None`.
    pub(crate) fn get(&self, cx: &mut OpcodeExecutor<'_>, key: &HashKey) -> Flow<Option<VarId>> {
        Ok(self.position(cx, key)?.map(|at| self.entries[at].value))
    }

    /// Returns the position of a key, or `None`.
    pub(crate) fn position(&self, cx: &mut OpcodeExecutor<'_>, key: &HashKey) -> Flow<Option<usize>> {
        self.index.find(cx, key, self.entries.len(), |at| &self.entries[at].key)
    }

    fn types(py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        Ok(vec![py.get_type::<PyDict>().into_any().unbind(), ordered_type(py)?.unbind()])
    }

    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
        let object = object.clone().unbind();
        let dict = object.bind(cx.py).cast::<PyDict>().map_err(PyErr::from)?.clone();
        if is_namespace(&dict)? {
            let globals = Globals { dict: dict.unbind(), tracker: of };
            return Ok(Rc::new(GlobalsVariable::new(globals)));
        }
        let (entries, ordered) = DictVariable::entries_of(cx, &dict, of)?;
        let outside = DictFromOutside::new(object, &entries);
        Ok(Rc::new(DictVariable { outside, ..DictVariable::new(entries, ordered) }))
    }

    /// Returns the contents of the dict behind a `mappingproxy`.
    pub(crate) fn behind(
        cx: &mut OpcodeExecutor<'_>,
        dict: &Bound<'_, PyDict>,
        proxy: &Bound<'_, PyAny>,
        of: TrackerId,
    ) -> Flow<DictVariable> {
        let dict = dict.clone().unbind().into_bound(cx.py);
        let (entries, ordered) = DictVariable::entries_of(cx, &dict, of)?;
        let outside = DictFromOutside::new(proxy.clone().unbind(), &entries);
        Ok(DictVariable { outside, ..DictVariable::new(entries, ordered) })
    }

    fn entries_of<'py>(
        cx: &mut OpcodeExecutor<'py>,
        dict: &Bound<'py, PyDict>,
        of: TrackerId,
    ) -> Flow<(Vec<Entry>, bool)> {
        let mut entries = Vec::with_capacity(dict.len());
        // An OrderedDict keeps an order of its own. Methods of a subclass are not called.
        let ordered_type = ordered_type(cx.py)?;
        let ordered = cpython::is_subtype(&dict.get_type(), ordered_type.cast().map_err(PyErr::from)?);
        let unfit = || {
            let text = "an OrderedDict whose order does not fit what it holds";
            Unwind::break_graph(ReasonId::UnsupportedOperation, text)
        };
        let keys = if ordered {
            let keys = ordered_type.call_method1("__iter__", (dict,))?.try_iter()?.collect::<PyResult<Vec<_>>>();
            keys.ok().filter(|keys| keys.len() == dict.len()).ok_or_else(unfit)?
        } else {
            dict.keys().iter().collect()
        };
        // Values are found by the identity of their keys, as hashing a key could run code.
        let mut values: FxHashMap<_, _> = dict.iter().map(|(key, value)| (key.as_ptr(), value)).collect();
        for object in keys {
            let key = HashKey::found(cx, &object)?;
            let value = values.remove(&object.as_ptr()).ok_or_else(unfit)?;
            let tracker = cx.trace.trackers.add(Tracker::Item { of, key: Key::of(&object) });
            let value = cx.trace.wrap(&value, tracker);
            entries.push(Entry { key, value });
        }
        entries::refuse_changed_keys(cx, dict, &entries)?;
        Ok((entries, ordered))
    }

    /// Replaces the entries, and records the side effect.
    fn replace(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, entries: Vec<Entry>) {
        let outside = self.outside.clone();
        cx.limits.charge(entries.len());
        let index = self.index.after_write(&cx.trace, keys(&self.entries), keys(&entries));
        cx.trace.vars.set(this, Rc::new(DictVariable { outside, index, ..DictVariable::new(entries, self.ordered) }));
        cx.trace.effects.record(Effect::Contents { container: this });
    }

    fn equals(&self, cx: &mut OpcodeExecutor<'_>, other: &DictVariable) -> Flow<bool> {
        if self.entries.len() != other.entries.len() {
            return Ok(false);
        }
        for (position, entry) in self.entries.iter().enumerate() {
            let Some(at) = other.position(cx, &entry.key)? else { return Ok(false) };
            if self.ordered && other.ordered && at != position {
                return Ok(false);
            }
            let equal = sequence::nested(|| object_model::equal(cx, entry.value, other.entries[at].value));
            if !equal.ok_or_else(sequence::endless)?? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns `collections.OrderedDict`.
pub(crate) fn ordered_type(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    cpython::import(py, "collections")?.getattr("OrderedDict")
}

impl Variable for DictVariable {
    fn kind(&self) -> &'static str {
        "dict"
    }

    fn form(&self) -> Form {
        Form::Dict
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        let plain = trace.py.get_type::<PyDict>().into_any();
        if self.ordered {
            ordered_type(trace.py).unwrap_or(plain)
        } else {
            plain
        }
    }

    fn text(&self, _: &Trace<'_>) -> String {
        format!("DictVariable(len: {})", self.entries.len())
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.outside.as_ref().map(|outside| &outside.object)
    }

    fn materialize(&self, trace: &Trace<'_>) -> Option<Py<PyAny>> {
        if self.entries.iter().any(|entry| entry.key.is_stand_in()) {
            return None;
        }
        let dict = self.python_type(trace).call0().ok()?;
        for entry in &self.entries {
            let value = sequence::nested(|| trace.vars.get(entry.value).materialize(trace))??;
            dict.set_item(entry.key.bind(trace.py), value).ok()?;
        }
        Some(dict.unbind())
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        // For the storage of an instance of a subclass, this is the type of the instance.
        let ty = self
            .object()
            .map_or_else(|| self.python_type(&cx.trace), |object| object.bind(cx.py).get_type().into_any());
        let tracker = cx.trace.vars.tracker(this);
        cx.trace.guards.add(tracker, Test::TypeIs(Identity::of(&ty)));
        Ok(())
    }

    fn opens_to(&self) -> Option<TypeId> {
        self.outside.as_ref().map(|_| TypeId::of::<DictVariable>())
    }

    fn open(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        self.look(cx, this)
    }

    fn prepare(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        self.look(cx, this)
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<GraphArgument> {
        self.look(cx, this)?;
        if self.entries.iter().any(|entry| entry.key.is_stand_in()) {
            let text = "a dict with new objects as keys as an argument of a graph operation";
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
        }
        let dict = self.python_type(&cx.trace).call0()?;
        let (mut texts, mut holds_tensor) = (Vec::new(), false);
        for entry in &self.entries {
            let value = sequence::graph_items(cx, &[entry.value])?;
            let key = entry.key.bind(cx.py);
            texts.push(format!("{}: {}", sot_core::tracker::repr(cx.py, &key.clone().unbind()), value.text));
            holds_tensor |= value.holds_tensor;
            for item in value.values {
                dict.set_item(key, item)?;
            }
        }
        Ok(GraphArgument { value: dict.unbind(), text: format!("{{{}}}", texts.join(", ")), holds_tensor })
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        hash_key::refuse_asking_again(cg.trace(), self.entries.iter().map(|entry| &entry.key))?;
        if !self.ordered && cg.leaves_empty(this) {
            return cg.op(Op::BUILD_MAP, 0);
        }
        if self.ordered {
            let pairs = self.entries.iter().map(|entry| Argument::tuple([entry.key.variable, entry.value]));
            let ty = ordered_type(cg.py())?.unbind();
            return cg.call(|cg| cg.load_const(ty), [Argument::tuple(pairs)]);
        }
        for entry in &self.entries {
            cg.load(entry.key.variable)?;
            cg.load(entry.value)?;
        }
        cg.op(Op::BUILD_MAP, self.entries.len() as u32)
    }

    fn restore_contents(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        self.restore(cg, this)
    }

    fn restored(&self, trace: &Trace<'_>, this: VarId) -> Vec<VarId> {
        DictVariable::restored(self, trace, this)
    }

    fn children(&self) -> Vec<VarId> {
        self.entries.iter().flat_map(|entry| [entry.key.variable, entry.value]).collect()
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<VarId> {
        let key = HashKey::of(cx, key)?;
        self.value_of(cx, this, &key)?.ok_or_else(|| key_error(cx, &key))
    }

    fn set_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId, value: VarId) -> Flow<()> {
        let key = HashKey::of(cx, key)?;
        self.set(cx, this, key, value)
    }

    fn del_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<()> {
        let key = HashKey::of(cx, key)?;
        self.remove(cx, this, &key)?.map(drop).ok_or_else(|| key_error(cx, &key))
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        self.look(cx, this)?;
        DictIterator::over(cx, this, View::Keys, false)
    }

    fn items(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<Vec<VarId>>> {
        self.look(cx, this)?;
        Ok(Some(self.entries.iter().map(|entry| entry.key.variable).collect()))
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        let had = self.outside.as_ref().map(|outside| outside.keys.len());
        sequence::length(cx, this, had, self.entries.len())
    }

    fn truth(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
        let length = self.len(cx, this)?;
        cx.truth(length)
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, item: VarId) -> Flow<VarId> {
        let key = HashKey::of(cx, item)?;
        let found = self.value_of(cx, this, &key)?.is_some();
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
        self.look(cx, this)?;
        let has_union = cx.py.get_type::<PyDict>().hasattr("__or__")?;
        if op != BinaryOp::Or || reflected || !has_union || of(cx, other)?.is_none() {
            return Ok(None);
        }
        let ordered = self.ordered || of(cx, other)?.is_some_and(|other| other.ordered);
        let copy = copied(cx, this, ordered)?;
        let other = subclass::owner_of(&cx.trace, other);
        update(cx, copy, other)?;
        Ok(Some(copy))
    }

    fn inplace(&self, cx: &mut OpcodeExecutor<'_>, op: BinaryOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        if op != BinaryOp::Or || !cx.py.get_type::<PyDict>().hasattr("__ior__")? {
            return Ok(None);
        }
        let other = subclass::owner_of(&cx.trace, other);
        update(cx, this, other)?;
        Ok(Some(this))
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        if !matches!(op, CompareOp::Equal | CompareOp::NotEqual) {
            return Ok(None);
        }
        self.look(cx, this)?;
        let other = subclass::seen_by_base(cx, other)?;
        let Some(right) = of(cx, other)? else { return Ok(None) };
        let equal = self.equals(cx, &right)?;
        Ok(Some(cx.trace.boolean(equal == (op == CompareOp::Equal))))
    }
}
