//! Guards: what a translation assumes of the values it looked at. A guard is a tracker, which says where the value is
//! found, and a test of the value. Its native check (`program`) and its text are both made from this one description.

mod compile;
mod constants;
mod failure;
mod framework;
mod memo;
mod object_state;
mod program;
mod rejection;
mod steps;

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyType;
use rustc_hash::FxHashSet;

use crate::cpython::{self, Part, Place, Recorder, WeakRef};
use crate::tracker::{repr, Key, TrackerId, Trackers};
use crate::value_path::PathStep;

pub use constants::{has_key, same_constant};
pub use failure::UnmetGuard;
pub use framework::{ObjectTest, ObjectsTest, StateTest, TestKey};
pub use object_state::{ObjectState, StateOfFramework};
pub use program::{Differing, FrameView, GuardProgram, GuardSubjects};

/// The condition that a guard puts on its subject.
pub enum Test {
    /// The subject is this very object.
    Is(Identity),
    /// The type of the subject is exactly this type.
    TypeIs(Identity),
    /// The subject has the type of this constant and equals it (`nan` equals itself).
    Equals(Py<PyAny>),
    /// The list, tuple, dict, set or deque holds this many items.
    Length(usize),
    /// The dict has exactly these keys in this order.
    Keys(Vec<Key>),
    /// The dict or set has this key, whatever else it holds.
    HasKey(Key),
    /// The dict or set does not have this key.
    LacksKey(Key),
    /// The object's own `__dict__` does not have this entry.
    LacksAttribute(std::rc::Rc<str>),
    /// The type's method resolution order does not have this entry.
    LacksLookup(std::rc::Rc<str>),
    /// Attributes of the type's instances are read as `object` does: no `__getattribute__` or `__getattr__` of a
    /// class.
    PlainReads,
    /// The type is (or, if false, is not) a subclass of this class.
    Subclass(Identity, bool),
    /// The slot of this name (`__slots__`) is empty.
    EmptySlot(std::rc::Rc<str>),
    /// The function or method does not have this part.
    LacksPart(Part),
    /// The cell is empty.
    EmptyCell,
    /// The iterator, which is implemented in C, has no item left after this many.
    Exhausted {
        /// Number of items.
        after: usize,
    },
    /// The subject is the same object as the other tracker's value.
    SameAs(TrackerId),
    /// The subject is another object than the other tracker's value.
    DiffersFrom(TrackerId),
    /// The written objects are all different, and different from the objects that were only read. The subject is the
    /// first written object.
    Apart {
        /// Objects written in the trace.
        written: Rc<[TrackerId]>,
        /// Objects only read in the trace.
        others: Rc<[TrackerId]>,
    },
    /// A test that the backend or a plug-in defines.
    Object(Box<dyn ObjectTest>),
    /// A test of several objects that the backend or a plug-in defines. The subject is the first object.
    Objects {
        /// The other objects.
        others: Rc<[TrackerId]>,
        /// The test.
        test: Box<dyn ObjectsTest>,
    },
}

/// An object that a guard compares by identity. The reference is weak if the object allows it, so that no translation
/// keeps the object alive. The address is trusted only while the referent lives.
pub struct Identity {
    address: usize,
    holder: Holder,
}

enum Holder {
    Weak(WeakRef),
    Strong(Py<PyAny>),
}

/// True if a translation refers to a key weakly: the key's class is written in Python and allows weak references.
/// Such a key equals no other object where its own methods are not asked, so a weak reference is enough to recognise
/// it.
pub fn is_held_weakly(key: &Bound<'_, PyAny>) -> bool {
    cpython::is_heap_type(&key.get_type()) && cpython::supports_weakref(key)
}

impl Identity {
    /// The identity of `object`.
    pub fn of(object: &Bound<'_, PyAny>) -> Identity {
        let weak = if cpython::supports_weakref(object) { WeakRef::new(object, None).ok() } else { None };
        let holder = weak.map_or_else(|| Holder::Strong(object.clone().unbind()), Holder::Weak);
        Identity { address: object.as_ptr() as usize, holder }
    }

    /// The identity of a dict key. The reference is strong unless `is_held_weakly`: an equal object could stand in
    /// for the key, so the key itself has to stay alive.
    pub fn of_key(key: &Bound<'_, PyAny>) -> Identity {
        if is_held_weakly(key) {
            return Identity::of(key);
        }
        Identity { address: key.as_ptr() as usize, holder: Holder::Strong(key.clone().unbind()) }
    }

