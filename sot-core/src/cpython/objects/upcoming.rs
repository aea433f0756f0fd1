//! Items that an iterator implemented in C will yield. The iterator is not advanced: its state is read from its
//! struct, or by `__reduce__`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet, PyInt, PyList, PyRange, PySet, PyString, PyTuple, PyType};

use crate::cpython::objects::sequence_iterator::{upcoming_backwards, upcoming_item, upcoming_number};
use crate::cpython::{builtin, held_objects, import, is_heap_type};

/// Result of a step of an iterator.
pub enum Upcoming<'py> {
    /// An item. If the iterator builds tuples, the tuple is a new one each time.
    Item(Bound<'py, PyAny>),
    /// The iterator is exhausted.
    End,
}

/// Maximum number of keys of a dict or set whose iterators are examined. Each step of such an iterator lists all keys
/// that are left.
const MAX_KEYS: usize = 2_000;

/// The supported types: `enumerate` and `zip`, iterators over dicts, sets, lists, tuples, ranges and texts, and
/// `reversed()` of lists and tuples.
pub fn iterator_types(py: Python<'_>) -> PyResult<&'static [Py<PyType>]> {
    static TYPES: PyOnceLock<Vec<Py<PyType>>> = PyOnceLock::new();
    let types = TYPES.get_or_try_init(py, || {
        let type_of = |iterable: &Bound<'_, PyAny>| PyResult::Ok(iterable.try_iter()?.get_type().unbind());
        let type_named = |name| PyResult::Ok(builtin(py, name)?.cast_into::<PyType>()?.unbind());
        let mut types = vec![
            type_named("enumerate")?,
            type_named("zip")?,
            type_of(PyDict::new(py).as_any())?,
            type_of(&PyDict::new(py).call_method0("values")?)?,
            type_of(&PyDict::new(py).call_method0("items")?)?,
            type_of(PySet::empty(py)?.as_any())?,
            type_of(&import(py, "collections")?.getattr("OrderedDict")?.call0()?)?,
            type_of(PyList::empty(py).as_any())?,
            type_of(PyTuple::empty(py).as_any())?,
            type_of(PyRange::new(py, 0, 0)?.as_any())?,
            builtin(py, "reversed")?.call1((PyList::empty(py),))?.get_type().unbind(),
            type_named("reversed")?,
            type_of(PyBytes::new(py, b"").as_any())?,
            type_of(PyString::new(py, "").as_any())?,
        ];
        // From 3.12 on, ASCII texts have an iterator type of their own.
        let of_texts = type_of(PyString::new(py, "\u{e9}").as_any())?;
        if types.iter().all(|known| !known.is(&of_texts)) {
            types.push(of_texts);
        }
        PyResult::Ok(types)
    })?;
    Ok(types)
}

#[derive(PartialEq, Eq)]
enum Kind {
    /// Over a list or tuple.
    Items,
    Range,
    /// Over a list or tuple from the end.
    Backwards,
    /// Over a text or bytes.
    Text,
    Enumerate,
    Zip,
    /// Over a dict or set: all keys that are left have to be listed.
    Keys,
}

fn kind(iterator: &Bound<'_, PyAny>) -> Option<Kind> {
    let ty = iterator.get_type();
    match iterator_types(iterator.py()).ok()?.iter().position(|known| known.is(&ty))? {
        0 => Some(Kind::Enumerate),
        1 => Some(Kind::Zip),
        2..=6 => Some(Kind::Keys),
        7 | 8 => Some(Kind::Items),
        9 => Some(Kind::Range),
        10 | 11 => Some(Kind::Backwards),
        _ => Some(Kind::Text),
    }
}

/// Returns the item that the iterator yields after this many more steps, if it can be found out. No method of the
/// program's is called.
pub fn upcoming<'py>(iterator: &Bound<'py, PyAny>, after: usize) -> Option<Upcoming<'py>> {
    match kind(iterator)? {
        // SAFETY: `kind` has found that the iterator is of exactly a type with the layout that the function reads.
        Kind::Items => Some(unsafe { upcoming_item(iterator, after) }),
        // SAFETY: as above.
        Kind::Range => Some(unsafe { upcoming_number(iterator, after) }),
        // SAFETY: as above.
        Kind::Backwards => unsafe { upcoming_backwards(iterator, after) },
        Kind::Text => {
            let (of, state) = reduced(iterator)?;
            let text = of.get_item(0).ok()?;
            // `__reduce__` of an exhausted iterator has an empty text or tuple.
            let exact = text.is_exact_instance_of::<PyString>() || text.is_exact_instance_of::<PyBytes>();
            let index = state.and_then(|state| state.extract::<usize>().ok()).unwrap_or(0).checked_add(after)?;
            (exact || text.is_exact_instance_of::<PyTuple>())
                .then(|| text.get_item(index).map_or(Upcoming::End, Upcoming::Item))
        }
        Kind::Keys if !may_list(iterator)? => None,
        Kind::Keys => {
            let left = reduced(iterator)?.0.get_item(0).ok()?.cast_into::<PyList>().ok()?;
            Some(left.get_item(after).map_or(Upcoming::End, Upcoming::Item))
        }
        Kind::Enumerate => {
            let of = reduced(iterator)?.0;
            let number = of.get_item(1).ok()?.cast_into_exact::<PyInt>().ok()?.add(after).ok()?;
            match upcoming(&of.get_item(0).ok()?, after)? {
                Upcoming::Item(item) => {
                    Some(Upcoming::Item(PyTuple::new(iterator.py(), [number, item]).ok()?.into_any()))
                }
                Upcoming::End => Some(Upcoming::End),
            }
        }
        Kind::Zip => {
            let (of, strict) = reduced(iterator)?;
            // A strict `zip` may raise where it ends.
            if strict.is_some() || of.is_empty() {
                return None;
            }
            let mut items = Vec::with_capacity(of.len());
            for inner in of.iter() {
                match upcoming(&inner, after)? {
                    Upcoming::Item(item) => items.push(item),
                    Upcoming::End => return Some(Upcoming::End),
                }
            }
            Some(Upcoming::Item(PyTuple::new(iterator.py(), items).ok()?.into_any()))
        }
    }
}

