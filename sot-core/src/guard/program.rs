//! The native form of guards: a straight line of fetches and tests over registers. It runs no Python code: dicts are
//! read by text or constant keys, attributes from dicts and descriptor slots. `memo` spares most of it for guards that
//! hold repeatedly.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PyRange, PyString, PyTuple, PyType};

use super::compile::Compiler;
use super::memo::{sources, GuardMemory, Seen};
use super::{Guard, Identity, ObjectTest, ObjectsTest, StateTest};
use crate::cpython::{self, LruCache, Part, Upcoming};
use crate::foreign::Foreign;
use crate::stats;
use crate::tracker::{Computation, TrackerId, Trackers};
use crate::value_path::ValuePath;

/// What guards may ask of a frame about to run.
pub trait FrameView<'py> {
    /// The interpreter token.
    fn py(&self) -> Python<'py>;
    /// Argument `slot`; `None` if unbound.
    fn argument(&self, slot: usize) -> Option<Bound<'py, PyAny>>;
    /// The cell of free variable `index`.
    fn free_cell(&self, index: usize) -> Option<Bound<'py, PyAny>>;
    /// The globals dict.
    fn globals(&self) -> Bound<'py, PyAny>;
    /// The builtins dict.
    fn builtins(&self) -> Bound<'py, PyAny>;
}

/// Index of a value fetched.
pub(super) type Register = u32;

pub(super) enum Step {
    Fetch(Fetch),
    Test(Register, Check),
}

/// Why guards do not hold.
enum Failure {
    /// Something in the framework's global state.
    State,
    /// The step at this position.
    Step(usize),
}

pub(super) enum Fetch {
    Argument(usize),
    FreeCell(usize),
    Globals,
    Builtins,
    Constant(Py<PyAny>),
    /// A key, as long as it is alive.
    Found(Identity),
    /// The object's own dict; `None` if it has no such thing.
    InstanceDict(Register),
    Lookup(Register, Py<PyString>),
    Getattr(Register, Py<PyString>),
    /// As above, and no method of the program's is asked.
    Own(Register, Py<PyString>),
    /// What a cached function has for this key, and these arguments. It computes it anew if it has dropped it. Where
    /// that drops another value, only if it is asked for the first time: which one that is depends on the calls before.
    Cached(Register, [Py<PyAny>; 3], bool),
    Type(Register),
    Index(Register, usize),
    /// Counted from the end of a list.
    Last(Register, usize),
    DictItem(Register, Identity),
    /// As above, for a key whose methods are the program's: found by its identity.
    DictEntry(Register, Identity),
    CellContents(Register),
    Part(Register, Part),
    Length(Register),
    Upcoming(Register, usize),
    Iterated(Register, usize),
    Foreign(Register, Foreign),
    Computed(Computation, Vec<Register>),
}

pub(super) enum Check {
    Is(Identity),
    TypeIs(Identity),
    Equals(Py<PyAny>),
    Length(usize),
    Keys(Vec<Identity>),
    LacksKey(Identity),
    /// As above, but passes for what is no dict.
    LacksEntry(Py<PyString>),
    LacksLookup(Py<PyString>),
    PlainReads,
    Subclass(Identity, bool),
    EmptySlot(Py<PyString>),
    LacksPart(Part),
    EmptyCell,
    Exhausted(usize),
    SameAs(Register),
    DiffersFrom(Register),
    /// The first so many differ from each other and from the rest.
    Apart(Box<[Register]>, usize),
    Object(Box<dyn ObjectTest>),
    /// The others, besides the one that is tested.
    Objects(Box<[Register]>, Box<dyn ObjectsTest>),
}

/// What was another value in earlier calls, by path.
#[derive(Default)]
pub struct Differing {
    /// Numbers, texts and containers with other contents, and in how many translations.
    pub numbers: HashMap<ValuePath, usize>,
    /// Sizes of tensors, and in how many translations.
    pub sizes: HashMap<ValuePath, usize>,
}

/// Where a number comes from, and what it is computed from.
struct Numbers {
    /// The number that is asked for.
    asked: ValuePath,
    /// What it is computed from in the end.
    leaves: Vec<ValuePath>,
}

