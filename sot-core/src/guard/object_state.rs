//! The contents of an object in depth. A function that becomes one statement of a graph without being traced may read
//! anything of its arguments, so their contents are guarded.

use pyo3::exceptions::PyBaseException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBytes, PyDict, PyFrozenSet, PyFunction, PyList, PyMemoryView, PyModule, PySet, PyString, PyTuple, PyType,
};
use rustc_hash::FxHashSet;

use super::constants::same_constant;
use super::{Identity, ObjectTest};
use crate::cpython::{self, DescriptorKind};
use crate::policy::{MAX_STATE_BYTES, MAX_STATE_PARTS};
use crate::tracker;

/// Passes for an object with equal contents. Containers, arrays and instances are compared in depth, atoms by value,
/// and all other objects by identity. The walk stops at opaque objects such as tensors, which are inputs or parameters
/// of the graph themselves.
pub struct ObjectState {
    root: StatePart,
}

/// What the framework says about objects whose contents are compared.
pub struct StateOfFramework<'a> {
    /// True for an object that is not looked into.
    pub is_opaque: &'a dyn Fn(&Bound<'_, PyAny>) -> bool,
    /// Returns the names of the attributes in which the framework notes what it has prepared for calls of an object.
    /// They are not compared.
    pub notes: &'a dyn Fn(&Bound<'_, PyAny>) -> &'static [&'static str],
    /// True for a model of a class of the framework, which may set attributes when it is called for the first time.
    pub is_own_model: &'a dyn Fn(&Bound<'_, PyAny>) -> bool,
}

enum StatePart {
    /// Compared by value.
    Atom(Py<PyAny>),
    /// Compared by identity.
    Opaque(Identity),
    /// Compared by what it holds.
    Holder(Box<HolderState>),
}

/// What a container or an instance holds.
struct HolderState {
    /// The object, if it is compared by identity, too.
    object: Option<Identity>,
    class: Identity,
    /// The items of a container; of a dict, keys and values in turn.
    items: Option<Vec<StatePart>>,
    /// The contents of an array of numbers, and their form.
    bytes: Option<Bytes>,
    attributes: Option<Vec<(StatePart, StatePart)>>,
    /// Attributes that are not compared.
    notes: &'static [&'static str],
    is_own_model: bool,
    /// The contents of the slots, with their descriptors. A slot without a value holds its descriptor.
    slots: Vec<(Py<PyAny>, StatePart)>,
}

#[derive(PartialEq)]
struct Bytes {
    form: String,
    contents: Vec<u8>,
}

/// A part that differs: its path from the object, its present value, and its earlier value.
struct Difference {
    /// The steps from the object, the last one first.
    path: Vec<String>,
    now: String,
    then: String,
}

impl ObjectState {
    /// Returns the present contents of the object, and the addresses of all objects looked into. Returns `None` if
    /// the contents are too large to be compared at each call.
    pub fn of(
        object: &Bound<'_, PyAny>,
        framework: &StateOfFramework<'_>,
    ) -> PyResult<Option<(ObjectState, FxHashSet<usize>)>> {
        let mut look = StateWalk {
            framework,
            seen: FxHashSet::default(),
            parts_left: MAX_STATE_PARTS,
            bytes_left: MAX_STATE_BYTES,
        };
        let root = look.at(object)?;
        Ok(root.map(|root| (ObjectState { root }, look.seen)))
    }

    /// True if the object differs, and only in values that models of the framework hold as attributes: they were
    /// called for the first time.
    pub fn was_prepared(&self, object: &Bound<'_, PyAny>) -> bool {
        !self.check(object) && self.root.difference(object, Strictness::PreparedModels).is_none()
    }
}

/// Which differences count.
#[derive(Clone, Copy, PartialEq)]
enum Strictness {
    All,
    /// Not those of constants in attributes of the framework's models.
    PreparedModels,
}

/// A walk through the contents of an object.
struct StateWalk<'a> {
    framework: &'a StateOfFramework<'a>,
    seen: FxHashSet<usize>,
    parts_left: usize,
    bytes_left: usize,
}

