//! `dict` and `collections.OrderedDict`: keys known while tracing, values variables. A write replaces the payload; a dict
//! that outlives the frame gets its final entries item by item, so its own identity and its views stay.

use std::collections::HashSet;
use std::rc::Rc;

use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString};

use sot_core::codegen::CodeGen;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, CompareOp, Globals, Name, OpcodeExecutor};
use sot_core::guard::{Identity, Test};
use sot_core::side_effects::Effect;
use sot_core::tracker::{Key, Tracker, TrackerId};
use sot_core::variable::{GraphArgument, VarId, Variable};

use crate::builtins::attribute;
use crate::globals::GlobalsVariable;
use crate::hash_key::{self, HashKey, IteratesOver};
use crate::instance_dict::InstanceDictVariable;
use crate::iterators::dict_view::{DictIterator, View};
use crate::{exception, sequence, subclass};

sot_core::variable_kind! { "dict", types: |py| DictVariable::types(py), wrap: DictVariable::wrap }

/// So many entries are taken out of a dict one by one.
const FEW: usize = 16;

/// One entry.
#[derive(Clone)]
pub struct Entry {
    /// The key.
    pub key: Rc<HashKey>,
    /// The value.
    pub value: VarId,
}

/// A dict.
pub struct DictVariable {
    /// The entries in order.
    pub entries: Vec<Entry>,
    /// Whether it is an `OrderedDict`.
    pub ordered: bool,
    outside: Option<Rc<Outside>>,
}

/// A dict that was there before, or the proxy of one.
struct Outside {
    object: Py<PyAny>,
    /// The keys it had when the trace first saw it.
    keys: Vec<Rc<HashKey>>,
}

impl Outside {
    fn new(object: Py<PyAny>, entries: &[Entry]) -> Option<Rc<Self>> {
        Some(Rc::new(Outside { object, keys: entries.iter().map(|entry| Rc::clone(&entry.key)).collect() }))
    }
}

/// `dict.update(mapping)`: another mapping, or an iterable of pairs.
pub fn update(cx: &mut OpcodeExecutor<'_>, dict: VarId, mapping: VarId) -> Flow<()> {
    let set = |cx: &mut OpcodeExecutor<'_>, pairs: &[(Rc<HashKey>, VarId)]| {
        let mut entries = expect(cx, dict)?.entries.clone();
        for (key, value) in pairs {
            put(cx, &mut entries, Rc::clone(key), *value)?;
        }
        write(cx, dict, entries)
    };
    match known_pairs(cx, mapping)? {
        Some(pairs) => set(cx, &pairs),
        // The program may look at the dict meanwhile.
        None => each_pair(cx, mapping, |cx, key, value| set(cx, &[(key, value)])),
    }
}

/// What a mapping gives when it is asked for its keys; `None` if it cannot be asked.
fn keys_of(cx: &mut OpcodeExecutor<'_>, mapping: VarId) -> Flow<Option<VarId>> {
    match attribute::find(cx, mapping, &Rc::from("keys"))? {
        Some(keys) => cx.call_keys(keys).map(Some),
        None => Ok(None),
    }
}

/// `{**mapping}` into a dict: nothing but a mapping will do.
pub fn update_from_mapping(cx: &mut OpcodeExecutor<'_>, dict: VarId, mapping: VarId) -> Flow<()> {
    if known_pairs(cx, mapping)?.is_some() {
        return update(cx, dict, mapping);
    }
    let mut entries = expect(cx, dict)?.entries.clone();
    let Some(keys) = keys_of(cx, mapping)? else {
        let text = format!("'{}' object is not a mapping", cx.type_name(mapping)?);
        return Err(cx.raise(PyTypeError::new_err(text)));
    };
    cx.each(keys, |cx, key| {
        let value = cx.get_item(mapping, key)?;
        let key = HashKey::of(cx, key)?;
        put(cx, &mut entries, key, value)
    })?;
    write(cx, dict, entries)
}

