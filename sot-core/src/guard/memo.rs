//! The guard memory: makes guards cheap that have held before. A [`Snapshot`] records the words of memory that the
//! guards depended on. While these words are unchanged, only the steps that memory does not decide are run. If a word
//! has changed, all guards run, and the words are recorded again.
//!
//! Two kinds of memory change at nearly every call. Once they have made notes useless, they are treated differently:
//! a dict that is written to between calls (the globals of a script) is read by key, and an object that differs from
//! call to call (an argument) is fetched and tested.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rustc_hash::FxHashMap;

use super::program::FrameView;
use super::steps::{Check, Fetch, Register, Registers, Step};
use crate::cpython::{self, Changed, Objects, Place, Reading, Recorder, Snapshot};
use crate::env;

/// Number of calls that a note has to serve before a change, to count as useful.
const MIN_SERVED_CALLS: u32 = 8;
/// Number of useless notes after which the culprit of their failure is no longer recorded.
const MAX_BLAMES: u8 = 2;
/// Number of useless notes after which no more notes are taken.
const MAX_USELESS_NOTES: u32 = 32;

/// Memory of the calls for which the guards of a program held.
#[derive(Default)]
pub(super) struct GuardMemory(Mutex<MemoState>);

#[derive(Default)]
struct MemoState {
    note: Option<Arc<Note>>,
    /// Number of times that the guards held when they were run in full.
    held: u32,
    useless: u32,
    blamed: FxHashMap<ChangeCause, u8>,
}

/// A cause of changes that make notes useless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ChangeCause {
    /// The identity of the object in a register.
    Identity(Register),
    /// The contents of the object in a register.
    Contents(Register),
}

/// Result of comparing memory with the note.
pub(super) enum MemoryCheck {
    /// The guards hold.
    Same,
    /// The step at this position fails.
    Fails(usize),
    /// Memory has changed: the guards have to be run.
    Changed(Option<Change>),
}

/// A difference between memory and the note.
pub(super) struct Change(ChangeCause);

/// A note of one call for which the guards held.
struct Note {
    snapshot: Snapshot,
    /// Indices of the steps that fetch the roots.
    roots: Vec<usize>,
    /// Indices of the steps that memory does not decide, which still run at each call.
    rest: Vec<usize>,
    /// For each register its index among the values that this note fills in.
    places: Vec<u32>,
    /// For each culprit the index of the snapshot's probe up to which (exclusive) the probes belong to this culprit.
    culprits: Vec<(usize, ChangeCause)>,
    root_registers: Vec<Register>,
    served: AtomicU32,
}

/// The registers that a note fills in.
struct NoteRegisters<'a, 'py> {
    places: &'a [u32],
    values: Objects<'py>,
}

impl<'py> Registers<'py> for NoteRegisters<'_, 'py> {
    #[inline]
    fn at(&self, register: Register) -> &Bound<'py, PyAny> {
        &self.values[self.places[register as usize] as usize]
    }
}

impl GuardMemory {
    /// Returns a guard memory, or `None` with `SOT_GUARD_MEMORY=0`, which serves to compare the two ways of checking.
    pub(super) fn unless_switched_off() -> Option<GuardMemory> {
        env::is_on("SOT_GUARD_MEMORY").unwrap_or(true).then(GuardMemory::default)
    }

    fn lock(&self) -> MutexGuard<'_, MemoState> {
        self.0.lock()
    }

    /// Compares memory with the note, and runs the steps that memory does not decide.
    pub(super) fn ask<'py>(&self, steps: &[Step], frame: &impl FrameView<'py>) -> MemoryCheck {
        let Some(note) = self.lock().note.clone() else { return MemoryCheck::Changed(None) };
        note.ask(steps, frame)
    }

    /// Takes a note of a call for which the guards held although memory had changed. `registers` are the fetched
    /// values.
    pub(super) fn learn(&self, steps: &[Step], registers: &[Bound<'_, PyAny>], change: Option<Change>) {
        // Taking a note and dropping an old one may run the program's code: the lock must not be held.
        let Some((old, blamed)) = self.prepare(change) else { return };
        let note = Noting::new(&blamed, registers).all(steps);
        let older = self.lock().note.replace(Arc::new(note));
        drop((old, older));
    }

    /// Removes the old note and blames a culprit for its failure. Returns `None` if a new note is not worthwhile.
    fn prepare(&self, change: Option<Change>) -> Option<(Option<Arc<Note>>, FxHashMap<ChangeCause, u8>)> {
        let mut state = self.lock();
        state.held = state.held.saturating_add(1);
        if state.held == 1 || state.useless >= MAX_USELESS_NOTES || cpython::blind_spot().is_some() {
            // Most translations that have been used once are never used again.
            return None;
        }
        let old = state.note.take();
        if let (Some(old), Some(Change(culprit))) = (&old, change) {
            if old.served.load(Ordering::Relaxed) < MIN_SERVED_CALLS {
                state.useless += 1;
                *state.blamed.entry(culprit).or_default() += 1;
            }
        }
        Some((old, state.blamed.clone()))
    }
}