/// The compiled guards of one translation.
pub struct GuardProgram {
    pub(super) state: Vec<Box<dyn StateTest>>,
    pub(super) steps: Vec<Step>,
    registers: usize,
    /// Where the numbers come from, or the tensors, that the tests at these positions ask for.
    numbers: HashMap<usize, Numbers>,
    /// Where the classes come from that the tests at these positions compare with, or their objects, if functions made
    /// them.
    made_classes: HashMap<usize, ValuePath>,
    /// By step.
    pub(super) texts: Vec<Arc<str>>,
    memory: Option<GuardMemory>,
}

impl GuardProgram {
    pub(super) fn new(
        py: Python<'_>,
        state: Vec<Box<dyn StateTest>>,
        guards: Vec<Guard>,
        roads: &[TrackerId],
        trackers: &Trackers,
    ) -> PyResult<GuardProgram> {
        let mut compiler = Compiler::new(py, trackers);
        let (mut texts, mut numbers, mut made_classes) = (Vec::new(), HashMap::new(), HashMap::new());
        for guard in guards {
            let text = guard.text(py, trackers);
            let number = guard.asks_for_contents().then(|| Numbers {
                asked: trackers.path(guard.subject),
                leaves: trackers.leaves(guard.subject).into_iter().map(|leaf| trackers.path(leaf)).collect(),
            });
            let made_class = guard.asks_for_made_class(py).then(|| trackers.path(guard.subject));
            let steps = compiler.len();
            compiler.add(guard)?;
            if compiler.len() > steps {
                made_classes.extend(made_class.map(|path| (compiler.len() - 1, path)));
            }
            numbers.extend(number.map(|number| (compiler.len() - 1, number)));
            texts.resize(compiler.len(), text.into());
        }
        for &road in roads {
            compiler.fetch(road)?;
            texts.resize(compiler.len(), format!("{} is there", trackers.text(py, road)).into());
        }
        let (steps, registers) = compiler.finish();
        stats::work(steps.len());
        Ok(GuardProgram {
            state,
            registers,
            steps,
            numbers,
            made_classes,
            texts,
            memory: GuardMemory::unless_switched_off(),
        })
    }

