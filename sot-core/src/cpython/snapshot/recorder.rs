//! Records the memory that guards depend on.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyList, PySet, PyString, PyTuple, PyType};
use rustc_hash::FxHashSet;

use super::layout::{dict_pointer, has_string_keys, version_tells, Method, OrderedDict, ORDERED_DICT, VALID_VERSION};
use super::{lookup_address, DictItem, EmbeddedPlace, Place, Probe, Reading, Snapshot};
use crate::cpython;
use crate::cpython::objects::embedded::{ArrayField, Embedded, EmbeddedNumber};
use crate::cpython::objects::part::Part;
use crate::cpython::objects::type_::type_lookup;
use crate::cpython::objects::weak::WeakRef;

/// Records memory for a snapshot. A method that returns `None` or `false` cannot find the answer in memory; nothing
/// it has recorded does harm.
#[derive(Debug, Default)]
pub struct Recorder {
    roots: Vec<usize>,
    probes: Vec<Probe>,
    items: Vec<DictItem>,
    known: FxHashSet<Probe>,
    wanted: Vec<usize>,
    kept: Vec<Py<PyAny>>,
}

impl Recorder {
    /// Number of probes so far, which identifies the probe that changed.
    pub fn len(&self) -> usize {
        self.probes.len()
    }

    /// True if there are no probes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finishes the snapshot.
    pub fn finish(self) -> Snapshot {
        let Recorder { roots, probes, items, wanted, kept, known: _ } = self;
        Snapshot { roots, probes, items, wanted, _kept: kept }
    }