impl Note {
    fn ask<'py>(&self, steps: &[Step], frame: &impl FrameView<'py>) -> MemoryCheck {
        let nothing: Vec<Bound<'py, PyAny>> = Vec::new();
        let mut roots = Objects::new();
        for at in &self.roots {
            let Step::Fetch(fetch) = &steps[*at] else { return MemoryCheck::Fails(*at) };
            let Some(root) = fetch.run(frame, &nothing) else { return MemoryCheck::Fails(*at) };
            roots.push(root);
        }
        let values = match self.snapshot.check(frame.py(), &roots) {
            Ok(values) => values,
            Err(changed) => return MemoryCheck::Changed(Some(Change(self.culprit(changed)))),
        };
        let mut registers = NoteRegisters { places: &self.places, values };
        for at in &self.rest {
            let passes = match &steps[*at] {
                Step::Fetch(fetch) => fetch.run(frame, &registers).map(|value| registers.values.push(value)).is_some(),
                Step::Test(register, check) => check.run(registers.at(*register), &registers),
            };
            if !passes {
                return MemoryCheck::Fails(*at);
            }
        }
        self.served.fetch_add(1, Ordering::Relaxed);
        MemoryCheck::Same
    }

    fn culprit(&self, changed: Changed) -> ChangeCause {
        match changed {
            Changed::Root(at) => ChangeCause::Identity(self.root_registers.get(at).copied().unwrap_or_default()),
            Changed::Probe(at) => {
                let after = self.culprits.partition_point(|(end, _)| *end <= at);
                self.culprits.get(after).map_or(ChangeCause::Identity(0), |(_, culprit)| *culprit)
            }
        }
    }
}

/// Builds a note.
struct Noting<'a, 'py> {
    blamed: &'a FxHashMap<ChangeCause, u8>,
    values: &'a [Bound<'py, PyAny>],
    recorder: Recorder,
    /// Place in memory of each register's value; `None` where memory does not determine the value.
    known: Vec<Option<Place<'py>>>,
    roots: Vec<usize>,
    root_registers: Vec<Register>,
    wanted: usize,
    rest: Vec<usize>,
    culprits: Vec<(usize, ChangeCause)>,
}

