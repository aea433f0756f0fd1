//! The memory that guards rest on, as it was when they held: if every word of it is the same, they hold again. A dict that
//! was not written to has its version, a type its own; what an object refers to is a pointer in it.
//!
//! An address is looked at only after what was looked at before has shown that the object is there: it is referred to by
//! one that is, from the roots on. [`Place`] stands for that, and only a [`Recorder`] makes one. Nothing but comparisons runs
//! in between, so nothing can go away. An object whose memory was given to another meanwhile is no danger, as all that was
//! found in it is looked at again; what was not looked into is kept alive.

use std::collections::HashSet;
use std::ffi::CStr;
use std::sync::{Mutex, PoisonError};

use pyo3::ffi::{self, c_str};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyList, PySet, PyString, PyTuple, PyType};

use super::embedded::{ArrayField, Embedded, Held, KeptNumber};
use super::type_::type_lookup;
use super::weak::WeakRef;

extern "C" {
    #[link_name = "PyODict_Type"]
    static mut ORDERED_DICT: ffi::PyTypeObject;
    #[link_name = "_PyObject_GetDictPtr"]
    fn dict_pointer(object: *mut ffi::PyObject) -> *mut *mut ffi::PyObject;
}

/// What memory must be for guards to hold.
#[derive(Debug)]
pub struct Snapshot {
    roots: Vec<usize>,
    probes: Vec<Probe>,
    items: Vec<Item>,
    wanted: Vec<usize>,
    _kept: Vec<Py<PyAny>>,
}

/// A comparison. There are hundreds, in memory that is cold when the next call comes: they are kept small.
#[derive(Debug, PartialEq, Eq, Hash, Clone, Copy)]
struct Probe {
    /// The address of a word, or that of [`LOOK`] for a look into a dict.
    at: usize,
    /// What the word is, or the number of the look.
    is: u64,
}

/// Never is what a probe wants it to be, so that only what differs need be asked whether it is a look.
static LOOK: u64 = u64::MAX;

fn look_address() -> usize {
    &raw const LOOK as usize
}

/// The dict at this address has this object under the key, or with 0 no such key.
#[derive(Debug, PartialEq, Eq, Hash, Clone, Copy)]
struct Item {
    dict: usize,
    key: usize,
    is: usize,
}

/// What is not as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// The root of this index is another object.
    Root(usize),
    /// What was recorded at this position (see [`Recorder::len`]).
    Probe(usize),
}

impl Snapshot {
    /// Looks whether all is as it was; the objects wanted, in the order asked for.
    #[inline]
    pub fn check<'py>(&self, py: Python<'py>, roots: &[Bound<'py, PyAny>]) -> Result<Vec<Bound<'py, PyAny>>, Changed> {
        for (at, (root, was)) in roots.iter().zip(&self.roots).enumerate() {
            if root.as_ptr() as usize != *was {
                return Err(Changed::Root(at));
            }
        }
        if roots.len() != self.roots.len() {
            return Err(Changed::Root(roots.len()));
        }
        // SAFETY: the roots are alive, and the probes before each one have found their way to it from them.
        if let Some(at) = self.probes.iter().position(|probe| !unsafe { probe.holds(&self.items) }) {
            return Err(Changed::Probe(at));
        }
        // SAFETY: all probes have held, and nothing has run since: the objects are referred to from the roots.
        Ok(self.wanted.iter().map(|at| unsafe { Bound::from_borrowed_ptr(py, *at as *mut ffi::PyObject) }).collect())
    }

    /// Number of comparisons.
    pub fn len(&self) -> usize {
        self.roots.len() + self.probes.len()
    }

    /// Whether there is nothing to compare.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Probe {
    /// Whether all is as it was.
    ///
    /// # Safety
    /// The memory looked at is that of a live object of the kind it was recorded for, and the GIL is held.
    #[inline]
    unsafe fn holds(self, items: &[Item]) -> bool {
        // SAFETY: the caller's promise.
        unsafe { *(self.at as *const u64) == self.is || self.is_look_that_holds(items) }
    }

    #[cold]
    unsafe fn is_look_that_holds(self, items: &[Item]) -> bool {
        let item = (self.at == look_address()).then(|| items.get(self.is as usize)).flatten();
        // SAFETY: the promise of the caller of `holds`.
        item.is_some_and(|item| unsafe { item.holds() })
    }
}

impl Item {
    /// # Safety
    /// The dict is alive, and the GIL is held.
    unsafe fn holds(self) -> bool {
        let dict = self.dict as *mut ffi::PyObject;
        // SAFETY: the caller's promise. A dict whose keys are all strings compares them without running code.
        unsafe {
            has_string_keys(dict.cast())
                && ffi::PyDict_GetItemWithError(dict, self.key as *mut ffi::PyObject) as usize == self.is
        }
    }
}

/// An object that is where it was as long as all that was recorded before is as it was.
#[derive(Debug, Clone)]
pub struct Place<'py> {
    object: Bound<'py, PyAny>,
    /// It is then the very object that was recorded, and no other one that was given its memory: what refers to it has not
    /// changed in between. So are versions, which are never given twice.
    is_same: bool,
}