    /// Returns the referent, if it is alive.
    #[inline]
    pub fn get<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match &self.holder {
            Holder::Weak(weak) => weak.get(py),
            Holder::Strong(referent) => Some(referent.bind(py).clone()),
        }
    }

    /// True if `object` is the referent.
    #[inline]
    pub fn is(&self, object: &Bound<'_, PyAny>) -> bool {
        match &self.holder {
            Holder::Weak(weak) => weak.is(object),
            Holder::Strong(referent) => referent.is(object),
        }
    }

    /// True if the referent is the type of `object`.
    #[inline]
    pub fn is_type_of(&self, object: &Bound<'_, PyAny>) -> bool {
        match &self.holder {
            Holder::Weak(weak) => weak.is_type_of(object),
            Holder::Strong(referent) => referent.as_ptr() == object.get_type_ptr().cast(),
        }
    }

    /// True if the referent is in the method resolution order of `object`, which is a type.
    pub fn is_base_of(&self, object: &Bound<'_, PyAny>) -> bool {
        let py = object.py();
        let Ok(ty) = object.cast::<PyType>() else { return false };
        let class = match &self.holder {
            Holder::Weak(weak) => weak.get(py),
            Holder::Strong(referent) => Some(referent.bind(py).clone()),
        };
        class.is_some_and(|class| class.cast::<PyType>().is_ok_and(|class| cpython::is_subtype(ty, class)))
    }

    /// Records that the referent stays alive. Returns where the memory of the reference is.
    fn place<'py>(&self, referent: &Bound<'py, PyAny>, recorder: &mut Recorder) -> Place<'py> {
        match &self.holder {
            Holder::Weak(weak) => recorder.referent(referent, weak),
            Holder::Strong(_) => recorder.keep(referent),
        }
    }

    /// Records that the object in the place stays the referent.
    fn note(&self, place: &Place<'_>, recorder: &mut Recorder) {
        if let Holder::Weak(weak) = &self.holder {
            recorder.is_referent(place, weak);
        }
    }

    /// Records that the type of the object in the place stays the referent.
    fn note_type(&self, place: &Place<'_>, recorder: &mut Recorder) {
        let ty = recorder.type_of(place);
        self.note(&ty, recorder);
    }

    /// Records that the referent stays alive.
    fn note_alive(&self, py: Python<'_>, recorder: &mut Recorder) {
        if let Holder::Weak(weak) = &self.holder {
            recorder.refers(py, weak);
        }
    }

    /// The referent as text for people.
    pub fn text(&self, py: Python<'_>) -> String {
        match &self.holder {
            Holder::Weak(weak) => weak
                .get(py)
                .map_or_else(|| "<an object that is gone>".to_owned(), |object| repr(py, object.as_unbound())),
            Holder::Strong(object) => repr(py, object),
        }
    }

    /// True if the referent is alive.
    pub fn is_alive(&self, py: Python<'_>) -> bool {
        match &self.holder {
            Holder::Weak(weak) => weak.is_alive(py),
            Holder::Strong(_) => true,
        }
    }
}

/// One assumption of a translation.
pub struct Guard {
    /// Tracker of the value that is tested.
    pub subject: TrackerId,
    /// The test.
    pub test: Test,
}

impl Test {
    /// Trackers of the values that the subject is compared with.
    fn compared(&self) -> Vec<TrackerId> {
        match self {
            Test::SameAs(other) | Test::DiffersFrom(other) => vec![*other],
            Test::Apart { written, others } => written.iter().chain(others.iter()).copied().collect(),
            Test::Objects { others, .. } => others.to_vec(),
            _ => Vec::new(),
        }
    }
}

impl Guard {
    /// True if the guard depends on data that changes while the program runs, and not on which code exists.
    pub fn asks_for_data(&self, trackers: &Trackers) -> bool {
        match &self.test {
            Test::Is(_)
            | Test::TypeIs(_)
            | Test::SameAs(_)
            | Test::DiffersFrom(_)
            | Test::Apart { .. }
            | Test::Objects { .. }
            | Test::Subclass(..)
            | Test::LacksAttribute(_)
            | Test::LacksLookup(_)
            | Test::LacksPart(_)
            | Test::PlainReads => false,
            Test::LacksKey(_) => !trackers.is_globals(self.subject), // of globals: the name is a builtin
            _ => true,
        }
    }

    /// True if the guard compares with a class that is made within a function. Such a function may make another class
    /// at its next call.
    fn asks_for_made_class(&self, py: Python<'_>) -> bool {
        let (Test::Is(object) | Test::TypeIs(object)) = &self.test else { return false };
        let class = object.get(py).and_then(|object| object.cast_into::<PyType>().ok());
        class.and_then(|class| cpython::qualified_name(&class)).is_some_and(|name| name.contains("<locals>"))
    }