impl StateWalk<'_> {
    /// Returns the state of an object; `None` if it holds too much.
    fn at(&mut self, object: &Bound<'_, PyAny>) -> PyResult<Option<StatePart>> {
        if self.parts_left == 0 || !cpython::has_stack_to_go_on() {
            return Ok(None);
        }
        self.parts_left -= 1;
        if cpython::is_atom(object) {
            return Ok(Some(StatePart::Atom(object.clone().unbind())));
        }
        // An object met for the second time is compared in depth where it was met first.
        if (self.framework.is_opaque)(object) || is_code(object) || !self.seen.insert(object.as_ptr() as usize) {
            return Ok(Some(StatePart::Opaque(Identity::of(object))));
        }
        self.holder(object)
    }

    fn holder(&mut self, object: &Bound<'_, PyAny>) -> PyResult<Option<StatePart>> {
        let class = object.get_type();
        let (items, bytes, dict) = (items(object)?, bytes(object)?, cpython::instance_dict(object));
        let slots = cpython::slots_of(&class)?;
        let is_container = items.is_some() || bytes.is_some();
        if !is_container && dict.is_none() && slots.is_empty() {
            return Ok(Some(StatePart::Opaque(Identity::of(object))));
        }
        if let Some(bytes) = &bytes {
            let Some(left) = self.bytes_left.checked_sub(bytes.contents.len()) else { return Ok(None) };
            self.bytes_left = left;
        }
        let notes = (self.framework.notes)(object);
        let items = match items {
            Some(items) => match self.all(items)? {
                None => return Ok(None),
                parts => parts,
            },
            None => None,
        };
        let mut attributes = Vec::new();
        for (name, value) in dict.iter().flat_map(|dict| entries(dict, notes)) {
            let (Some(name), Some(value)) = (self.at(&name)?, self.at(&value)?) else { return Ok(None) };
            attributes.push((name, value));
        }
        let mut in_slots = Vec::new();
        for slot in slots {
            let Some(value) = self.at(&cpython::slot_value(&slot, object)?)? else { return Ok(None) };
            in_slots.push((slot.unbind(), value));
        }
        Ok(Some(StatePart::Holder(Box::new(HolderState {
            object: (!is_container).then(|| Identity::of(object)),
            class: Identity::of(class.as_any()),
            items,
            bytes,
            attributes: dict.map(|_| attributes),
            notes,
            is_own_model: (self.framework.is_own_model)(object),
            slots: in_slots,
        }))))
    }

    fn all(&mut self, objects: Vec<Bound<'_, PyAny>>) -> PyResult<Option<Vec<StatePart>>> {
        let mut parts = Vec::new();
        for object in objects {
            let Some(part) = self.at(&object)? else { return Ok(None) };
            parts.push(part);
        }
        Ok(Some(parts))
    }
}

/// True for functions, classes and modules: what they hold is not counted as contents of a function's arguments.
fn is_code(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyType>() || object.is_instance_of::<PyModule>() || object.is_instance_of::<PyFunction>()
}

fn entries<'py>(
    dict: &Bound<'py, PyDict>,
    notes: &'static [&'static str],
) -> impl Iterator<Item = (Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    dict.iter().filter(|(name, _)| !is_note(name, notes))
}

fn is_note(name: &Bound<'_, PyAny>, notes: &[&str]) -> bool {
    !notes.is_empty() && name.cast::<PyString>().is_ok_and(|name| notes.iter().any(|note| name == note))
}

/// Returns what a container holds, or an object of C that holds others without having attributes for them all.
fn items<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    let py = object.py();
    if let Ok(list) = object.cast::<PyList>() {
        return Ok(Some(list.iter().collect()));
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return Ok(Some(tuple.iter().collect()));
    }
    if let Ok(dict) = object.cast::<PyDict>() {
        return entries_of(dict).map(Some);
    }
    if let Ok(set) = object.cast::<PySet>() {
        return Ok(Some(set.iter().collect()));
    }
    if let Ok(set) = object.cast::<PyFrozenSet>() {
        return Ok(Some(set.iter().collect()));
    }
    let deque = cpython::import(py, "collections")?.getattr(intern!(py, "deque"))?.cast_into::<PyType>()?;
    if cpython::is_subtype(&object.get_type(), &deque) {
        let items = deque.call_method1(intern!(py, "__iter__"), (object,))?.try_iter()?;
        let maxlen = deque.getattr(intern!(py, "maxlen"))?.call_method1(intern!(py, "__get__"), (object,))?;
        return Ok(Some(items.chain([Ok(maxlen)]).collect::<PyResult<_>>()?));
    }
    let is_wrapper = matches!(cpython::builtin_type_name(object), "mappingproxy" | "method" | "cell");
    if is_wrapper || object.is_instance_of::<PyBaseException>() || is_partial(object)? {
        return Ok(Some(cpython::held_objects(object, usize::MAX)));
    }
    objects_in_array(object)
}