    /// Adds the sizes and the first number that are others now, up to where the guards do not hold for another reason.
    /// An answer that is another one now tells of another way through the code: the numbers behind it are looked at,
    /// too.
    pub fn differing<'py>(&self, frame: &impl FrameView<'py>, found: &mut Differing) {
        if !self.state_holds(frame.py()) {
            return;
        }
        let mut registers: Vec<Bound<'py, PyAny>> = Vec::with_capacity(self.registers);
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Fetch(fetch) => match fetch.run(frame, &registers) {
                    Some(value) => registers.push(value),
                    None => return,
                },
                Step::Test(register, check) => {
                    let value = registers.at(*register);
                    if check.run(value, &registers) {
                        continue;
                    }
                    let Some(Numbers { asked, leaves }) = self.numbers.get(&at) else { return };
                    let differing = match check {
                        Check::Object(test) => test.differing_sizes(value),
                        _ => Vec::new(),
                    };
                    if differing.is_empty() {
                        *found.numbers.entry(asked.clone()).or_default() += 1;
                        for leaf in leaves {
                            found.numbers.entry(leaf.clone()).or_default();
                        }
                        if !check.is_of_answer(frame.py()) {
                            return;
                        }
                    }
                    for axis in differing {
                        *found.sizes.entry(asked.size(axis)).or_default() += 1;
                    }
                }
            }
        }
    }

    /// Whether everything assumed holds for `frame`.
    pub fn check<'py>(&self, frame: &impl FrameView<'py>) -> bool {
        if !self.state_holds(frame.py()) {
            return false;
        }
        let Some(memory) = &self.memory else { return self.run_steps(frame).is_ok() };
        match memory.ask(&self.steps, frame) {
            Seen::Same => true,
            Seen::Fails => false,
            Seen::Changed(change) => match self.run_steps(frame) {
                Ok(registers) => {
                    memory.learn(&self.steps, &registers, change);
                    true
                }
                Err(_) => false,
            },
        }
    }

    fn state_holds(&self, py: Python<'_>) -> bool {
        self.state.iter().all(|test| test.check(py))
    }

    fn run<'py>(&self, frame: &impl FrameView<'py>) -> Result<(), Failure> {
        if !self.state_holds(frame.py()) {
            return Err(Failure::State);
        }
        self.run_steps(frame).map(drop)
    }

    /// What all fetches gave.
    fn run_steps<'py>(&self, frame: &impl FrameView<'py>) -> Result<Vec<Bound<'py, PyAny>>, Failure> {
        let mut registers: Vec<Bound<'py, PyAny>> = Vec::with_capacity(self.registers);
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Fetch(fetch) => registers.push(fetch.run(frame, &registers).ok_or(Failure::Step(at))?),
                Step::Test(register, check) => {
                    if !check.run(registers.at(*register), &registers) {
                        return Err(Failure::Step(at));
                    }
                }
            }
        }
        Ok(registers)
    }

    /// Number of tests and fetches.
    pub fn len(&self) -> usize {
        self.steps.len() + self.state.len()
    }

    /// Whether the program assumes nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether some object compared by identity has died: the guards can never hold again.
    pub fn is_dead(&self, py: Python<'_>) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Test(_, Check::Is(object) | Check::TypeIs(object) | Check::LacksKey(object))
            | Step::Fetch(Fetch::Found(object) | Fetch::DictItem(_, object) | Fetch::DictEntry(_, object)) => {
                !object.is_alive(py)
            }
            Step::Test(_, Check::Keys(keys)) => keys.iter().any(|key| !key.is_alive(py)),
            _ => false,
        })
    }

    /// The arguments through which objects were found that have died since.
    pub fn dead_arguments(&self, py: Python<'_>) -> HashSet<usize> {
        let dead = self.steps.iter().filter_map(|step| match step {
            Step::Test(register, Check::Is(object)) if !object.is_alive(py) => Some(*register),
            _ => None,
        });
        self.arguments_of(dead.collect())
    }

    /// Where classes come from, or their objects, that functions made and that have died since.
    pub fn dead_classes<'a>(&'a self, py: Python<'a>) -> impl Iterator<Item = &'a ValuePath> {
        let dead = move |at: &usize| match self.steps.get(*at) {
            Some(Step::Test(_, Check::Is(class) | Check::TypeIs(class))) => !class.is_alive(py),
            _ => false,
        };
        self.made_classes.iter().filter(move |(at, _)| dead(at)).map(|(_, path)| path)
    }

    /// Where another class comes from now than one that a function made, or an object of another, if that is the first
    /// thing that keeps the guards from holding.
    pub fn other_class<'py>(&self, frame: &impl FrameView<'py>) -> Option<&ValuePath> {
        match self.run(frame).err()? {
            Failure::Step(at) => self.made_classes.get(&at),
            Failure::State => None,
        }
    }

    /// Whether the first thing that keeps the guards from holding is one of which a program has few: the framework's
    /// state, another object than one that is alive, where `lasts` holds of both, or a tensor that differs in more than
    /// sizes.
    pub fn is_for_another<'py>(
        &self,
        frame: &impl FrameView<'py>,
        lasts: &impl Fn(&Bound<'py, PyAny>) -> bool,
    ) -> bool {
        if !self.state_holds(frame.py()) {
            return true;
        }
        let mut registers: Vec<Bound<'py, PyAny>> = Vec::with_capacity(self.registers);
        for step in &self.steps {
            match step {
                Step::Fetch(fetch) => match fetch.run(frame, &registers) {
                    Some(value) => registers.push(value),
                    None => return false,
                },
                Step::Test(register, check) => {
                    let value = registers.at(*register);
                    if check.run(value, &registers) {
                        continue;
                    }
                    return match check {
                        Check::Is(expected) => {
                            lasts(value) && expected.get(frame.py()).is_some_and(|expected| lasts(&expected))
                        }
                        Check::Object(test) => lasts(value) && test.differing_sizes(value).is_empty(),
                        _ => false,
                    };
                }
            }
        }
        false
    }

    /// The arguments through which another object comes now, if that is the first thing that keeps the guards from
    /// holding.
    pub fn other_arguments<'py>(&self, frame: &impl FrameView<'py>) -> HashSet<usize> {
        match self.run(frame).err() {
            Some(Failure::Step(at)) => match self.steps.get(at) {
                Some(Step::Test(register, Check::Is(_))) => self.arguments_of(vec![*register]),
                _ => HashSet::new(),
            },
            _ => HashSet::new(),
        }
    }

    /// The arguments from which these registers are fetched.
    fn arguments_of(&self, mut registers: Vec<Register>) -> HashSet<usize> {
        let mut arguments = HashSet::new();
        if registers.is_empty() {
            return arguments;
        }
        let fetches = self.steps.iter().filter_map(|step| match step {
            Step::Fetch(fetch) => Some(fetch),
            Step::Test(..) => None,
        });
        let fetches: Vec<&Fetch> = fetches.collect();
        while let Some(fetch) = registers.pop().and_then(|register| fetches.get(register as usize)) {
            if let Fetch::Argument(slot) = fetch {
                arguments.insert(*slot);
            }
            registers.extend(sources(fetch));
        }
        arguments
    }
}