    /// The guard as a Python expression for people.
    pub fn text(&self, py: Python<'_>, trackers: &Trackers) -> String {
        let mut text = String::new();
        self.write_start(py, trackers, &mut text);
        match &self.test {
            Test::Is(object) | Test::TypeIs(object) => text + &object.text(py),
            _ => text,
        }
    }

    /// Writes the text behind what `out` holds, without the object that the test compares with, whose text may take
    /// long to make.
    fn write_start(&self, py: Python<'_>, trackers: &Trackers, out: &mut String) {
        let load = |of: TrackerId| trackers.text(py, of);
        let mut around_subject = |before: &str, behind: &str| {
            out.push_str(before);
            trackers.write_text(py, self.subject, out);
            out.push_str(behind);
        };
        match &self.test {
            Test::Is(_) => around_subject("", " is "),
            Test::TypeIs(_) => around_subject("type(", ") is "),
            Test::Equals(value) => around_subject("", &format!(" == {}", repr(py, value))),
            Test::Length(n) => around_subject("len(", &format!(") == {n}")),
            Test::Keys(keys) => {
                let keys: Vec<String> = keys.iter().map(|k| k.text(py)).collect();
                around_subject("list(", &format!(") == [{}]", keys.join(", ")));
            }
            Test::HasKey(key) => around_subject(&format!("{} in ", key.text(py)), ""),
            Test::LacksKey(key) => around_subject(&format!("{} not in ", key.text(py)), ""),
            Test::LacksAttribute(name) => around_subject(&format!("'{name}' not in "), ".__dict__"),
            Test::LacksLookup(name) => around_subject(&format!("no '{name}' in "), ".__mro__"),
            Test::PlainReads => around_subject("", " has no __getattribute__ or __getattr__ of its own"),
            Test::Subclass(class, is) => around_subject("issubclass(", &format!(", {}) is {is}", class.text(py))),
            Test::EmptySlot(name) => around_subject("not hasattr(", &format!(", '{name}')")),
            Test::LacksPart(part) => around_subject("", &format!(".{} is None", part.attribute())),
            Test::EmptyCell => around_subject("", " is an empty cell"),
            Test::Exhausted { after } => around_subject("", &format!(" is exhausted after {after} more")),
            Test::SameAs(other) => around_subject("", &format!(" is {}", load(*other))),
            Test::DiffersFrom(other) => around_subject("", &format!(" is not {}", load(*other))),
            Test::Apart { written, others } => {
                let texts = |ids: &[TrackerId]| ids.iter().map(|id| load(*id)).collect::<Vec<_>>().join(", ");
                for part in ["all different: ", &texts(written), "; none of them among: ", &texts(others)] {
                    out.push_str(part);
                }
            }
            Test::Object(test) => out.push_str(&test.describe(&load(self.subject))),
            Test::Objects { others, test } => {
                let subjects = std::iter::once(&self.subject).chain(others.iter()).map(|id| load(*id));
                out.push_str(&test.describe(&subjects.collect::<Vec<_>>()));
            }
        }
    }

    /// True if the guard depends on a value that programs change while they run: a number, a value computed from
    /// numbers, or the contents of a container. A size counts, too.
    fn asks_for_contents(&self) -> bool {
        matches!(&self.test, Test::Equals(_) | Test::Length(_) | Test::Keys(_) | Test::Object(_))
    }

    fn key(&self) -> (TrackerId, GuardKey) {
        let key = match &self.test {
            Test::Is(object) => GuardKey::Is(object.address),
            Test::TypeIs(object) => GuardKey::TypeIs(object.address),
            Test::Equals(_) => GuardKey::Equals,
            Test::Length(_) => GuardKey::Length,
            Test::Keys(_) => GuardKey::Keys,
            Test::HasKey(key) => GuardKey::HasKey(key.step()),
            Test::LacksKey(key) => GuardKey::LacksKey(key.step()),
            Test::LacksAttribute(name) => GuardKey::LacksAttribute(Rc::clone(name)),
            Test::LacksLookup(name) => GuardKey::LacksLookup(Rc::clone(name)),
            Test::PlainReads => GuardKey::PlainReads,
            Test::Subclass(class, _) => GuardKey::Subclass(class.address),
            Test::EmptySlot(name) => GuardKey::EmptySlot(Rc::clone(name)),
            Test::LacksPart(part) => GuardKey::LacksPart(*part),
            Test::EmptyCell => GuardKey::EmptyCell,
            Test::Exhausted { after } => GuardKey::Exhausted(*after),
            Test::SameAs(other) => GuardKey::SameAs(*other),
            Test::DiffersFrom(other) => GuardKey::DiffersFrom(*other),
            Test::Apart { written, others } => GuardKey::Apart(Rc::clone(written), Rc::clone(others)),
            Test::Object(test) => GuardKey::Object(test.key()),
            Test::Objects { others, test } => {
                let names: Vec<String> = (0..=others.len()).map(|at| format!("x{at}")).collect();
                GuardKey::Objects(Rc::clone(others), test.describe(&names))
            }
        };
        (self.subject, key)
    }
}