impl<'py> Place<'py> {
    fn of(object: Bound<'py, PyAny>) -> Self {
        Place { object, is_same: false }
    }

    fn same(object: Bound<'py, PyAny>) -> Self {
        Place { object, is_same: true }
    }

    /// The interpreter token.
    pub fn py(&self) -> Python<'py> {
        self.object.py()
    }

    /// Whether it is a dict, or of a type derived from it.
    pub fn is_dict(&self) -> bool {
        self.object.is_instance_of::<PyDict>()
    }

    fn address(&self) -> usize {
        self.object.as_ptr() as usize
    }
}

/// The C++ object of an object that is in a place.
#[derive(Debug, Clone, Copy)]
pub struct HeldPlace<'a>(Held<'a>);

/// A reference that a function or method holds.
#[derive(Debug, Clone, Copy)]
pub enum Field {
    /// `__code__`
    Code,
    /// `__globals__`
    Globals,
    /// `__defaults__`
    Defaults,
    /// `__kwdefaults__`
    KwDefaults,
    /// `__closure__`
    Closure,
    /// `__func__`
    MethodFunction,
    /// `__self__`
    MethodSelf,
}

/// How what is in a dict is told to be unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// By the version, which any write to the dict changes.
    Version,
    /// By looking the key up.
    Lookup,
}

/// Records memory for a snapshot. What answers `None` or `false` cannot be told from memory; nothing is recorded then that
/// does harm.
#[derive(Debug, Default)]
pub struct Recorder {
    roots: Vec<usize>,
    probes: Vec<Probe>,
    items: Vec<Item>,
    known: HashSet<Probe>,
    wanted: Vec<usize>,
    kept: Vec<Py<PyAny>>,
}

impl Recorder {
    /// Number of probes so far: a position for [`Changed::Probe`].
    pub fn len(&self) -> usize {
        self.probes.len()
    }

    /// Whether there are no probes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The snapshot.
    pub fn finish(self) -> Snapshot {
        let Recorder { roots, probes, items, wanted, kept, known: _ } = self;
        Snapshot { roots, probes, items, wanted, _kept: kept }
    }