/// `f(**dict, **mapping)`: as `update`, but a key given twice is the user's `TypeError`.
pub fn merge(cx: &mut OpcodeExecutor<'_>, dict: VarId, mapping: VarId, function_name: Option<&str>) -> Flow<()> {
    let py = cx.py;
    let mut entries = expect(cx, dict)?.entries.clone();
    let named = || {
        let text = "wrong keywords for a callable whose name CPython knows";
        function_name.ok_or_else(|| Unwind::break_graph(ReasonId::UnsupportedCall, text))
    };
    let refuse_twice = |cx: &mut OpcodeExecutor<'_>, entries: &[Entry], key: &HashKey| {
        if find(cx, entries, key)?.is_none() {
            return Ok(());
        }
        let (function_name, key) = (named()?, key.bind(py).str()?);
        let text = format!("{function_name}() got multiple values for keyword argument '{key}'");
        Err(cx.raise(PyTypeError::new_err(text)))
    };
    if let Some(pairs) = known_pairs(cx, mapping)? {
        for (key, value) in pairs {
            refuse_twice(cx, &entries, &key)?;
            put(cx, &mut entries, key, value)?;
        }
        return write(cx, dict, entries);
    }
    let Some(keys) = keys_of(cx, mapping)? else {
        let (function_name, name) = (named()?, cx.type_name(mapping)?);
        let text = format!("{function_name}() argument after ** must be a mapping, not {name}");
        return Err(cx.raise(PyTypeError::new_err(text)));
    };
    cx.each(keys, |cx, name| {
        let key = HashKey::of(cx, name)?;
        refuse_twice(cx, &entries, &key)?;
        let value = cx.get_item(mapping, name)?;
        put(cx, &mut entries, key, value)
    })?;
    write(cx, dict, entries)
}

/// Position of a key among entries.
pub(crate) fn find(cx: &mut OpcodeExecutor<'_>, entries: &[Entry], key: &HashKey) -> Flow<Option<usize>> {
    for (at, entry) in entries.iter().enumerate() {
        if entry.key.same(cx, key)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Sets a value among entries; a known key keeps its place.
pub(crate) fn put(cx: &mut OpcodeExecutor<'_>, entries: &mut Vec<Entry>, key: Rc<HashKey>, value: VarId) -> Flow<()> {
    match find(cx, entries, &key)? {
        Some(at) => entries[at].value = value,
        None => entries.push(Entry { key, value }),
    }
    Ok(())
}

/// Sets values by keyword names.
pub(crate) fn put_keywords(
    cx: &mut OpcodeExecutor<'_>,
    entries: &mut Vec<Entry>,
    keywords: &[(Name, VarId)],
) -> Flow<()> {
    for (name, value) in keywords {
        let key = cx.string(name);
        let key = HashKey::of(cx, key)?;
        put(cx, entries, key, *value)?;
    }
    Ok(())
}

/// Gives the dict new entries.
pub(crate) fn write(cx: &mut OpcodeExecutor<'_>, dict: VarId, entries: Vec<Entry>) -> Flow<()> {
    if let Some(attributes) = cx.see_as::<InstanceDictVariable>(dict)? {
        return attributes.write(cx, &entries);
    }
    let old = expect(cx, dict)?;
    let outside = old.outside.clone();
    cx.charge(entries.len());
    cx.vars.set(dict, Rc::new(DictVariable { entries, ordered: old.ordered, outside }));
    cx.effects.record(Effect::Contents { container: dict });
    Ok(())
}

/// What a dict holds, if the variable is one.
pub(crate) fn of(cx: &mut OpcodeExecutor<'_>, dict: VarId) -> Flow<Option<Rc<DictVariable>>> {
    match cx.see_as::<InstanceDictVariable>(dict)? {
        Some(attributes) => Ok(Some(Rc::new(attributes.contents(cx)?))),
        None => cx.see_as(dict),
    }
}

/// What a variable that must be a dict holds.
pub(crate) fn expect(cx: &mut OpcodeExecutor<'_>, dict: VarId) -> Flow<Rc<DictVariable>> {
    if let Some(contents) = of(cx, dict)? {
        Ok(contents)
    } else {
        let name = cx.type_name(dict)?;
        Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("a dict method on a {name} object")))
    }
}