/// The values fetched so far.
pub(super) trait Registers<'py> {
    /// One of them.
    fn at(&self, register: Register) -> &Bound<'py, PyAny>;
}

impl<'py> Registers<'py> for Vec<Bound<'py, PyAny>> {
    #[inline]
    fn at(&self, register: Register) -> &Bound<'py, PyAny> {
        &self[register as usize]
    }
}

impl Fetch {
    /// The value, or `None` if the road to it is gone: the guard fails.
    #[inline]
    pub(super) fn run<'py>(
        &self,
        frame: &impl FrameView<'py>,
        registers: &impl Registers<'py>,
    ) -> Option<Bound<'py, PyAny>> {
        let py = frame.py();
        let at = |register: &Register| registers.at(*register);
        match self {
            Fetch::Argument(slot) => frame.argument(*slot),
            Fetch::FreeCell(index) => frame.free_cell(*index),
            Fetch::Globals => Some(frame.globals()),
            Fetch::Builtins => Some(frame.builtins()),
            Fetch::Constant(object) => Some(object.bind(py).clone()),
            Fetch::Found(object) => object.get(py),
            Fetch::InstanceDict(of) => {
                Some(cpython::instance_dict(at(of)).map_or_else(|| py.None().into_bound(py), Bound::into_any))
            }
            Fetch::Lookup(of, name) => cpython::type_lookup(at(of).cast::<PyType>().ok()?, name.bind(py)),
            Fetch::Getattr(of, name) => at(of).getattr(name.bind(py)).ok(),
            Fetch::Own(of, name) => cpython::generic_getattr(at(of), name.bind(py)).ok().flatten(),
            Fetch::Cached(of, [key, args, keywords], is_first) => {
                let (key, args, keywords) = (key.bind(py), args.bind(py).cast().ok()?, keywords.bind(py).cast().ok()?);
                let cache = LruCache::of(at(of))?;
                if *is_first || !cache.is_full() {
                    return cache.ask(key, args, keywords).ok();
                }
                cache.kept(key)
            }
            Fetch::Type(of) => Some(at(of).get_type().into_any()),
            Fetch::Index(of, index) => item(at(of), *index),
            Fetch::Last(of, back) => {
                let list = at(of).cast::<PyList>().ok()?;
                list.get_item(list.len().checked_sub(*back)?).ok()
            }
            Fetch::DictItem(of, key) => {
                let key = key.get(py)?;
                match at(of).cast::<PyDict>() {
                    Ok(dict) => cpython::dict_get(dict, &key),
                    Err(_) => cpython::dict_get(&cpython::proxied_dict(at(of))?, &key),
                }
            }
            Fetch::DictEntry(of, key) => {
                let mut entries = dict_of(at(of))?.iter();
                entries.find(|(known, _)| key.is(known)).map(|(_, value)| value)
            }
            Fetch::CellContents(of) => cpython::cell_contents(at(of)),
            Fetch::Part(of, part) => part.of(at(of)),
            Fetch::Length(of) => at(of).cast::<PyList>().ok()?.len().into_pyobject(py).ok().map(Bound::into_any),
            Fetch::Upcoming(of, after) => match cpython::upcoming(at(of), *after)? {
                Upcoming::Item(item) => Some(item),
                Upcoming::End => None,
            },
            Fetch::Computed(how, of) => how.apply(&of.iter().map(|of| at(of).clone()).collect::<Vec<_>>()),
            Fetch::Foreign(of, how) => how.0.fetch(at(of)),
            Fetch::Iterated(of, index) => cpython::iterated(at(of))?.into_iter().nth(*index),
        }
    }
}