    /// The next of the roots, which whoever checks hands over.
    pub fn root<'py>(&mut self, object: &Bound<'py, PyAny>) -> Place<'py> {
        self.roots.push(object.as_ptr() as usize);
        Place::of(object.clone())
    }

    /// An object that the snapshot keeps alive.
    pub fn keep<'py>(&mut self, object: &Bound<'py, PyAny>) -> Place<'py> {
        self.kept.push(object.clone().unbind());
        Place::same(object.clone())
    }

    /// Asks for the object when all is as it was; its number among those asked for.
    pub fn want(&mut self, place: &Place<'_>) -> usize {
        self.wanted.push(place.address());
        self.wanted.len() - 1
    }

    fn probe(&mut self, probe: Probe) {
        if self.known.insert(probe) {
            self.probes.push(probe);
        }
    }

    fn look(&mut self, item: Item) {
        let number = self.items.iter().position(|known| *known == item).unwrap_or_else(|| {
            self.items.push(item);
            self.items.len() - 1
        });
        self.probe(Probe { at: look_address(), is: number as u64 });
    }

    /// # Safety
    /// `at` is in the memory of an object that is in a place.
    unsafe fn word<T>(&mut self, at: *const T) {
        const { assert!(size_of::<T>() == size_of::<u64>()) };
        let at = at.cast::<u64>();
        // SAFETY: the caller's promise.
        let is = unsafe { *at };
        self.probe(Probe { at: at as usize, is });
    }

    /// The object's type.
    pub fn type_of<'py>(&mut self, place: &Place<'py>) -> Place<'py> {
        let ty = place.object.get_type();
        // Only from one class of the program to another can `__class__` be changed.
        if !place.is_same || super::is_heap_type(&ty) {
            // SAFETY: a live object begins with its header.
            unsafe { self.word(&raw const (*place.object.as_ptr()).ob_type) };
        }
        Place::of(ty.into_any())
    }

    /// The C++ object that an object holds; `None` if it holds none of the class.
    pub fn held<'a>(&mut self, place: &'a Place<'_>, embedded: &Embedded) -> Option<HeldPlace<'a>> {
        let held = embedded.of(&place.object)?;
        self.type_of(place);
        // SAFETY: an object of the type has the pointer, which is not null; what it leads to begins with its virtual table.
        unsafe {
            self.word(held.pointer());
            self.word(held.address() as *const usize);
        }
        Some(HeldPlace(held))
    }

    /// A number of a C++ object, with what lies beside it.
    pub fn number(&mut self, held: HeldPlace<'_>, kept: KeptNumber) {
        // SAFETY: the number is within an object of the class, as was seen for samples, and so is the word it is in.
        unsafe { self.word(held.0.word_of_number(kept)) };
    }

    /// An array of a C++ object; `false` if it is not as such arrays are.
    pub fn array<const N: usize>(&mut self, held: HeldPlace<'_>, field: ArrayField<N>) -> bool {
        let Some(words) = held.0.words_of_array(field) else { return false };
        // SAFETY: the array is within the object, as was seen for a sample.
        words.into_iter().for_each(|word| unsafe { self.word(word) });
        true
    }

    /// That what is in the place is the object the weak reference refers to now.
    pub fn is_referent(&mut self, place: &Place<'_>, reference: &WeakRef) {
        if !place.is_same {
            self.refers(place.py(), reference);
        }
    }

    /// That the weak reference refers to what it refers to now.
    pub fn refers(&mut self, py: Python<'_>, reference: &WeakRef) {
        let reference = self.keep(reference.as_object().bind(py));
        // SAFETY: a weak reference, which is kept.
        unsafe { self.word(&raw const (*reference.object.as_ptr().cast::<ffi::PyWeakReference>()).wr_object) };
    }

    /// What the weak reference refers to now, as long as it does.
    pub fn referent<'py>(&mut self, object: &Bound<'py, PyAny>, reference: &WeakRef) -> Place<'py> {
        self.refers(object.py(), reference);
        Place::same(object.clone())
    }

    /// That lookups along the type's method resolution order find what they find now.
    pub fn lookups_of(&mut self, ty: &Place<'_>) -> bool {
        self.type_of(ty);
        // SAFETY: after the check it is a type. A lookup gives it a version if it has none.
        unsafe {
            let Ok(bound) = ty.object.cast::<PyType>() else { return false };
            let raw = bound.as_type_ptr();
            type_lookup(bound, intern!(bound.py(), "__class__"));
            // From 3.13 on a type without a valid version has 0, and the flag is no longer used.
            let is_valid = cfg!(Py_3_13) || (*raw).tp_flags & VALID_VERSION != 0;
            if !is_valid || (*raw).tp_version_tag == 0 {
                return false;
            }
            self.word(&raw const (*raw).tp_flags);
            // With what lies behind it in the same word.
            self.word((&raw const (*raw).tp_version_tag).cast::<u64>());
        }
        true
    }

    /// What the type and its bases hold under a name.
    pub fn lookup<'py>(&mut self, ty: &Place<'py>, name: &Bound<'py, PyString>) -> Option<Place<'py>> {
        let found = type_lookup(ty.object.cast().ok()?, name)?;
        self.lookups_of(ty).then_some(Place::same(found))
    }

    /// The dict of the object's own attributes; for an object that has none, `None`.
    pub fn instance_dict<'py>(&mut self, place: &Place<'py>) -> Place<'py> {
        let py = place.object.py();
        self.type_of(place);
        let Some(dict) = super::instance_dict(&place.object) else {
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

    /// That a dict is as it is now, its order included.
    pub fn dict(&mut self, place: &Place<'_>) -> bool {
        if !self.version(place) {
            return false;
        }
        let dict = place.object.as_ptr();
        // SAFETY: it is a dict, and if it is an ordered one, has the layout of those.
        unsafe {
            if ffi::PyObject_TypeCheck(dict, &raw mut ORDERED_DICT) != 0 {
                self.word((&raw const (*dict.cast::<OrderedDict>()).state).cast::<u64>());
            }
        }
        true
    }

    /// That a dict has what it has now, in whatever order.
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

    /// What a dict has under a key, or that it has no such key: the outer `None` where that cannot be told.
    #[allow(clippy::option_option, reason = "it is what the two say")]
    pub fn item<'py>(
        &mut self,
        place: &Place<'py>,
        key: &Bound<'py, PyAny>,
        reading: Reading,
    ) -> Option<Option<Place<'py>>> {
        let dict = place.object.cast::<PyDict>().ok()?;
        let found = super::dict_get(dict, key);
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
        self.look(Item { dict: place.address(), key, is });
        Some(found.map(Place::of))
    }

    /// Item `index` of a tuple or list.
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

    /// That a tuple, list, dict or set has as many items as now.
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

    /// What a cell holds, or that it is empty: the outer `None` for what is no cell.
    #[allow(clippy::option_option, reason = "it is what the two say")]
    pub fn contents<'py>(&mut self, place: &Place<'py>) -> Option<Option<Place<'py>>> {
        if !super::is_cell(&place.object) {
            return None;
        }
        self.type_of(place);
        // SAFETY: after the check it is a cell.
        unsafe { self.word(&raw const (*place.object.as_ptr().cast::<ffi::PyCellObject>()).ob_ref) };
        Some(super::cell_contents(&place.object).map(Place::of))
    }

    /// What a function or method refers to.
    pub fn field<'py>(&mut self, place: &Place<'py>, field: Field) -> Option<Place<'py>> {
        let object = place.object.as_ptr();
        let of_method = matches!(field, Field::MethodFunction | Field::MethodSelf);
        let fits = if of_method {
            super::bound_method(&place.object).is_some()
        } else {
            place.object.is_exact_instance_of::<PyFunction>()
        };
        if !fits {
            return None;
        }
        // SAFETY: after the check it is a function or a method.
        unsafe {
            let (function, method) = (object.cast::<ffi::PyFunctionObject>(), object.cast::<Method>());
            let at: *const *mut ffi::PyObject = match field {
                Field::Code => &raw const (*function).func_code,
                Field::Globals => &raw const (*function).func_globals,
                Field::Defaults => &raw const (*function).func_defaults,
                Field::KwDefaults => &raw const (*function).func_kwdefaults,
                Field::Closure => &raw const (*function).func_closure,
                Field::MethodFunction => &raw const (*method).function,
                Field::MethodSelf => &raw const (*method).receiver,
            };
            let found = Bound::from_borrowed_ptr_or_opt(place.object.py(), *at)?;
            self.type_of(place);
            self.word(at);
            Some(Place::of(found))
        }
    }
}