/// A method of `dict` that `OrderedDict` has its own of leaves the order as it was.
pub(crate) fn refuse_method_of_base(
    cx: &mut OpcodeExecutor<'_>,
    descriptor: &Bound<'_, PyAny>,
    receiver: VarId,
) -> Flow<()> {
    let of_dict = descriptor.getattr("__objclass__").is_ok_and(|owner| owner.is(cx.py.get_type::<PyDict>()));
    if !of_dict || !cx.see_as::<DictVariable>(receiver)?.is_some_and(|dict| dict.ordered) {
        return Ok(());
    }
    if ordered_type(cx.py)?.getattr("__dict__")?.contains(descriptor.getattr("__name__")?)? {
        let text = "a method of dict that is not the one of OrderedDict";
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    }
    Ok(())
}

/// `KeyError(key)`
pub(crate) fn key_error(cx: &mut OpcodeExecutor<'_>, key: &HashKey) -> Unwind {
    let class = cx.py.get_type::<PyKeyError>().into_any();
    exception::make(cx, &class, vec![key.variable]).map_or_else(|unwind| unwind, Unwind::Raise)
}

fn is_mapping(cx: &mut OpcodeExecutor<'_>, mapping: VarId) -> Flow<bool> {
    Ok(of(cx, mapping)?.is_some() || attribute::find(cx, mapping, &Rc::from("keys"))?.is_some())
}

/// The storage of a dict of a subclass, whose entries CPython copies without calling its methods if it iterates as its base.
fn plainly_iterated(cx: &mut OpcodeExecutor<'_>, source: VarId) -> Flow<Option<VarId>> {
    let Some(storage) = subclass::storage_of(cx, source)? else { return Ok(None) };
    let (ty, base) = (cx.type_of(source)?, cx.type_of(storage)?);
    let Some(dict) = cx.see_as::<DictVariable>(storage)? else { return Ok(None) };
    // An `OrderedDict` is asked for its keys, as any mapping.
    let asked = if dict.ordered { ["keys", "__getitem__"].as_slice() } else { &["__iter__"] };
    for name in asked {
        if !cpython::class_attr(&ty, name)?.is(&base.getattr(*name)?) {
            return Ok(None);
        }
    }
    Ok(Some(storage))
}

/// A copy of a dict, for which an object of a subclass is asked that has its own way to be iterated.
pub(crate) fn copied(cx: &mut OpcodeExecutor<'_>, this: VarId, ordered: bool) -> Flow<VarId> {
    let (entries, owner) = (expect(cx, this)?.entries.clone(), subclass::owner_of(cx, this));
    let asks = owner != this && !entries.is_empty() && plainly_iterated(cx, owner)?.is_none();
    let copy = cx.produce(Rc::new(DictVariable::new(if asks { Vec::new() } else { entries }, ordered)));
    if asks {
        update(cx, copy, owner)?;
    }
    Ok(copy)
}

/// The entries of a mapping, or of an iterable of pairs.
pub(crate) fn pairs(cx: &mut OpcodeExecutor<'_>, source: VarId) -> Flow<Vec<(Rc<HashKey>, VarId)>> {
    if let Some(known) = known_pairs(cx, source)? {
        return Ok(known);
    }
    let mut found = Vec::new();
    each_pair(cx, source, |_, key, value| {
        found.push((key, value));
        Ok(())
    })?;
    Ok(found)
}

/// The entries of a dict, which CPython reads without calling a method.
fn known_pairs(cx: &mut OpcodeExecutor<'_>, source: VarId) -> Flow<Option<Vec<(Rc<HashKey>, VarId)>>> {
    let source = plainly_iterated(cx, source)?.unwrap_or(source);
    let entries = of(cx, source)?;
    Ok(entries.map(|dict| dict.entries.iter().map(|entry| (Rc::clone(&entry.key), entry.value)).collect()))
}