fn item<'py>(of: &Bound<'py, PyAny>, index: usize) -> Option<Bound<'py, PyAny>> {
    if let Ok(tuple) = of.cast::<PyTuple>() {
        tuple.get_item(index).ok()
    } else if let Ok(list) = of.cast::<PyList>() {
        list.get_item(index).ok()
    } else if cpython::is_deque(of) {
        of.get_item(index).ok()
    } else {
        dict_of(of)?.get_item(index).ok().flatten()
    }
}

/// The dict, or the one behind a proxy.
fn dict_of<'py>(of: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
    of.cast::<PyDict>().ok().cloned().or_else(|| cpython::proxied_dict(of))
}

impl Check {
    /// Whether it asks which of two answers a comparison gives.
    fn is_of_answer(&self, py: Python<'_>) -> bool {
        matches!(self, Check::Equals(constant) if constant.bind(py).is_instance_of::<PyBool>())
    }

    #[inline]
    pub(super) fn run<'py>(&self, value: &Bound<'py, PyAny>, registers: &impl Registers<'py>) -> bool {
        let py = value.py();
        match self {
            Check::Is(object) => object.is(value),
            Check::TypeIs(ty) => ty.is_type_of(value),
            Check::Equals(constant) => same_constant(value, constant.bind(py)),
            Check::Length(n) => length(value) == Some(*n),
            Check::Keys(keys) => has_keys(value, keys),
            Check::LacksKey(key) => {
                let lacks = |key| value.cast::<PyDict>().is_ok_and(|dict| cpython::dict_lacks(dict, &key));
                key.get(py).is_some_and(lacks)
            }
            Check::LacksEntry(name) => {
                value.cast::<PyDict>().map_or(true, |dict| cpython::dict_lacks(dict, name.bind(py)))
            }
            Check::LacksLookup(name) => {
                value.cast::<PyType>().is_ok_and(|ty| cpython::type_lookup(ty, name.bind(py)).is_none())
            }
            Check::PlainReads => value.cast::<PyType>().is_ok_and(cpython::uses_generic_getattr),
            Check::Subclass(class, is) => class.is_base_of(value) == *is,
            Check::EmptySlot(name) => !matches!(cpython::generic_getattr(value, name.bind(py)), Ok(Some(_))),
            Check::LacksPart(part) => part.of(value).is_none(),
            Check::EmptyCell => cpython::cell_contents(value).is_none(),
            Check::Exhausted(after) => matches!(cpython::upcoming(value, *after), Some(Upcoming::End)),
            Check::SameAs(other) => value.is(registers.at(*other)),
            Check::DiffersFrom(other) => !value.is(registers.at(*other)),
            Check::Apart(all, written) => {
                let (written, others) = all.split_at(*written);
                let address = |register: &Register| registers.at(*register).as_ptr() as usize;
                let mut seen = HashSet::with_capacity(written.len());
                written.iter().all(|register| seen.insert(address(register)))
                    && !others.iter().any(|register| seen.contains(&address(register)))
            }
            Check::Object(test) => test.check(value),
            Check::Objects(others, test) => {
                let others = others.iter().map(|register| registers.at(*register));
                test.check(&std::iter::once(value).chain(others).collect::<Vec<_>>())
            }
        }
    }

    /// The registers that the value is compared with.
    pub(super) fn compared(&self) -> &[Register] {
        match self {
            Check::SameAs(other) | Check::DiffersFrom(other) => std::slice::from_ref(other),
            Check::Apart(all, _) => all,
            Check::Objects(others, _) => others,
            _ => &[],
        }
    }
}

/// Whether hashing or comparing the object may run the program's code.
pub(super) fn may_run_code(object: &Bound<'_, PyAny>) -> bool {
    match object.cast_exact::<PyTuple>() {
        Ok(tuple) => tuple.iter().any(|item| may_run_code(&item)),
        Err(_) => cpython::is_heap_type(&object.get_type()),
    }
}

/// Equality of constants: one type, and the same value bit for bit where floats are concerned.
#[inline]
pub fn same_constant(value: &Bound<'_, PyAny>, constant: &Bound<'_, PyAny>) -> bool {
    value.is(constant) || equal_constants(value, constant)
}