/// Returns the iterables that the iterator goes over: a sequence, or other iterators.
pub fn iterated<'py>(iterator: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    let kind = kind(iterator)?;
    if kind == Kind::Keys {
        return Some(keyed(iterator)?.into_iter().collect());
    }
    let (of, _) = reduced(iterator)?;
    let count = if kind == Kind::Zip { of.len() } else { 1 };
    Some(of.iter().take(count).collect())
}

/// The dict or set that an iterator goes over; the inner `None` if the iterator is exhausted.
#[allow(clippy::option_option, reason = "cannot tell and none are two answers")]
fn keyed<'py>(iterator: &Bound<'py, PyAny>) -> Option<Option<Bound<'py, PyAny>>> {
    let is_keyed =
        |held: &Bound<'_, PyAny>| held.is_instance_of::<PyDict>() || held.is_instance_of::<PySet>() || is_frozen(held);
    Some(held_objects(iterator, usize::MAX).into_iter().find(is_keyed))
}

fn is_frozen(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyFrozenSet>()
}

/// True if listing the remaining keys runs no code of the program's, and is cheap.
fn may_list(iterator: &Bound<'_, PyAny>) -> Option<bool> {
    let Some(keyed) = keyed(iterator)? else { return Some(true) };
    let Ok(dict) = keyed.cast::<PyDict>() else { return Some(keyed.len().ok()? <= MAX_KEYS) };
    // An `OrderedDict` hashes and compares its keys.
    let looks_up = !keyed.is_exact_instance_of::<PyDict>();
    let plain = |ty: &Bound<'_, PyType>| !is_heap_type(ty);
    let known = !looks_up || plain(&keyed.get_type()) && dict.iter().all(|(key, _)| plain(&key.get_type()));
    Some(dict.len() <= MAX_KEYS && known)
}

/// The arguments and the state of which `__reduce__` would rebuild the iterator.
fn reduced<'py>(iterator: &Bound<'py, PyAny>) -> Option<(Bound<'py, PyTuple>, Option<Bound<'py, PyAny>>)> {
    let reduced = iterator.call_method0(intern!(iterator.py(), "__reduce__")).ok()?.cast_into::<PyTuple>().ok()?;
    Some((reduced.get_item(1).ok()?.cast_into().ok()?, reduced.get_item(2).ok()))
}