impl<'a, 'py> Noting<'a, 'py> {
    fn new(blamed: &'a FxHashMap<ChangeCause, u8>, values: &'a [Bound<'py, PyAny>]) -> Self {
        Noting {
            blamed,
            values,
            recorder: Recorder::default(),
            known: Vec::new(),
            roots: Vec::new(),
            root_registers: Vec::new(),
            wanted: 0,
            rest: Vec::new(),
            culprits: Vec::new(),
        }
    }

    fn is_steady(&self, culprit: ChangeCause) -> bool {
        self.blamed.get(&culprit).is_none_or(|times| *times < MAX_BLAMES)
    }

    fn all(mut self, steps: &[Step]) -> Note {
        let loose = loose_roots(steps);
        for (at, step) in steps.iter().enumerate() {
            let told = match step {
                Step::Fetch(fetch) => {
                    let register = self.known.len() as Register;
                    let steady = self.is_steady(ChangeCause::Identity(register)) && !loose.contains(&register);
                    let place = if steady { self.fetch(at, register, fetch) } else { None };
                    self.known.push(place);
                    self.known[register as usize].is_some()
                }
                Step::Test(register, check) => {
                    let place = self.known[*register as usize].clone();
                    place.is_some_and(|place| self.test(*register, &place, check))
                }
            };
            if !told {
                self.rest.push(at);
            }
        }
        self.finish(steps)
    }

    /// Records where the value is in memory. Returns `None` if memory does not determine the value.
    fn fetch(&mut self, at: usize, register: Register, fetch: &Fetch) -> Option<Place<'py>> {
        let value = &self.values[register as usize];
        let py = value.py();
        if let Fetch::Argument(_) | Fetch::FreeCell(_) | Fetch::Globals | Fetch::Builtins = fetch {
            self.roots.push(at);
            self.root_registers.push(register);
            return Some(self.recorder.root(value));
        }
        let source = match fetch {
            Fetch::Constant(object) => return Some(self.recorder.keep(object.bind(py))),
            Fetch::GuardedKey(object) => return Some(object.place(value, &mut self.recorder)),
            Fetch::InstanceDict(of)
            | Fetch::Lookup(of, _)
            | Fetch::Type(of)
            | Fetch::Index(of, _)
            | Fetch::DictItem(of, _)
            | Fetch::CellContents(of)
            | Fetch::Part(of, _) => *of,
            _ => return None,
        };
        let of = self.known[source as usize].clone()?;
        let recorder = &mut self.recorder;
        let (place, culprit) = match fetch {
            Fetch::InstanceDict(_) => (Some(recorder.instance_dict(&of)), ChangeCause::Identity(register)),
            Fetch::Lookup(_, name) => (recorder.lookup(&of, name.bind(py)), ChangeCause::Identity(register)),
            Fetch::Type(_) => (Some(recorder.type_of(&of)), ChangeCause::Identity(register)),
            Fetch::Index(_, index) if !of.is_dict() => (recorder.index(&of, *index), ChangeCause::Identity(register)),
            Fetch::CellContents(_) => (recorder.contents(&of)?, ChangeCause::Identity(register)),
            Fetch::Part(_, part) => (recorder.part(&of, *part), ChangeCause::Identity(register)),
            Fetch::DictItem(_, key) => return self.item(source, register, &of, &key.get(py)?),
            _ => return None,
        };
        self.stands_for(culprit);
        place
    }

    fn item(
        &mut self,
        dict: Register,
        register: Register,
        of: &Place<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Option<Place<'py>> {
        let reading = self.reading(dict);
        let found = self.recorder.item(of, key, reading)?;
        let culprit = match reading {
            Reading::Version => ChangeCause::Contents(dict),
            Reading::Lookup => ChangeCause::Identity(register),
        };
        self.stands_for(culprit);
        found
    }

    fn reading(&self, dict: Register) -> Reading {
        if self.is_steady(ChangeCause::Contents(dict)) {
            Reading::Version
        } else {
            Reading::Lookup
        }
    }

    /// Blames this culprit for failures of the probes recorded since the last call.
    fn stands_for(&mut self, culprit: ChangeCause) {
        self.culprits.push((self.recorder.len(), culprit));
    }

    /// Records the memory that a test depends on. Returns whether memory decides the test.
    fn test(&mut self, register: Register, place: &Place<'py>, check: &Check) -> bool {
        let value = &self.values[register as usize];
        let py = value.py();
        let (by_version, by_key) = (self.is_steady(ChangeCause::Contents(register)), Reading::Lookup);
        let recorder = &mut self.recorder;
        let (told, culprit) = match check {
            Check::Is(object) => {
                object.note(place, recorder);
                (true, ChangeCause::Identity(register))
            }
            Check::TypeIs(ty) => {
                ty.note_type(place, recorder);
                (true, ChangeCause::Identity(register))
            }
            Check::Equals(_) => {
                let stays_equal = is_made_of_atoms(value);
                if stays_equal {
                    recorder.keep(value);
                }
                (stays_equal, ChangeCause::Identity(register))
            }
            Check::Length(_) => (recorder.length(place), ChangeCause::Contents(register)),
            // Which value is under the key does not matter, so the entry is not recorded.
            Check::Keys(_) | Check::HasKey(_) => (by_version && recorder.dict(place), ChangeCause::Contents(register)),
            Check::LacksKey(key) => {
                let Some(key) = key.get(py) else { return false };
                let reading = if by_version { Reading::Version } else { by_key };
                (recorder.item(place, &key, reading).is_some(), ChangeCause::Contents(register))
            }
            Check::LacksEntry(name) => {
                let reading = if by_version { Reading::Version } else { by_key };
                let told = !place.is_dict() || recorder.item(place, name.bind(py).as_any(), reading).is_some();
                recorder.type_of(place);
                (told, ChangeCause::Contents(register))
            }
            Check::LacksLookup(_) | Check::PlainReads => (recorder.lookups_of(place), ChangeCause::Contents(register)),
            Check::Subclass(class, _) => {
                class.note_alive(py, recorder);
                (recorder.lookups_of(place), ChangeCause::Contents(register))
            }
            Check::EmptySlot(_) | Check::LacksPart(_) | Check::Exhausted(_) | Check::Objects(..) => {
                (false, ChangeCause::Contents(register))
            }
            Check::EmptyCell => (recorder.contents(place).is_some(), ChangeCause::Identity(register)),
            Check::SameAs(_) | Check::DiffersFrom(_) | Check::Apart(..) => {
                let is_known = |other: &Register| self.known[*other as usize].is_some();
                (check.compared().iter().all(is_known), ChangeCause::Identity(register))
            }
            Check::Object(test) => (by_version && test.note(place, recorder), ChangeCause::Contents(register)),
        };
        self.stands_for(culprit);
        told
    }