    /// Adds a root, which the caller passes again at each check.
    pub fn root<'py>(&mut self, object: &Bound<'py, PyAny>) -> Place<'py> {
        self.roots.push(object.as_ptr() as usize);
        Place::of(object.clone())
    }

    /// Adds an object that the snapshot keeps alive.
    pub fn keep<'py>(&mut self, object: &Bound<'py, PyAny>) -> Place<'py> {
        self.kept.push(object.clone().unbind());
        Place::same(object.clone())
    }

    /// Requests that a successful check returns the object. Returns its index among the requested objects.
    pub fn want(&mut self, place: &Place<'_>) -> usize {
        self.wanted.push(place.address());
        self.wanted.len() - 1
    }

    fn probe(&mut self, probe: Probe) {
        if self.known.insert(probe) {
            self.probes.push(probe);
        }
    }

    fn look(&mut self, item: DictItem) {
        let number = self.items.iter().position(|known| *known == item).unwrap_or_else(|| {
            self.items.push(item);
            self.items.len() - 1
        });
        self.probe(Probe { at: lookup_address(), is: number as u64 });
    }

    /// # Safety
    /// `at` is in the memory of the object in a place.
    unsafe fn word<T>(&mut self, at: *const T) {
        const { assert!(size_of::<T>() == size_of::<u64>()) };
        let at = at.cast::<u64>();
        // SAFETY: guaranteed by the caller.
        let is = unsafe { *at };
        self.probe(Probe { at: at as usize, is });
    }

    /// Records the type of an object.
    pub fn type_of<'py>(&mut self, place: &Place<'py>) -> Place<'py> {
        let ty = place.object.get_type();
        // `__class__` can only be changed from one class of the program to another.
        if !place.is_same || cpython::is_heap_type(&ty) {
            // SAFETY: a live object begins with its header.
            unsafe { self.word(&raw const (*place.object.as_ptr()).ob_type) };
        }
        Place::of(ty.into_any())
    }

    /// Records the C++ object of an object; `None` if it has none of the class.
    pub fn held<'a>(&mut self, place: &'a Place<'_>, embedded: &Embedded) -> Option<EmbeddedPlace<'a>> {
        let held = embedded.of(&place.object)?;
        self.type_of(place);
        // SAFETY: an object of the type has the pointer, which is not null. The C++ object begins with the address of
        // its virtual table.
        unsafe {
            self.word(held.pointer());
            self.word(held.address() as *const usize);
        }
        Some(EmbeddedPlace(held))
    }

    /// Records a number of a C++ object, with its neighbour in the same word.
    pub fn number(&mut self, held: EmbeddedPlace<'_>, kept: EmbeddedNumber) {
        // SAFETY: the number is within an object of the class, as was seen for samples, and so is the word it is in.
        unsafe { self.word(held.0.word_of_number(kept)) };
    }

    /// Records an array of a C++ object. Returns `false` if the array cannot be read.
    pub fn array<const N: usize>(&mut self, held: EmbeddedPlace<'_>, field: ArrayField<N>) -> bool {
        let Some(words) = held.0.words_of_array(field) else { return false };
        // SAFETY: the array is within the object, as was seen for a sample.
        words.into_iter().for_each(|word| unsafe { self.word(word) });
        true
    }

    /// Records that the object in the place is the referent of the weak reference.
    pub fn is_referent(&mut self, place: &Place<'_>, reference: &WeakRef) {
        if !place.is_same {
            self.refers(place.py(), reference);
        }
    }

    /// Records that the weak reference keeps its referent.
    pub fn refers(&mut self, py: Python<'_>, reference: &WeakRef) {
        let reference = self.keep(reference.as_object().bind(py));
        // SAFETY: a `WeakRef` holds CPython's own type of weak reference, and the recorder keeps it alive.
        unsafe { self.word(&raw const (*reference.object.as_ptr().cast::<ffi::PyWeakReference>()).wr_object) };
    }

    /// Returns the place of the weak reference's referent, which is valid as long as the reference keeps it.
    pub fn referent<'py>(&mut self, object: &Bound<'py, PyAny>, reference: &WeakRef) -> Place<'py> {
        self.refers(object.py(), reference);
        Place::same(object.clone())
    }

    /// Records that lookups along the type's method resolution order keep their results.
    pub fn lookups_of(&mut self, ty: &Place<'_>) -> bool {
        self.type_of(ty);
        // SAFETY: after the check it is a type. A lookup gives it a version if it has none.
        unsafe {
            let Ok(bound) = ty.object.cast::<PyType>() else { return false };
            let raw = bound.as_type_ptr();
            type_lookup(bound, intern!(bound.py(), "__class__"));
            // From 3.13 on, a type without valid version has version 0, and the flag is no longer used.
            let is_valid = cfg!(Py_3_13) || (*raw).tp_flags & VALID_VERSION != 0;
            if !is_valid || (*raw).tp_version_tag == 0 {
                return false;
            }
            self.word(&raw const (*raw).tp_flags);
            // The word includes the field behind the version.
            self.word((&raw const (*raw).tp_version_tag).cast::<u64>());
        }
        true
    }

    /// Records the entry for a name in the type's method resolution order.
    pub fn lookup<'py>(&mut self, ty: &Place<'py>, name: &Bound<'py, PyString>) -> Option<Place<'py>> {
        let found = type_lookup(ty.object.cast().ok()?, name)?;
        self.lookups_of(ty).then_some(Place::same(found))
    }

    /// Records the dict of an object's own attributes; Python's `None` for an object without dict.
    pub fn instance_dict<'py>(&mut self, place: &Place<'py>) -> Place<'py> {
        let py = place.object.py();
        self.type_of(place);
        let Some(dict) = cpython::instance_dict(&place.object) else {
            return self.keep(py.None().bind(py));
        };
        // SAFETY: a live object; its dict is made, so the answer is the place where it is.
        unsafe {
            let raw = place.object.as_ptr();
            if (*ffi::Py_TYPE(raw)).tp_itemsize != 0 {
                self.word(&raw const (*raw.cast::<ffi::PyVarObject>()).ob_size);
            }
            self.word(dict_pointer(raw));
        }
        Place::of(dict.into_any())
    }

    /// Records that a dict is unchanged, including its order.
    pub fn dict(&mut self, place: &Place<'_>) -> bool {
        if !self.version(place) {
            return false;
        }
        let dict = place.object.as_ptr();
        // SAFETY: `version` has found a dict; the type check comes before the fields of an ordered dict.
        unsafe {
            if ffi::PyObject_TypeCheck(dict, &raw mut ORDERED_DICT) != 0 {
                self.word((&raw const (*dict.cast::<OrderedDict>()).state).cast::<u64>());
            }
        }
        true
    }

    /// Records that a dict has the same entries, in any order.
    fn version(&mut self, place: &Place<'_>) -> bool {
        let Ok(dict) = place.object.cast::<PyDict>() else { return false };
        self.type_of(place);
        // SAFETY: after the check it is a dict, or of a type derived from dict's layout.
        unsafe {
            let raw = dict.as_ptr().cast::<ffi::PyDictObject>();
            if !version_tells(raw) {
                return false;
            }
            #[allow(
                deprecated,
                reason = "the version is there in all releases up to 3.13, which is what this crate knows"
            )]
            self.word(&raw const (*raw).ma_version_tag);
        }
        true
    }

    /// Records the entry of a dict under a key; the inner `None` if the key is missing. The outer `None` means that
    /// it cannot be recorded.
    #[allow(clippy::option_option, reason = "it is what the two say")]
    pub fn item<'py>(
        &mut self,
        place: &Place<'py>,
        key: &Bound<'py, PyAny>,
        reading: Reading,
    ) -> Option<Option<Place<'py>>> {
        let dict = place.object.cast::<PyDict>().ok()?;
        let found = cpython::dict_get(dict, key);
        let raw = dict.as_ptr().cast::<ffi::PyDictObject>();
        if reading == Reading::Version && self.version(place) {
            return Some(found.map(Place::same));
        }
        // SAFETY: a live dict.
        if !key.is_exact_instance_of::<PyString>() || unsafe { !has_string_keys(raw) } {
            return None;
        }
        self.type_of(place);
        let key = self.keep(key).address();
        let is = found.as_ref().map_or(0, |found| found.as_ptr() as usize);
        self.look(DictItem { dict: place.address(), key, is });
        Some(found.map(Place::of))
    }

    /// Records item `index` of a tuple or list.
    pub fn index<'py>(&mut self, place: &Place<'py>, index: usize) -> Option<Place<'py>> {
        if !self.length(place) {
            return None;
        }
        // SAFETY: after the checks these are a tuple and a list of more than `index` items.
        unsafe {
            if let Ok(tuple) = place.object.cast::<PyTuple>() {
                let item = tuple.get_item(index).ok()?;
                if place.is_same {
                    return Some(Place::same(item));
                }
                self.word((&raw const (*tuple.as_ptr().cast::<ffi::PyTupleObject>()).ob_item).cast::<u64>().add(index));
                Some(Place::of(item))
            } else {
                let list = place.object.cast::<PyList>().ok()?;
                let item = list.get_item(index).ok()?;
                let raw = list.as_ptr().cast::<ffi::PyListObject>();
                self.word(&raw const (*raw).ob_item);
                self.word((*raw).ob_item.add(index));
                Some(Place::of(item))
            }
        }
    }

    /// Records the length of a tuple, list, dict or set.
    pub fn length(&mut self, place: &Place<'_>) -> bool {
        let object = &place.object;
        if place.is_same && object.is_instance_of::<PyTuple>() {
            return true;
        }
        // SAFETY: after the check the object has the layout of its kind.
        unsafe {
            let size = if object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>() {
                &raw const (*object.as_ptr().cast::<ffi::PyVarObject>()).ob_size
            } else if object.is_instance_of::<PyDict>() {
                &raw const (*object.as_ptr().cast::<ffi::PyDictObject>()).ma_used
            } else if object.is_instance_of::<PySet>() {
                &raw const (*object.as_ptr().cast::<ffi::PySetObject>()).used
            } else {
                return false;
            };
            self.type_of(place);
            self.word(size);
        }
        true
    }

    /// Records the contents of a cell; the inner `None` if it is empty. The outer `None` is for other objects.
    #[allow(clippy::option_option, reason = "it is what the two say")]
    pub fn contents<'py>(&mut self, place: &Place<'py>) -> Option<Option<Place<'py>>> {
        if !cpython::is_cell(&place.object) {
            return None;
        }
        self.type_of(place);
        // SAFETY: after the check it is a cell.
        unsafe { self.word(&raw const (*place.object.as_ptr().cast::<ffi::PyCellObject>()).ob_ref) };
        Some(cpython::cell_contents(&place.object).map(Place::of))
    }

    /// Records a part of a function or method; `None` for other objects, other parts and an absent part.
    pub fn part<'py>(&mut self, place: &Place<'py>, part: Part) -> Option<Place<'py>> {
        let object = place.object.as_ptr();
        let fits = match part {
            Part::MethodFunction | Part::MethodSelf => cpython::bound_method(&place.object).is_some(),
            _ => place.object.is_exact_instance_of::<PyFunction>(),
        };
        if !fits {
            return None;
        }
        // SAFETY: after the check it is a function or a method.
        unsafe {
            let (function, method) = (object.cast::<ffi::PyFunctionObject>(), object.cast::<Method>());
            let at: *const *mut ffi::PyObject = match part {
                Part::Code => &raw const (*function).func_code,
                Part::Globals => &raw const (*function).func_globals,
                Part::Defaults => &raw const (*function).func_defaults,
                Part::KwDefaults => &raw const (*function).func_kwdefaults,
                Part::Closure => &raw const (*function).func_closure,
                Part::MethodFunction => &raw const (*method).function,
                Part::MethodSelf => &raw const (*method).receiver,
                Part::Proxied => return None,
            };
            let found = Bound::from_borrowed_ptr_or_opt(place.object.py(), *at)?;
            self.type_of(place);
            self.word(at);
            Some(Place::of(found))
        }
    }
}