/// Gives `take` the entries of another mapping, or of an iterable of pairs, each before the next one is asked for.
fn each_pair(
    cx: &mut OpcodeExecutor<'_>,
    source: VarId,
    mut take: impl FnMut(&mut OpcodeExecutor<'_>, Rc<HashKey>, VarId) -> Flow<()>,
) -> Flow<()> {
    if is_mapping(cx, source)? {
        let keys = cx.call_method(source, "keys", &[])?;
        return cx.each(keys, |cx, key| {
            let value = cx.get_item(source, key)?;
            let key = HashKey::of(cx, key)?;
            take(cx, key, value)
        });
    }
    let mut index = 0;
    cx.each(source, |cx, pair| {
        if !cx.has_special(pair, "__iter__")? && !cx.has_special(pair, "__getitem__")? {
            let text = format!("cannot convert dictionary update sequence element #{index} to a sequence");
            return Err(cx.raise(PyTypeError::new_err(text)));
        }
        let items = cx.unpack_all(pair)?;
        let [key, value] = items[..] else {
            let len = items.len();
            let text = format!("dictionary update sequence element #{index} has length {len}; 2 is required");
            return Err(cx.raise(PyValueError::new_err(text)));
        };
        index += 1;
        let key = HashKey::of(cx, key)?;
        take(cx, key, value)
    })
}

/// Whether the dict holds the global variables of some code.
fn is_namespace(dict: &Bound<'_, PyDict>) -> PyResult<bool> {
    dict.contains(intern!(dict.py(), "__builtins__"))
}

impl DictVariable {
    /// A dict of the trace with these entries.
    pub(crate) fn new(entries: Vec<Entry>, ordered: bool) -> Self {
        DictVariable { entries, ordered, outside: None }
    }

    /// A dict as `**kwargs` makes it.
    pub fn from_keywords(cx: &mut OpcodeExecutor<'_>, keywords: Vec<(Rc<str>, VarId)>) -> Flow<Rc<dyn Variable>> {
        let mut entries = Vec::with_capacity(keywords.len());
        for (name, value) in keywords {
            let key = cx.string(&name);
            entries.push(Entry { key: HashKey::of(cx, key)?, value });
        }
        Ok(Rc::new(DictVariable::new(entries, false)))
    }

    /// A dict display.
    pub fn build(cx: &mut OpcodeExecutor<'_>, items: Vec<(VarId, VarId)>) -> Flow<VarId> {
        let mut entries = Vec::with_capacity(items.len());
        for (key, value) in items {
            let key = HashKey::of(cx, key)?;
            put(cx, &mut entries, key, value)?;
        }
        Ok(cx.produce(Rc::new(DictVariable::new(entries, false))))
    }

    /// A copy of the same type, of which an object of a subclass is not asked.
    pub(crate) fn copy(&self, cx: &mut OpcodeExecutor<'_>) -> VarId {
        cx.produce(Rc::new(DictVariable::new(self.entries.clone(), self.ordered)))
    }

    /// The value under a key.
    pub fn find(&self, cx: &mut OpcodeExecutor<'_>, key: VarId) -> Flow<Option<VarId>> {
        let key = HashKey::of(cx, key)?;
        self.get(cx, &key)
    }

    /// The value under a key.
    pub(crate) fn get(&self, cx: &mut OpcodeExecutor<'_>, key: &HashKey) -> Flow<Option<VarId>> {
        Ok(find(cx, &self.entries, key)?.map(|at| self.entries[at].value))
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
        cx.refuse_changing_contents(of, "a dict")?;
        let (entries, ordered) = DictVariable::entries_of(cx, &dict, of)?;
        let outside = Outside::new(object, &entries);
        Ok(Rc::new(DictVariable { entries, ordered, outside }))
    }

    /// What is behind a proxy.
    pub(crate) fn behind(
        cx: &mut OpcodeExecutor<'_>,
        dict: &Bound<'_, PyDict>,
        proxy: &Bound<'_, PyAny>,
        of: TrackerId,
    ) -> Flow<DictVariable> {
        let dict = dict.clone().unbind().into_bound(cx.py);
        let (entries, ordered) = DictVariable::entries_of(cx, &dict, of)?;
        let outside = Outside::new(proxy.clone().unbind(), &entries);
        Ok(DictVariable { entries, ordered, outside })
    }

    fn entries_of<'py>(
        cx: &mut OpcodeExecutor<'py>,
        dict: &Bound<'py, PyDict>,
        of: TrackerId,
    ) -> Flow<(Vec<Entry>, bool)> {
        let mut entries = Vec::with_capacity(dict.len());
        // An OrderedDict keeps an order apart from the dict's. No method of a subclass is called.
        let ordered_type = ordered_type(cx.py)?;
        let ordered = dict.is_instance(&ordered_type)?;
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
        // The values by the places of the keys: hashing a key may run code.
        let values: Vec<_> = if ordered { Vec::new() } else { dict.values().iter().collect() };
        for (place, object) in keys.into_iter().enumerate() {
            let key = HashKey::found(cx, &object)?;
            let value = if ordered { dict.get_item(&object)? } else { values.get(place).cloned() };
            let value = value.ok_or_else(unfit)?;
            let tracker = cx.trackers.add(Tracker::Item { of, key: Key::of(&object) });
            let value = cx.wrap(&value, tracker);
            entries.push(Entry { key, value });
        }
        Ok((entries, ordered))
    }

    fn keys(&self) -> Vec<Rc<HashKey>> {
        self.entries.iter().map(|entry| Rc::clone(&entry.key)).collect()
    }

    fn equals(&self, cx: &mut OpcodeExecutor<'_>, other: &DictVariable) -> Flow<bool> {
        if self.entries.len() != other.entries.len() {
            return Ok(false);
        }
        for (position, entry) in self.entries.iter().enumerate() {
            let Some(at) = find(cx, &other.entries, &entry.key)? else { return Ok(false) };
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

    /// How the real dict becomes this one the way the program did it, which iterators over it can tell from a fresh start:
    /// the keys that go, and how many entries stay in front of those to be set. `None` if it must be filled anew.
    fn edits(&self, py: Python<'_>) -> Option<(Vec<Py<PyAny>>, usize)> {
        let outside = self.outside.as_ref()?;
        let object = outside.object.bind(py).clone();
        let had: HashSet<_> = outside.keys.iter().map(|key| key.bind(py).as_ptr()).collect();
        let ty = if self.ordered { ordered_type(py).ok()? } else { py.get_type::<PyDict>().into_any() };
        let (mut gone, mut kept) = (Vec::new(), 0);
        for key in ty.call_method1("__iter__", (object,)).ok()?.try_iter().ok()? {
            let key = key.ok()?;
            if self.entries.get(kept).is_some_and(|entry| entry.key.bind(py).is(&key)) {
                kept += 1;
            } else if !had.contains(&key.as_ptr()) {
                // Not the program's doing: it came while the trace was made, and stays.
            } else if key.is_exact_instance_of::<PyString>() || key.is_exact_instance_of::<PyInt>() {
                gone.push(key.unbind());
            } else {
                return None;
            }
        }
        Some((gone, kept))
    }

    /// Whether the value is still the one the real dict holds.
    fn is_original(cg: &CodeGen<'_, '_>, this: VarId, entry: &Entry) -> bool {
        let of = cg.cx.vars.tracker(this);
        let key = Key::of(entry.key.bind(cg.cx.py));
        *cg.cx.trackers.get(cg.cx.vars.tracker(entry.value)) == Tracker::Item { of, key }
    }
}

/// `collections.OrderedDict`
pub(crate) fn ordered_type(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    cpython::import(py, "collections")?.getattr("OrderedDict")
}

impl Variable for DictVariable {
    fn kind(&self) -> &'static str {
        "dict"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        let plain = cx.py.get_type::<PyDict>().into_any();
        if self.ordered {
            ordered_type(cx.py).unwrap_or(plain)
        } else {
            plain
        }
    }

    fn text(&self, _: &OpcodeExecutor<'_>) -> String {
        format!("DictVariable(len: {})", self.entries.len())
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.outside.as_ref().map(|outside| &outside.object)
    }

    fn materialize(&self, cx: &OpcodeExecutor<'_>) -> Option<Py<PyAny>> {
        if self.entries.iter().any(|entry| entry.key.is_stand_in()) {
            return None;
        }
        let dict = self.python_type(cx).call0().ok()?;
        for entry in &self.entries {
            let value = sequence::nested(|| cx.vars.get(entry.value).materialize(cx))??;
            dict.set_item(entry.key.bind(cx.py), value).ok()?;
        }
        Some(dict.unbind())
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        // The storage of an object of a subclass is guarded with that object's type.
        let ty = self.object().map_or_else(|| self.python_type(cx), |object| object.bind(cx.py).get_type().into_any());
        let tracker = cx.vars.tracker(this);
        cx.guards.add(tracker, Test::TypeIs(Identity::of(&ty)));
        let test = if self.ordered {
            IteratesOver::test(cx.py, &ty, &self.python_type(cx), &self.keys())?
        } else {
            Test::Keys(self.entries.iter().map(|entry| Key::of(entry.key.bind(cx.py))).collect())
        };
        cx.guards.add(tracker, test);
        Ok(())
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<GraphArgument> {
        if self.entries.iter().any(|entry| entry.key.is_stand_in()) {
            let text = "a dict with new objects as keys as an argument of a graph operation";
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
        }
        let dict = self.python_type(cx).call0()?;
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

    fn reconstruct(&self, cg: &mut CodeGen<'_, '_>, this: VarId) -> Flow<()> {
        hash_key::refuse_asking_again(cg.cx, self.entries.iter().map(|entry| &entry.key))?;
        if !self.ordered && cg.leaves_empty(this) {
            return cg.op("BUILD_MAP", 0);
        }
        if self.ordered {
            let pairs: Vec<VarId> =
                self.entries.iter().map(|entry| cg.cx.tuple(vec![entry.key.variable, entry.value])).collect();
            let pairs = cg.cx.tuple(pairs);
            let ty = ordered_type(cg.cx.py)?.unbind();
            return cg.call(|cg| cg.load_const(ty), &[pairs]);
        }
        for entry in &self.entries {
            cg.load(entry.key.variable)?;
            cg.load(entry.value)?;
        }
        cg.op("BUILD_MAP", self.entries.len() as u32)
    }

    fn restore_contents(&self, cg: &mut CodeGen<'_, '_>, this: VarId) -> Flow<()> {
        hash_key::refuse_asking_again(cg.cx, self.entries.iter().map(|entry| &entry.key))?;
        let edits = self.edits(cg.cx.py);
        let refill = edits.is_none();
        // The C methods: a subclass may have its own, which the trace has followed already.
        let ty = self.python_type(cg.cx);
        let is_subclass = self.object().is_some_and(|object| !object.bind(cg.cx.py).get_type().is(&ty));
        let (gone, kept) = edits.unwrap_or_else(|| (Vec::new(), 0));
        if refill {
            // CPython loses the entry it is setting if a key's method clears the dict, not if it takes the entries out.
            let held = self.object().map_or(Ok(usize::MAX), |object| object.bind(cg.cx.py).len())?;
            let one_by_one = held <= FEW && !(self.ordered && is_subclass);
            let (empty, times) = if one_by_one { ("popitem", held) } else { ("clear", 1) };
            let empty = ty.getattr(empty)?.unbind();
            for _ in 0..times {
                let empty = empty.clone_ref(cg.cx.py);
                cg.call(|cg| cg.load_const(empty), &[this])?;
                cg.op("POP_TOP", 0)?;
            }
        }
        for key in gone {
            let delete = ty.getattr("__delitem__")?.unbind();
            let key = cg.cx.constant(key);
            cg.call(|cg| cg.load_const(delete), &[this, key])?;
            cg.op("POP_TOP", 0)?;
        }
        for (position, entry) in self.entries.iter().enumerate() {
            if position < kept && Self::is_original(cg, this, entry) {
                continue;
            }
            if is_subclass {
                let set = ty.getattr("__setitem__")?.unbind();
                cg.call(|cg| cg.load_const(set), &[this, entry.key.variable, entry.value])?;
                cg.op("POP_TOP", 0)?;
                continue;
            }
            cg.load(entry.value)?;
            cg.load(this)?;
            cg.load(entry.key.variable)?;
            cg.op("STORE_SUBSCR", 0)?;
        }
        Ok(())
    }

    fn children(&self) -> Vec<VarId> {
        self.entries.iter().flat_map(|entry| [entry.key.variable, entry.value]).collect()
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, key: VarId) -> Flow<VarId> {
        let key = HashKey::of(cx, key)?;
        self.get(cx, &key)?.ok_or_else(|| key_error(cx, &key))
    }

    fn set_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId, value: VarId) -> Flow<()> {
        let key = HashKey::of(cx, key)?;
        let mut entries = self.entries.clone();
        put(cx, &mut entries, key, value)?;
        write(cx, this, entries)
    }

    fn del_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<()> {
        let key = HashKey::of(cx, key)?;
        let Some(at) = find(cx, &self.entries, &key)? else { return Err(key_error(cx, &key)) };
        let mut entries = self.entries.clone();
        entries.remove(at);
        write(cx, this, entries)
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        DictIterator::over(cx, this, View::Keys, false)
    }

    fn items(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<Option<Vec<VarId>>> {
        Ok(Some(self.entries.iter().map(|entry| entry.key.variable).collect()))
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        cx.integer(self.entries.len() as i64)
    }

    fn truth(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        Ok(!self.entries.is_empty())
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, item: VarId) -> Flow<VarId> {
        let key = HashKey::of(cx, item)?;
        let found = find(cx, &self.entries, &key)?.is_some();
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
        let has_union = cx.py.get_type::<PyDict>().hasattr("__or__")?;
        if op != BinaryOp::Or || reflected || !has_union || of(cx, other)?.is_none() {
            return Ok(None);
        }
        let ordered = self.ordered || of(cx, other)?.is_some_and(|other| other.ordered);
        let copy = copied(cx, this, ordered)?;
        let other = subclass::owner_of(cx, other);
        update(cx, copy, other)?;
        Ok(Some(copy))
    }

    fn inplace(&self, cx: &mut OpcodeExecutor<'_>, op: BinaryOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        if op != BinaryOp::Or || !cx.py.get_type::<PyDict>().hasattr("__ior__")? {
            return Ok(None);
        }
        let other = subclass::owner_of(cx, other);
        update(cx, this, other)?;
        Ok(Some(this))
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, _: VarId, other: VarId) -> Flow<Option<VarId>> {
        if !matches!(op, CompareOp::Equal | CompareOp::NotEqual) {
            return Ok(None);
        }
        let other = subclass::seen_by_base(cx, other)?;
        let Some(right) = of(cx, other)? else { return Ok(None) };
        let equal = self.equals(cx, &right)?;
        Ok(Some(cx.boolean(equal == (op == CompareOp::Equal))))
    }
}

/// A pair as `items()` gives it.
pub(crate) fn pair(cx: &mut OpcodeExecutor<'_>, entry: &Entry) -> VarId {
    cx.tuple(vec![entry.key.variable, entry.value])
}

/// `KeyError(text)`
pub(crate) fn empty_error(cx: &mut OpcodeExecutor<'_>, text: &str) -> Unwind {
    cx.raise(PyKeyError::new_err(text.to_owned()))
}
