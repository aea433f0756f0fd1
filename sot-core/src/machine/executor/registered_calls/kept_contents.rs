//! Copies of the contents of containers and instances that a function can reach other than through its arguments. They
//! are taken before the function is called during tracing. If the call changes such contents, they are restored
//! afterwards, because the program will make the same call and change them itself.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PySet, PySlice, PyType};
use rustc_hash::FxHashSet;

use crate::cpython;

/// The containers found so far, with their contents.
#[derive(Default)]
pub(super) struct KeptContents<'py> {
    all: Vec<Kept<'py>>,
    known: FxHashSet<usize>,
}

struct Kept<'py> {
    container: Container<'py>,
    /// The items; of a dict, keys and values in turn.
    items: Vec<Bound<'py, PyAny>>,
    place: String,
}

enum Container<'py> {
    List(Bound<'py, PyList>),
    Set(Bound<'py, PySet>),
    Dict(Bound<'py, PyDict>),
    Bytes(Bound<'py, PyByteArray>),
    /// A deque or an ordered dict, which are changed by their own methods only.
    Other(Bound<'py, PyAny>),
    /// An instance with the descriptors of its slots (`__slots__`). A slot without a value holds its descriptor.
    Slots(Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>),
}

impl<'py> KeptContents<'py> {
    /// Keeps what the object holds, if it is a list, dict, set, deque or bytearray, and what is in its slots. `place`
    /// says where it was found.
    pub(super) fn keep(&mut self, object: &Bound<'py, PyAny>, place: &str) -> PyResult<()> {
        if !self.known.insert(object.as_ptr() as usize) {
            return Ok(());
        }
        for container in [Container::of(object)?, slots(object)?].into_iter().flatten() {
            let items = container.items()?;
            self.all.push(Kept { container, items, place: place.to_owned() });
        }
        Ok(())
    }

    /// The addresses of the objects found so far.
    pub(super) fn addresses(&self) -> &FxHashSet<usize> {
        &self.known
    }

    /// Puts back what has changed. Returns the place of a changed container.
    pub(super) fn restore(self) -> PyResult<Option<String>> {
        let mut changed = None;
        for kept in self.all {
            let now = kept.container.items()?;
            let is_same = now.len() == kept.items.len() && now.iter().zip(&kept.items).all(|(now, old)| now.is(old));
            if !is_same {
                kept.container.set(kept.items)?;
                changed = Some(kept.place);
            }
        }
        Ok(changed)
    }
}

impl<'py> Container<'py> {
    fn of(object: &Bound<'py, PyAny>) -> PyResult<Option<Container<'py>>> {
        if let Ok(list) = object.cast::<PyList>() {
            return Ok(Some(Container::List(list.clone())));
        }
        if let Ok(set) = object.cast::<PySet>() {
            return Ok(Some(Container::Set(set.clone())));
        }
        if let Ok(bytes) = object.cast::<PyByteArray>() {
            return Ok(Some(Container::Bytes(bytes.clone())));
        }
        let (class, collections) = (object.get_type(), cpython::import(object.py(), "collections")?);
        let ordered = collections.getattr(intern!(object.py(), "OrderedDict"))?.cast_into::<PyType>()?;
        if class.is(&ordered) || class.is(&collections.getattr(intern!(object.py(), "deque"))?) {
            return Ok(Some(Container::Other(object.clone())));
        }
        let dict = object.cast::<PyDict>().ok().filter(|_| !cpython::is_subtype(&class, &ordered));
        Ok(dict.map(|dict| Container::Dict(dict.clone())))
    }

    fn items(&self) -> PyResult<Vec<Bound<'py, PyAny>>> {
        match self {
            Container::List(list) => Ok(list.iter().collect()),
            Container::Set(set) => Ok(set.iter().collect()),
            Container::Dict(dict) => Ok(dict.iter().flat_map(|(key, value)| [key, value]).collect()),
            Container::Bytes(bytes) => bytes.as_any().try_iter()?.collect(),
            Container::Slots(object, slots) => slots.iter().map(|slot| cpython::slot_value(slot, object)).collect(),
            Container::Other(object) => match object.cast::<PyDict>() {
                Ok(_) => object
                    .call_method0(intern!(object.py(), "items"))?
                    .try_iter()?
                    .map(|pair| pair?.extract::<[Bound<'py, PyAny>; 2]>())
                    .collect::<PyResult<Vec<_>>>()
                    .map(|pairs| pairs.into_iter().flatten().collect()),
                Err(_) => object.try_iter()?.collect(),
            },
        }
    }

    fn set(&self, items: Vec<Bound<'py, PyAny>>) -> PyResult<()> {
        match self {
            Container::List(list) => list.set_slice(0, list.len(), PyList::new(list.py(), items)?.as_any()),
            Container::Set(set) => {
                set.clear();
                items.into_iter().try_for_each(|item| set.add(item))
            }
            Container::Dict(dict) => {
                dict.clear();
                items.chunks_exact(2).try_for_each(|pair| dict.set_item(&pair[0], &pair[1]))
            }
            Container::Bytes(bytes) => {
                let before = items.iter().map(PyAnyMethods::extract::<u8>).collect::<PyResult<Vec<_>>>()?;
                let all = PySlice::full(bytes.py());
                bytes.as_any().set_item(all, PyBytes::new(bytes.py(), &before))
            }
            Container::Slots(object, slots) => slots.iter().zip(&items).try_for_each(|(slot, value)| {
                if !value.is(slot) {
                    return slot.call_method1(intern!(slot.py(), "__set__"), (object, value)).map(drop);
                }
                if cpython::slot_value(slot, object)?.is(slot) {
                    return Ok(());
                }
                slot.call_method1(intern!(slot.py(), "__delete__"), (object,)).map(drop)
            }),
            Container::Other(object) => {
                object.call_method0(intern!(object.py(), "clear"))?;
                if object.is_instance_of::<PyDict>() {
                    return items.chunks_exact(2).try_for_each(|pair| object.set_item(&pair[0], &pair[1]));
                }
                object.call_method1(intern!(object.py(), "extend"), (items,)).map(drop)
            }
        }
    }
}

/// Returns the slots of an instance, if its class or a base of the class has `__slots__`.
fn slots<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Container<'py>>> {
    let found = cpython::slots_of(&object.get_type())?;
    Ok((!found.is_empty()).then(|| Container::Slots(object.clone(), found)))
}