fn equal_constants(value: &Bound<'_, PyAny>, constant: &Bound<'_, PyAny>) -> bool {
    if !value.get_type().is(constant.get_type()) {
        return false;
    }
    if let (Ok(a), Ok(b)) = (value.cast_exact::<PyFloat>(), constant.cast_exact::<PyFloat>()) {
        return a.value().to_bits() == b.value().to_bits();
    }
    if let (Ok(a), Ok(b)) = (value.cast_exact::<PyTuple>(), constant.cast_exact::<PyTuple>()) {
        return a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same_constant(&a, &b));
    }
    // An equal one may hold other elements, and iterate in another order.
    if let (Ok(a), Ok(b)) = (value.cast_exact::<PyFrozenSet>(), constant.cast_exact::<PyFrozenSet>()) {
        return a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same_constant(&a, &b));
    }
    // Code that is equal may still have other lines.
    if value.is_exact_instance_of::<pyo3::types::PyCode>() {
        return false;
    }
    if value.is_exact_instance_of::<pyo3::types::PyComplex>() {
        return value.repr().is_ok_and(|a| constant.repr().is_ok_and(|b| a.to_string() == b.to_string()));
    }
    value.eq(constant).unwrap_or(false) && (is_told_by_equality(value) || look_alike(value, constant).unwrap_or(false))
}

fn is_told_by_equality(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyBytes>()
}

/// Whether two equal values of one type have the same parts: ranges of the same numbers have other ends, times of one
/// moment are in other zones, and numbers of numpy's have a sign and a unit.
fn look_alike(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = a.py();
    let parts = if a.is_exact_instance_of::<PyRange>() {
        [intern!(py, "start"), intern!(py, "stop"), intern!(py, "step")]
    } else if a.hasattr(intern!(py, "fold"))? {
        [intern!(py, "tzinfo"), intern!(py, "fold"), intern!(py, "resolution")]
    } else if a.hasattr(intern!(py, "dtype"))? {
        let bytes = intern!(py, "tobytes");
        let same_bytes = a.call_method0(bytes)?.eq(b.call_method0(bytes)?)?;
        return Ok(same_bytes && a.getattr(intern!(py, "dtype"))?.eq(b.getattr(intern!(py, "dtype"))?)?);
    } else {
        return Ok(true);
    };
    for part in parts {
        if !same_constant(&a.getattr(part)?, &b.getattr(part)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn length(value: &Bound<'_, PyAny>) -> Option<usize> {
    if let Ok(tuple) = value.cast::<PyTuple>() {
        Some(tuple.len())
    } else if let Ok(list) = value.cast::<PyList>() {
        Some(list.len())
    } else if let Ok(dict) = value.cast::<PyDict>() {
        Some(dict.len())
    } else if cpython::is_deque(value) {
        value.len().ok()
    } else {
        value.cast::<pyo3::types::PySet>().ok().map(pyo3::types::PySetMethods::len)
    }
}

fn has_keys(value: &Bound<'_, PyAny>, keys: &[Identity]) -> bool {
    let Some(dict) = dict_of(value) else { return false };
    dict.len() == keys.len()
        && dict.iter().zip(keys).all(|((key, _), expected)| {
            let same = |expected| same_key(&key, &expected);
            expected.is(&key) || !may_run_code(&key) && expected.get(value.py()).is_some_and(same)
        })
}

/// Whether a key does for another one: as a constant does, but what is not even equal to itself (`nan`) is told by its
/// identity.
fn same_key(key: &Bound<'_, PyAny>, expected: &Bound<'_, PyAny>) -> bool {
    if let (Ok(items), Ok(others)) = (key.cast_exact::<PyTuple>(), expected.cast_exact::<PyTuple>()) {
        return items.len() == others.len() && items.iter().zip(others.iter()).all(|(a, b)| same_key(&a, &b));
    }
    if let (Ok(items), Ok(others)) = (key.cast_exact::<PyFrozenSet>(), expected.cast_exact::<PyFrozenSet>()) {
        return items.len() == others.len() && items.iter().zip(others.iter()).all(|(a, b)| same_key(&a, &b));
    }
    key.is(expected) || same_constant(key, expected) && key.eq(key).unwrap_or(false)
}
