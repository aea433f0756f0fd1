//! Compiles guards to steps. No value is fetched twice, and no test is made twice. Once the type of an object is
//! tested, conditions on that type are tested once for all objects of the type.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use rustc_hash::{FxHashMap, FxHashSet};

use super::constants::may_run_code;
use super::steps::{Check, Fetch, Register, Step};
use super::{Guard, Identity, Test};
use crate::cpython;
use crate::tracker::{Key, Tracker, TrackerId, Trackers};

/// Compiles the guards of one translation, in their order.
pub(super) struct Compiler<'a, 'py> {
    py: Python<'py>,
    trackers: &'a Trackers,
    steps: Vec<Step>,
    registers: usize,
    by_tracker: FxHashMap<TrackerId, Register>,
    by_fetch: FxHashMap<FetchKey, Register>,
    /// Registers that hold a type, by its address.
    types: FxHashMap<usize, Register>,
    /// Address of the type of a register's value, if that type has been tested.
    type_of: FxHashMap<Register, usize>,
    tested: FxHashSet<(Register, CheckKey)>,
    /// Trackers of the containers whose items are fetched, by step.
    containers: FxHashMap<usize, TrackerId>,
}

/// Identifies a fetch; fetches with equal keys fetch the same value. Names are interned and held by the first step
/// that uses them, so their addresses identify them.
#[derive(PartialEq, Eq, Hash)]
enum FetchKey {
    InstanceDict(Register),
    Lookup(Register, usize),
    Type(Register),
    DictItem(Register, usize),
}

/// Identifies a test of a register.
#[derive(PartialEq, Eq, Hash)]
enum CheckKey {
    Is(usize),
    TypeIs(usize),
    HasKey(usize),
    LacksKey(usize),
    LacksEntry(usize),
    LacksLookup(usize),
    PlainReads,
}

impl<'a, 'py> Compiler<'a, 'py> {
    pub(super) fn new(py: Python<'py>, trackers: &'a Trackers) -> Self {
        Compiler {
            py,
            trackers,
            steps: Vec::new(),
            registers: 0,
            by_tracker: FxHashMap::default(),
            by_fetch: FxHashMap::default(),
            types: FxHashMap::default(),
            type_of: FxHashMap::default(),
            tested: FxHashSet::default(),
            containers: FxHashMap::default(),
        }
    }

    /// Number of steps so far.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns the steps, the number of registers they fill, and the trackers of the containers whose items are
    /// fetched, by step.
    pub(super) fn finish(self) -> (Vec<Step>, usize, FxHashMap<usize, TrackerId>) {
        (self.steps, self.registers, self.containers)
    }

    /// Appends the steps that check one guard.
    pub(super) fn add(&mut self, guard: Guard) -> PyResult<()> {
        let subject = self.fetch(guard.subject)?;
        let (subject, check) = self.check(subject, guard.test)?;
        if check_key(&check).is_some_and(|key| !self.tested.insert((subject, key))) {
            return Ok(());
        }
        if let Check::TypeIs(ty) = &check {
            self.type_of.insert(subject, ty.address);
        }
        self.steps.push(Step::Test(subject, check));
        Ok(())
    }

    /// Returns the register that will hold the tracker's value, appending the steps that fetch it.
    pub(super) fn fetch(&mut self, id: TrackerId) -> PyResult<Register> {
        if let Some(&register) = self.by_tracker.get(&id) {
            return Ok(register);
        }
        let register = match self.trackers.get(id) {
            Tracker::AsBuiltinBase { of } => self.fetch(*of)?,
            tracker => {
                let fetch = self.fetch_step(id)?;
                if let Tracker::Item { of, .. } = tracker {
                    self.containers.insert(self.steps.len(), *of);
                }
                self.register_of(fetch)
            }
        };
        self.by_tracker.insert(id, register);
        Ok(register)
    }

    fn register_of(&mut self, fetch: Fetch) -> Register {
        let ty = match &fetch {
            Fetch::Type(of) => self.type_of.get(of).copied(),
            _ => None,
        };
        if let Some(&register) = ty.and_then(|ty| self.types.get(&ty)) {
            return register;
        }
        let key = fetch_key(&fetch);
        if let Some(&register) = key.as_ref().and_then(|key| self.by_fetch.get(key)) {
            return register;
        }
        let register = self.registers as Register;
        self.registers += 1;
        self.steps.push(Step::Fetch(fetch));
        if let Some(key) = key {
            self.by_fetch.insert(key, register);
        }
        if let Some(ty) = ty {
            self.types.insert(ty, register);
        }
        register
    }