/// Identifies a test within the tests of one subject. Tests with equal keys check the same condition. A value equals
/// only one constant and has only one length, so the keys `Equals` and `Length` have no operand.
#[derive(PartialEq, Eq, Hash)]
enum GuardKey {
    Is(usize),
    TypeIs(usize),
    Equals,
    Length,
    Keys,
    HasKey(PathStep),
    LacksKey(PathStep),
    LacksAttribute(Rc<str>),
    LacksLookup(Rc<str>),
    PlainReads,
    Subclass(usize),
    EmptySlot(Rc<str>),
    LacksPart(Part),
    EmptyCell,
    Exhausted(usize),
    SameAs(TrackerId),
    DiffersFrom(TrackerId),
    Apart(Rc<[TrackerId]>, Rc<[TrackerId]>),
    Object(TestKey),
    Objects(Rc<[TrackerId]>, String),
}

/// The guards of one translation, without duplicates, in the order in which they were added.
#[derive(Default)]
pub struct Guards {
    list: Vec<Guard>,
    seen: FxHashSet<(TrackerId, GuardKey)>,
    state: Vec<Box<dyn StateTest>>,
    /// Trackers whose value must exist; nothing is tested about the value.
    required: Vec<TrackerId>,
}

impl Guards {
    /// True if the guard has been added.
    #[must_use]
    pub fn has(&self, subject: TrackerId, test: Test) -> bool {
        self.seen.contains(&Guard { subject, test }.key())
    }

    /// Adds a guard, unless it has been added already.
    pub fn add(&mut self, subject: TrackerId, test: Test) {
        let guard = Guard { subject, test };
        if self.seen.insert(guard.key()) {
            self.list.push(guard);
        }
    }

    /// Requires that the tracker's value exists; nothing is assumed about the value.
    pub fn require(&mut self, subject: TrackerId) {
        self.required.push(subject);
    }

    /// Returns the required trackers that no other guard fetches on the way to its subject.
    fn untested(&self, trackers: &Trackers) -> Vec<TrackerId> {
        let mut tested = FxHashSet::default();
        let others = self.list.iter().flat_map(|guard| guard.test.compared());
        for subject in self.list.iter().map(|guard| guard.subject).chain(others) {
            let mut on_the_way = Some(subject);
            while let Some(tracker) = on_the_way.filter(|tracker| tested.insert(*tracker)) {
                on_the_way = trackers.get(tracker).parent();
            }
        }
        let untested = |tracker: &TrackerId| trackers.is_sourced(*tracker) && tested.insert(*tracker);
        self.required.iter().copied().filter(untested).collect()
    }

    /// Adds a test of the framework's global state.
    pub fn add_state(&mut self, test: Box<dyn StateTest>) {
        self.state.push(test);
    }

    /// The texts of the guards in the order in which they are tested, each with its tracker.
    pub fn described(&self, py: Python<'_>, trackers: &Trackers) -> Vec<(String, Option<TrackerId>)> {
        let state = self.state.iter().map(|test| (test.describe(), None));
        let list = self.list.iter().filter(|guard| !trackers.is_made(guard.subject));
        let required = self.untested(trackers);
        let required = required.iter().map(|id| (format!("{} is there", trackers.text(py, *id)), Some(*id)));
        state.chain(list.map(|guard| (guard.text(py, trackers), Some(guard.subject)))).chain(required).collect()
    }

    /// Number of guards so far: a checkpoint for `truncate`.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The guards added after a checkpoint.
    pub fn since(&self, len: usize) -> &[Guard] {
        self.list.get(len..).unwrap_or_default()
    }

    /// True if nothing was assumed.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.state.is_empty()
    }

    /// Removes the guards added after a checkpoint.
    pub fn truncate(&mut self, len: usize) {
        for guard in self.list.drain(len..) {
            self.seen.remove(&guard.key());
        }
    }

    /// Compiles the guards. Returns the native check and the trackers that its steps are about.
    pub fn compile(mut self, py: Python<'_>, trackers: &Trackers) -> PyResult<(GuardProgram, GuardSubjects)> {
        // Values made in the trace are the same at each call.
        self.list.retain(|guard| !trackers.is_made(guard.subject));
        let required = self.untested(trackers);
        GuardProgram::new(py, self.state, self.list, &required, trackers)
    }
}