/// `Py_TPFLAGS_VALID_VERSION_TAG`
const VALID_VERSION: std::ffi::c_ulong = 1 << 19;

/// `PyODictObject`, as far as it is of interest.
#[repr(C)]
struct OrderedDict {
    dict: ffi::PyDictObject,
    first: *mut u8,
    last: *mut u8,
    fast_nodes: *mut u8,
    fast_nodes_size: isize,
    resize_sentinel: *mut u8,
    /// Counts changes of the order.
    state: usize,
}

/// `PyMethodObject`, as far as it is of interest.
#[repr(C)]
struct Method {
    header: ffi::PyObject,
    function: *mut ffi::PyObject,
    receiver: *mut ffi::PyObject,
}

/// Whether any write to the dict changes its version. From 3.13 on attributes may be written to the values a dict shares
/// with its object, past the dict.
unsafe fn version_tells(dict: *mut ffi::PyDictObject) -> bool {
    // SAFETY: the caller passes a live dict.
    cfg!(not(Py_3_13)) || unsafe { (*dict).ma_values.is_null() }
}

/// Whether all keys of the dict are strings, which the layout of its table tells.
#[inline]
unsafe fn has_string_keys(dict: *mut ffi::PyDictObject) -> bool {
    // SAFETY: the caller passes a live dict, which always has a table, and that begins as below.
    unsafe {
        #[cfg(Py_3_11)]
        {
            const GENERAL: u8 = 0;
            (*(*dict).ma_keys.cast::<Keys>()).kind != GENERAL
        }
        #[cfg(not(Py_3_11))]
        {
            let general = GENERAL_LOOKUP.load(std::sync::atomic::Ordering::Relaxed);
            general != 0 && (*(*dict).ma_keys.cast::<Keys>()).lookup != general
        }
    }
}

/// `PyDictKeysObject`, as far as it is of interest.
#[repr(C)]
struct Keys {
    holders: isize,
    #[cfg(Py_3_11)]
    log2_size: u8,
    #[cfg(Py_3_11)]
    log2_index_bytes: u8,
    #[cfg(Py_3_11)]
    kind: u8,
    #[cfg(not(Py_3_11))]
    size: isize,
    #[cfg(not(Py_3_11))]
    lookup: usize,
}

/// The lookup function of dicts with keys of any kind, as one such dict has it. Null, which no dict has, until
/// [`look_for_blind_spots`] has looked.
#[cfg(not(Py_3_11))]
static GENERAL_LOOKUP: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