    fn fetch_step(&mut self, id: TrackerId) -> PyResult<Fetch> {
        let py = self.py;
        Ok(match self.trackers.get(id) {
            Tracker::Local { slot, .. } => Fetch::Argument(*slot as usize),
            Tracker::FreeCell { index, .. } => Fetch::FreeCell(*index as usize),
            Tracker::Globals => Fetch::Globals,
            Tracker::Builtins => Fetch::Builtins,
            Tracker::Constant(object) | Tracker::Registered(object) => Fetch::Constant(object.0.clone_ref(py)),
            Tracker::GuardedKey(object) => Fetch::GuardedKey(Identity::of_key(object.0.bind(py))),
            Tracker::Attribute { of, name } => {
                let of = self.fetch(*of)?;
                let dict = self.register_of(Fetch::InstanceDict(of));
                Fetch::DictItem(dict, Identity::of_key(self.name(name).bind(py)))
            }
            Tracker::Lookup { of, name } => Fetch::Lookup(self.fetch(*of)?, self.name(name)),
            Tracker::Getattr { of, name } if matches!(self.trackers.get(*of), Tracker::AsBuiltinBase { .. }) => {
                Fetch::Own(self.fetch(*of)?, self.name(name))
            }
            Tracker::Getattr { of, name } => Fetch::Getattr(self.fetch(*of)?, self.name(name)),
            Tracker::Cached { of, key, .. } => Fetch::Cached(self.fetch(*of)?, key.0.clone_ref(py)),
            Tracker::Type { of } => Fetch::Type(self.fetch(*of)?),
            Tracker::Item { of, key: Key::Index(index) } if *index >= 0 => {
                Fetch::Index(self.fetch(*of)?, *index as usize)
            }
            Tracker::Item { of, key: Key::Last(back) } => Fetch::Last(self.fetch(*of)?, *back),
            Tracker::Item { of, key } => {
                let (of, key) = (self.fetch(*of)?, key.object(py)?);
                let held = Identity::of_key(&key);
                if may_run_code(&key) {
                    Fetch::DictEntry(of, held)
                } else {
                    Fetch::DictItem(of, held)
                }
            }
            Tracker::CellContents { of } => Fetch::CellContents(self.fetch(*of)?),
            Tracker::Part { of, part } => Fetch::Part(self.fetch(*of)?, *part),
            Tracker::Length { of } => Fetch::Length(self.fetch(*of)?),
            Tracker::Upcoming { of, after, .. } => Fetch::Upcoming(self.fetch(*of)?, *after),
            Tracker::Foreign { of, how } => Fetch::Foreign(self.fetch(*of)?, how.clone()),
            Tracker::Iterated { of, index } => Fetch::Iterated(self.fetch(*of)?, *index),
            Tracker::Computed { how, of } => {
                let of = of.iter().map(|of| self.fetch(*of)).collect::<PyResult<_>>()?;
                Fetch::Computed(how.clone_ref(py), of)
            }
            Tracker::AsBuiltinBase { .. } | Tracker::Produced | Tracker::RealObject(_) => {
                let text = format!("a guard was put on a value made in the trace: {}", self.trackers.text(py, id));
                return Err(PyRuntimeError::new_err(text));
            }
        })
    }

    /// Returns the native test, and the register it is applied to.
    fn check(&mut self, subject: Register, test: Test) -> PyResult<(Register, Check)> {
        let py = self.py;
        let check = match test {
            Test::Is(object) => Check::Is(object),
            Test::TypeIs(object) => Check::TypeIs(object),
            Test::Equals(value) => Check::Equals(value),
            Test::Length(n) => Check::Length(n),
            Test::Keys(keys) => {
                Check::Keys(keys.iter().map(|key| Ok(Identity::of_key(&key.object(py)?))).collect::<PyResult<_>>()?)
            }
            Test::HasKey(key) => Check::HasKey(Identity::of_key(&key.object(py)?)),
            Test::LacksKey(key) => Check::LacksKey(Identity::of_key(&key.object(py)?)),
            Test::LacksAttribute(name) => {
                let dict = self.register_of(Fetch::InstanceDict(subject));
                return Ok((dict, Check::LacksEntry(self.name(&name))));
            }
            Test::LacksLookup(name) => Check::LacksLookup(self.name(&name)),
            Test::PlainReads => Check::PlainReads,
            Test::Subclass(class, is) => Check::Subclass(class, is),
            Test::EmptySlot(name) => Check::EmptySlot(self.name(&name)),
            Test::LacksPart(part) => Check::LacksPart(part),
            Test::EmptyCell => Check::EmptyCell,
            Test::Exhausted { after } => Check::Exhausted(after),
            Test::SameAs(other) => Check::SameAs(self.fetch(other)?),
            Test::DiffersFrom(other) => Check::DiffersFrom(self.fetch(other)?),
            Test::Apart { written, others } => {
                let all = written.iter().chain(others.iter()).map(|id| self.fetch(*id)).collect::<PyResult<_>>()?;
                Check::Apart(all, written.len())
            }
            Test::Object(test) => Check::Object(test),
            Test::Objects { others, test } => {
                Check::Objects(others.iter().map(|id| self.fetch(*id)).collect::<PyResult<_>>()?, test)
            }
        };
        Ok((subject, check))
    }

    fn name(&self, name: &str) -> Py<PyString> {
        cpython::interned(self.py, name).unbind()
    }
}

fn fetch_key(fetch: &Fetch) -> Option<FetchKey> {
    Some(match fetch {
        Fetch::InstanceDict(of) => FetchKey::InstanceDict(*of),
        Fetch::Lookup(of, name) => FetchKey::Lookup(*of, name.as_ptr() as usize),
        Fetch::Type(of) => FetchKey::Type(*of),
        Fetch::DictItem(of, key) => FetchKey::DictItem(*of, key.address),
        _ => return None,
    })
}

fn check_key(check: &Check) -> Option<CheckKey> {
    Some(match check {
        Check::Is(object) => CheckKey::Is(object.address),
        Check::TypeIs(object) => CheckKey::TypeIs(object.address),
        Check::HasKey(key) => CheckKey::HasKey(key.address),
        Check::LacksKey(key) => CheckKey::LacksKey(key.address),
        Check::LacksEntry(name) => CheckKey::LacksEntry(name.as_ptr() as usize),
        Check::LacksLookup(name) => CheckKey::LacksLookup(name.as_ptr() as usize),
        Check::PlainReads => CheckKey::PlainReads,
        _ => return None,
    })
}