/// Returns the items of an array of numpy whose items are objects.
fn objects_in_array<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    let (py, class) = (object.py(), object.get_type());
    if !cpython::has_buffer(&class) || !is_by_c(&class, "__buffer__") {
        return Ok(None);
    }
    let Ok(view) = PyMemoryView::from(object) else { return Ok(None) };
    if view.getattr(intern!(py, "format"))?.ne("O")? || !is_by_c(&class, "tolist") || !is_by_c(&class, "ravel") {
        return Ok(None);
    }
    let items = object.call_method0(intern!(py, "ravel"))?.call_method0(intern!(py, "tolist"))?;
    Ok(items.cast_into::<PyList>().ok().map(|items| items.iter().collect()))
}

/// True if the class has no attribute of this name, or a method in C.
fn is_by_c(class: &Bound<'_, PyType>, name: &str) -> bool {
    let found = cpython::type_lookup(class, &PyString::intern(class.py(), name));
    found.is_none_or(|found| DescriptorKind::of(&found).is_c_method())
}

/// Returns keys and values of a dict in turn, in its order.
fn entries_of<'py>(dict: &Bound<'py, PyDict>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = dict.py();
    let ordered = cpython::import(py, "collections")?.getattr(intern!(py, "OrderedDict"))?.cast_into::<PyType>()?;
    if !cpython::is_subtype(&dict.get_type(), &ordered) {
        return Ok(dict.iter().flat_map(|(key, value)| [key, value]).collect());
    }
    // The order of an ordered dict is not that of its entries as a dict.
    let keys = ordered.call_method1(intern!(py, "__iter__"), (dict,))?.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let mut all = Vec::new();
    for key in keys {
        let value = dict.get_item(&key)?;
        all.push(key);
        all.extend(value);
    }
    Ok(all)
}

fn is_partial(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let partial = cpython::import(object.py(), "functools")?.getattr("partial")?.cast_into::<PyType>()?;
    Ok(cpython::is_subtype(&object.get_type(), &partial))
}

/// Returns the contents of an array of numbers, such as a `bytearray`.
fn bytes(object: &Bound<'_, PyAny>) -> PyResult<Option<Bytes>> {
    let py = object.py();
    let class = object.get_type();
    if !cpython::has_buffer(&class) || !is_by_c(&class, "__buffer__") {
        return Ok(None);
    }
    let contents = |array: &Bound<'_, PyAny>| -> PyResult<Vec<u8>> {
        let bytes = array.call_method0(intern!(py, "tobytes"))?;
        Ok(bytes.cast::<PyBytes>()?.as_bytes().to_vec())
    };
    if let Ok(view) = PyMemoryView::from(object) {
        let form = format!("{}{}", view.getattr(intern!(py, "format"))?, view.getattr(intern!(py, "shape"))?);
        return Ok(Some(Bytes { form, contents: contents(view.as_any())? }));
    }
    // numpy gives no view of some types of elements, such as times.
    if !is_by_c(&class, "tobytes")
        || !object.hasattr(intern!(py, "tobytes"))?
        || !object.hasattr(intern!(py, "dtype"))?
    {
        return Ok(None);
    }
    let form = format!("{}{}", object.getattr(intern!(py, "dtype"))?, object.getattr(intern!(py, "shape"))?);
    Ok(Some(Bytes { form, contents: contents(object)? }))
}

impl StatePart {
    /// Returns how the object differs from the state; `None` if it does not.
    fn difference(&self, object: &Bound<'_, PyAny>, strictness: Strictness) -> Option<Difference> {
        let py = object.py();
        let differs = |then: Option<Bound<'_, PyAny>>| {
            let show = |object: &Bound<'_, PyAny>| tracker::repr(py, object.as_unbound());
            let then = then.map_or_else(|| "an object that is gone".to_owned(), |then| show(&then));
            Some(Difference { path: Vec::new(), now: show(object), then })
        };
        match self {
            StatePart::Atom(value) => {
                let value = value.bind(py);
                let is_same = value.is(object) || cpython::is_atom(object) && same_constant(value, object);
                if is_same {
                    None
                } else {
                    differs(Some(value.clone()))
                }
            }
            StatePart::Opaque(identity) if identity.is(object) => None,
            StatePart::Opaque(identity) => differs(identity.get(py)),
            StatePart::Holder(state) => match &state.object {
                Some(identity) if !identity.is(object) => differs(identity.get(py)),
                _ => state.difference(object, strictness),
            },
        }
    }

    /// The part as text, if it is a name or a number.
    fn key_text(&self, py: Python<'_>) -> String {
        match self {
            StatePart::Atom(value) => tracker::repr(py, value),
            _ => "...".to_owned(),
        }
    }
}