const _: () = assert!(size_of::<usize>() == size_of::<u64>());

/// What changes each kind of memory that guards rest on, for the self test.
const CHANGES: &CStr = c_str!(
    r"
from collections import OrderedDict
class Base:
    factor = 1
class Class(Base):
    pass
class Other(Base):
    pass
holder = Class()
holder.item = 1
table, ordered, items, numbers = {'a': 1}, OrderedDict(a=1, b=2), [1, 2], {1}
general = {1: 1}
def function(x=1): pass
def make():
    free = 1
    def get(): return free
    def write():
        nonlocal free
        free = 2
    return get.__closure__[0], write
cell, write_cell = make()
def write_attribute(): holder.item = 2
def delete_attribute(): del holder.item
def change_class(): holder.__class__ = Other
def write_dict(): table['a'] = 2
def add_key(): table['b'] = 2
def move(): ordered.move_to_end('a')
def write_base(): Base.factor = 2
def write_list(): items[1] = 3
def append(): items.append(3)
def write_defaults(): function.__defaults__ = (2,)
def add_number(): numbers.add(2)
"
);

static BLIND_SPOT: Mutex<Option<&'static str>> = Mutex::new(Some("not looked for"));

/// The first kind of memory that does not tell what happened to it: nothing may be recorded then.
pub fn blind_spot() -> Option<&'static str> {
    *BLIND_SPOT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes each kind of memory, and sees whether that shows.
pub(super) fn look_for_blind_spots(py: Python<'_>) -> PyResult<()> {
    let found = find_blind_spot(py)?;
    *BLIND_SPOT.lock().unwrap_or_else(PoisonError::into_inner) = found;
    Ok(())
}

fn find_blind_spot(py: Python<'_>) -> PyResult<Option<&'static str>> {
    type Record = fn(&mut Recorder, &Place<'_>) -> bool;
    fn attribute(recorder: &mut Recorder, place: &Place<'_>, reading: Reading) -> bool {
        let dict = recorder.instance_dict(place);
        recorder.item(&dict, intern!(place.object.py(), "item").as_any(), reading).is_some()
    }
    let by_version: Record = |recorder, place| attribute(recorder, place, Reading::Version);
    let by_lookup: Record = |recorder, place| attribute(recorder, place, Reading::Lookup);
    let class: Record = |recorder, place| {
        recorder.type_of(place);
        true
    };
    let lookups: Record = |recorder, place| recorder.lookups_of(place);
    let dict: Record = |recorder, place| recorder.dict(place);
    let length: Record = |recorder, place| recorder.length(place);
    let second: Record = |recorder, place| recorder.index(place, 1).is_some();
    let contents: Record = |recorder, place| recorder.contents(place).is_some();
    let defaults: Record = |recorder, place| recorder.field(place, Field::Defaults).is_some();
    let cases = [
        ("ma_version_tag of an object's dict", "holder", "write_attribute", by_version),
        ("ma_values", "holder", "delete_attribute", by_lookup),
        ("ob_type", "holder", "change_class", class),
        ("ma_version_tag", "table", "write_dict", dict),
        ("ma_used", "table", "add_key", length),
        ("od_state", "ordered", "move", dict),
        ("tp_version_tag", "Class", "write_base", lookups),
        ("ob_item", "items", "write_list", second),
        ("ob_size", "items", "append", length),
        ("ob_ref", "cell", "write_cell", contents),
        ("func_defaults", "function", "write_defaults", defaults),
        ("used of a set", "numbers", "add_number", length),
    ];
    let space = PyDict::new(py);
    py.run(CHANGES, Some(&space), None)?;
    let get = |name: &str| space.as_any().get_item(name);
    #[cfg(not(Py_3_11))]
    {
        let general = get("general")?;
        // SAFETY: a live dict, which always has a table.
        let lookup = unsafe { (*(*general.as_ptr().cast::<ffi::PyDictObject>()).ma_keys.cast::<Keys>()).lookup };
        GENERAL_LOOKUP.store(lookup, std::sync::atomic::Ordering::Relaxed);
    }
    for (memory, object, change, record) in cases {
        let mut recorder = Recorder::default();
        let roots = [get(object)?];
        let place = recorder.root(&roots[0]);
        let is_told = record(&mut recorder, &place);
        let snapshot = recorder.finish();
        let held = snapshot.check(py, &roots).is_ok();
        get(change)?.call0()?;
        if !is_told || !held || snapshot.check(py, &roots).is_ok() {
            return Ok(Some(memory));
        }
    }
    Ok(None)
}