    fn finish(mut self, steps: &[Step]) -> Note {
        let mut places = vec![u32::MAX; self.known.len()];
        let mut fetched = Vec::new();
        let mut register = 0;
        let registers: Vec<Option<Register>> = steps
            .iter()
            .map(|step| {
                matches!(step, Step::Fetch(_)).then(|| {
                    register += 1;
                    register - 1
                })
            })
            .collect();
        for &at in &self.rest {
            let mut used = Vec::new();
            match &steps[at] {
                Step::Fetch(fetch) => {
                    used.extend(sources(fetch));
                    fetched.extend(registers[at]);
                }
                Step::Test(register, check) => {
                    used.push(*register);
                    used.extend_from_slice(check.compared());
                }
            }
            for register in used {
                if let (Some(place), u32::MAX) = (&self.known[register as usize], places[register as usize]) {
                    places[register as usize] = self.recorder.want(place) as u32;
                    self.wanted += 1;
                }
            }
        }
        for (at, register) in fetched.into_iter().enumerate() {
            places[register as usize] = (self.wanted + at) as u32;
        }
        Note {
            snapshot: self.recorder.finish(),
            roots: self.roots,
            rest: self.rest,
            places,
            culprits: self.culprits,
            root_registers: self.root_registers,
            served: AtomicU32::new(0),
        }
    }
}

/// Registers of arguments that are tested by value or by a backend's test, such as tensors. These arguments are
/// usually other objects at each call.
fn loose_roots(steps: &[Step]) -> Vec<Register> {
    let tested = steps.iter().filter_map(|step| match step {
        Step::Test(register, Check::Object(_) | Check::Equals(_)) => Some(*register),
        _ => None,
    });
    let fetches = steps.iter().filter_map(|step| match step {
        Step::Fetch(fetch) => Some(fetch),
        Step::Test(..) => None,
    });
    let arguments: Vec<bool> = fetches.map(|fetch| matches!(fetch, Fetch::Argument(_))).collect();
    tested.filter(|register| arguments[*register as usize]).collect()
}

/// The registers that a fetch reads.
pub(super) fn sources(fetch: &Fetch) -> Vec<Register> {
    match fetch {
        Fetch::Argument(_)
        | Fetch::FreeCell(_)
        | Fetch::Globals
        | Fetch::Builtins
        | Fetch::Constant(_)
        | Fetch::GuardedKey(_) => Vec::new(),
        Fetch::Computed(_, of) => of.clone(),
        Fetch::InstanceDict(of)
        | Fetch::Lookup(of, _)
        | Fetch::Getattr(of, _)
        | Fetch::Own(of, _)
        | Fetch::Cached(of, ..)
        | Fetch::Type(of)
        | Fetch::Index(of, _)
        | Fetch::DictItem(of, _)
        | Fetch::DictEntry(of, _)
        | Fetch::CellContents(of)
        | Fetch::Last(of, _)
        | Fetch::Length(of)
        | Fetch::Upcoming(of, _)
        | Fetch::Iterated(of, _)
        | Fetch::Foreign(of, _)
        | Fetch::Part(of, _) => vec![*of],
    }
}

/// True if the value and all its parts are immutable, so that it always equals the same constant, and if it may be
/// kept alive.
fn is_made_of_atoms(value: &Bound<'_, PyAny>) -> bool {
    cpython::is_atom(value)
        || value.cast_exact::<PyTuple>().is_ok_and(|items| items.iter().all(|item| is_made_of_atoms(&item)))
}