impl HolderState {
    fn difference(&self, object: &Bound<'_, PyAny>, strictness: Strictness) -> Option<Difference> {
        let py = object.py();
        if !self.class.is_type_of(object) {
            let then = self.class.get(py).map_or_else(|| "another class".to_owned(), |class| tracker::name(&class));
            let now = format!("a {}", tracker::name(object.get_type().as_any()));
            return Some(Difference { path: Vec::new(), now, then: format!("a {then}") });
        }
        // What cannot be read is no longer what it was.
        self.difference_of_contents(object, strictness)
            .unwrap_or_else(|error| Some(Difference::plain(&error.to_string(), "")))
    }

    fn difference_of_contents(
        &self,
        object: &Bound<'_, PyAny>,
        strictness: Strictness,
    ) -> PyResult<Option<Difference>> {
        let py = object.py();
        if let Some(parts) = &self.items {
            let found = difference_of_items(parts, &items(object)?.unwrap_or_default(), object, strictness);
            if found.is_some() {
                return Ok(found);
            }
        }
        if self.bytes.is_some() && bytes(object)? != self.bytes {
            return Ok(Some(Difference::plain(&tracker::repr(py, object.as_unbound()), "other contents")));
        }
        if let Some(attributes) = &self.attributes {
            let found = cpython::instance_dict(object)
                .and_then(|dict| self.difference_of_attributes(attributes, &dict, strictness));
            if found.is_some() {
                return Ok(found);
            }
        }
        for (slot, part) in &self.slots {
            let slot = slot.bind(py);
            if let Some(difference) = part.difference(&cpython::slot_value(slot, object)?, strictness) {
                return Ok(Some(difference.within(format!(".{}", slot.getattr(intern!(py, "__name__"))?))));
            }
        }
        Ok(None)
    }

    fn difference_of_attributes(
        &self,
        attributes: &[(StatePart, StatePart)],
        dict: &Bound<'_, PyDict>,
        strictness: Strictness,
    ) -> Option<Difference> {
        let mut now = entries(dict, self.notes);
        for (name, value) in attributes {
            let step = || format!(".{}", name.key_text(dict.py()).trim_matches('\''));
            let Some((now_name, now)) = now.next() else {
                return Some(Difference::plain("absent", "there").within(step()));
            };
            if let Some(difference) = name.difference(&now_name, strictness) {
                return Some(difference.within(".__dict__.keys()".to_owned()));
            }
            let is_prepared = self.is_own_model && strictness == Strictness::PreparedModels;
            if is_prepared && matches!(value, StatePart::Atom(_)) && cpython::is_atom(&now) {
                continue;
            }
            if let Some(difference) = value.difference(&now, strictness) {
                return Some(difference.within(step()));
            }
        }
        now.next().map(|(name, _)| Difference::plain("there", "absent").within(format!(".{name}")))
    }
}

fn difference_of_items(
    parts: &[StatePart],
    items: &[Bound<'_, PyAny>],
    holder: &Bound<'_, PyAny>,
    strictness: Strictness,
) -> Option<Difference> {
    let is_dict = holder.is_instance_of::<PyDict>();
    for (index, (part, item)) in parts.iter().zip(items).enumerate() {
        let step = || match (is_dict, index % 2) {
            (true, 0) => ".keys()".to_owned(),
            (true, _) => format!("[{}]", parts[index - 1].key_text(holder.py())),
            (false, _) => format!("[{index}]"),
        };
        if let Some(difference) = part.difference(item, strictness) {
            return Some(difference.within(step()));
        }
    }
    let per_item = if is_dict { 2 } else { 1 };
    let text = |count: usize| format!("of length {}", count / per_item);
    (parts.len() != items.len()).then(|| Difference::plain(&text(items.len()), &text(parts.len())))
}

impl Difference {
    fn plain(now: &str, then: &str) -> Difference {
        Difference { path: Vec::new(), now: now.to_owned(), then: then.to_owned() }
    }

    fn within(mut self, step: String) -> Difference {
        self.path.push(step);
        self
    }

    fn text(self) -> String {
        let path: String = self.path.into_iter().rev().collect();
        let now = if path.is_empty() { self.now } else { format!("{path} is {}", self.now) };
        format!("{now}, and was {}", self.then)
    }
}

impl ObjectTest for ObjectState {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        self.root.difference(object, Strictness::All).is_none()
    }

    fn seen(&self, object: &Bound<'_, PyAny>) -> Option<String> {
        self.root.difference(object, Strictness::All).map(Difference::text)
    }

    fn describe(&self, subject: &str) -> String {
        format!("{subject} holds what it held")
    }
}
