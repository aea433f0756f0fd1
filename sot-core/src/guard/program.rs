//! Native form of guards: a linear program of fetches and tests over registers. It runs no Python code: dicts are
//! read by text or constant keys, attributes are read from dicts and descriptor slots. `memo` skips most of the
//! program for guards that hold repeatedly.

use pyo3::prelude::*;
use pyo3::types::PyType;
use rustc_hash::{FxHashMap, FxHashSet};

use super::compile::Compiler;
use super::constants::same_constant;
use super::memo::{sources, GuardMemory, MemoryCheck};
use super::rejection::Rejection;
use super::steps::{Check, Fetch, Register, Registers, Step};
use super::{Guard, StateTest};
use crate::cpython;
use crate::stats;
use crate::tracker::{TrackerId, Trackers};
use crate::value_path::ValuePath;

/// The parts of a frame that guards may read before the frame runs.
pub trait FrameView<'py> {
    /// Returns the interpreter token.
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

/// Why the guards of a program do not hold.
enum Failure {
    /// The framework's global state differs.
    State,
    /// The step at this index fails.
    Step(usize),
}

/// Values that differed from what earlier translations assume, by path.
#[derive(Default)]
pub struct Differing {
    /// Numbers, texts and containers: number of translations that assume another value.
    pub numbers: FxHashMap<ValuePath, usize>,
    /// Sizes of tensors: number of translations that assume another size.
    pub sizes: FxHashMap<ValuePath, usize>,
}

/// Paths of a tested number.
struct NumberPaths {
    /// Path of the tested number itself.
    asked: ValuePath,
    /// Paths of the numbers it is computed from.
    leaves: Vec<ValuePath>,
}

impl NumberPaths {
    fn of(trackers: &Trackers, number: TrackerId) -> NumberPaths {
        let asked = trackers.path(number);
        let path = |leaf| if leaf == number { asked.clone() } else { trackers.path(leaf) };
        NumberPaths { leaves: trackers.leaves(number).into_iter().map(path).collect(), asked }
    }
}

/// True if these are two types, neither of which a program has made.
fn are_of_two_builtin_types<'py>(one: &Bound<'py, PyType>, other: &Bound<'py, PyType>) -> bool {
    !one.is(other) && !cpython::is_heap_type(one) && !cpython::is_heap_type(other)
}

/// The compiled guards of one translation.
#[derive(Default)]
pub struct GuardProgram {
    pub(super) state: Vec<Box<dyn StateTest>>,
    pub(super) steps: Vec<Step>,
    registers: usize,
    /// For each test of a value's contents, by step: the paths of the tested number or tensor.
    numbers: FxHashMap<usize, NumberPaths>,
    /// Path of the container, for each step that fetches an item.
    containers: FxHashMap<usize, ValuePath>,
    /// For each test against a class that was made within a function, by step: the path of the class or of its
    /// instance.
    made_classes: FxHashMap<usize, ValuePath>,
    pub(super) texts: GuardTexts,
    memory: Option<GuardMemory>,
    rejection: Rejection,
}

/// Texts of the guards, each for a range of steps, without the object that a test of identity compares with.
#[derive(Default)]
pub(super) struct GuardTexts {
    /// The texts, one behind the other.
    all: String,
    /// Where each text ends, and the number of steps up to the end of its guard.
    ends: Vec<(u32, u32)>,
}

impl GuardTexts {
    /// Returns the place behind which the next guard's text is written.
    fn begin(&mut self) -> &mut String {
        // Drops the text of a guard for which there is no step.
        self.all.truncate(self.ends.last().map_or(0, |(text, _)| *text as usize));
        &mut self.all
    }

    /// Ends the text of a guard whose steps end in front of step `steps`.
    fn end(&mut self, steps: usize) {
        let (text, steps) = (self.all.len() as u32, steps as u32);
        if self.ends.last().map_or(0, |(_, known)| *known) < steps {
            self.ends.push((text, steps));
        }
    }

    fn shrink(&mut self) {
        self.begin();
        self.all.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// Returns the text of the guard to which a step belongs, and the end of its steps.
    pub(super) fn at(&self, step: usize) -> Option<(&str, usize)> {
        let at = self.ends.partition_point(|(_, steps)| *steps as usize <= step);
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].0 as usize);
        let (text, steps) = self.ends.get(at)?;
        Some((&self.all[start..*text as usize], *steps as usize))
    }
}

/// Tracker of each step's guard. Valid only while the trace exists.
pub struct GuardSubjects(Vec<TrackerId>);

impl GuardSubjects {
    /// Tracker of the guard at a step.
    pub(crate) fn at(&self, step: usize) -> Option<TrackerId> {
        self.0.get(step).copied()
    }
}

impl GuardProgram {
    /// The program without guards, which holds for all frames.
    pub fn always() -> GuardProgram {
        GuardProgram::default()
    }

    pub(super) fn new(
        py: Python<'_>,
        state: Vec<Box<dyn StateTest>>,
        guards: Vec<Guard>,
        required: &[TrackerId],
        trackers: &Trackers,
    ) -> PyResult<(GuardProgram, GuardSubjects)> {
        let mut compiler = Compiler::new(py, trackers);
        let mut subjects = Vec::new();
        let mut texts = GuardTexts::default();
        let (mut numbers, mut made_classes) = (FxHashMap::default(), FxHashMap::default());
        for guard in guards {
            guard.write_start(py, trackers, texts.begin());
            let number = guard.asks_for_contents().then(|| NumberPaths::of(trackers, guard.subject));
            let made_class = guard.asks_for_made_class(py).then(|| trackers.path(guard.subject));
            let (steps, subject) = (compiler.len(), guard.subject);
            compiler.add(guard)?;
            if compiler.len() > steps {
                made_classes.extend(made_class.map(|path| (compiler.len() - 1, path)));
            }
            numbers.extend(number.map(|number| (compiler.len() - 1, number)));
            texts.end(compiler.len());
            subjects.resize(compiler.len(), subject);
        }
        for &tracker in required {
            compiler.fetch(tracker)?;
            let text = texts.begin();
            trackers.write_text(py, tracker, text);
            text.push_str(" is there");
            texts.end(compiler.len());
            subjects.resize(compiler.len(), tracker);
        }
        texts.shrink();
        let (steps, registers, containers) = compiler.finish();
        let containers = containers.into_iter().map(|(step, container)| (step, trackers.path(container))).collect();
        stats::work(steps.len());
        let program = GuardProgram {
            state,
            registers,
            steps,
            numbers,
            containers,
            made_classes,
            texts,
            memory: GuardMemory::unless_switched_off(),
            rejection: Rejection::default(),
        };
        Ok((program, GuardSubjects(subjects)))
    }

    /// Collects the sizes and numbers that now differ, and a container that lacks an item or has another length now.
    /// Stops there, and at a guard that fails for any other reason: the trace of such a call may meet other values
    /// behind it. A number on which several guards depend is counted once.
    pub fn differing<'py>(&self, frame: &impl FrameView<'py>, found: &mut Differing) {
        if !self.state_holds(frame.py()) {
            return;
        }
        let mut registers: Vec<Bound<'py, PyAny>> = Vec::with_capacity(self.registers);
        let mut counted = FxHashSet::default();
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Fetch(fetch) => match fetch.run(frame, &registers) {
                    Some(value) => registers.push(value),
                    None => {
                        if let Some(container) = self.containers.get(&at) {
                            *found.numbers.entry(container.clone()).or_default() += 1;
                        }
                        return;
                    }
                },
                Step::Test(register, check) => {
                    let value = registers.at(*register);
                    if check.run(value, &registers) {
                        continue;
                    }
                    let Some(NumberPaths { asked, leaves }) = self.numbers.get(&at) else { return };
                    let differing = match check {
                        Check::Object(test) => test.differing_sizes(value),
                        _ => Vec::new(),
                    };
                    if differing.is_empty() {
                        *found.numbers.entry(asked.clone()).or_default() += usize::from(counted.insert(asked));
                        for leaf in leaves {
                            found.numbers.entry(leaf.clone()).or_default();
                        }
                        if !matches!(check, Check::Equals(_)) {
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

    /// True if both programs assume a value of the same number, text or condition, and not the same value: no frame
    /// fits both.
    pub fn contradicts(&self, other: &GuardProgram, py: Python<'_>) -> bool {
        let assumed: FxHashMap<_, _> = self.assumed_values().collect();
        let differs = |(path, value): (&ValuePath, &Py<PyAny>)| {
            assumed.get(path).is_some_and(|known| !same_constant(known.bind(py), value.bind(py)))
        };
        other.assumed_values().any(differs)
    }

    /// The values of numbers, texts and conditions that the guards assume, with their paths.
    fn assumed_values(&self) -> impl Iterator<Item = (&ValuePath, &Py<PyAny>)> {
        self.steps.iter().enumerate().filter_map(|(at, step)| match step {
            Step::Test(_, Check::Equals(value)) => Some((&self.numbers.get(&at)?.asked, value)),
            _ => None,
        })
    }

    /// True if all assumptions hold for `frame`.
    pub fn check<'py>(&self, frame: &impl FrameView<'py>) -> bool {
        if self.rejection.holds(&self.steps, frame) || !self.state_holds(frame.py()) {
            return false;
        }
        let Some(memory) = &self.memory else { return self.walk(frame).is_some() };
        match memory.ask(&self.steps, frame) {
            MemoryCheck::Same => true,
            MemoryCheck::Fails(at) => {
                self.rejection.note(&self.steps, at);
                false
            }
            MemoryCheck::Changed(change) => match self.walk(frame) {
                Some(registers) => {
                    memory.learn(&self.steps, &registers, change);
                    true
                }
                None => false,
            },
        }
    }

    /// Runs all steps. Returns the fetched values, or `None` if a step fails; that step is asked first from now on.
    fn walk<'py>(&self, frame: &impl FrameView<'py>) -> Option<Vec<Bound<'py, PyAny>>> {
        match self.run_steps(frame) {
            Ok(registers) => Some(registers),
            Err(Failure::Step(at)) => {
                self.rejection.note(&self.steps, at);
                None
            }
            Err(Failure::State) => None,
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

    /// Runs all steps. Returns the fetched values, or the failing step.
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

    /// Number of fetches and tests, with the tests of the state.
    pub fn len(&self) -> usize {
        self.steps.len() + self.state.len()
    }

    /// True if the program assumes nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if an object that the guards compare by identity has died: the guards can never hold again.
    pub fn is_dead(&self, py: Python<'_>) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Test(
                _,
                Check::Is(object) | Check::TypeIs(object) | Check::HasKey(object) | Check::LacksKey(object),
            )
            | Step::Fetch(Fetch::GuardedKey(object) | Fetch::DictItem(_, object) | Fetch::DictEntry(_, object)) => {
                !object.is_alive(py)
            }
            Step::Test(_, Check::Keys(keys)) => keys.iter().any(|key| !key.is_alive(py)),
            _ => false,
        })
    }

    /// Slots of the arguments through which objects were reached that have died since.
    pub fn dead_arguments(&self, py: Python<'_>) -> FxHashSet<usize> {
        let dead = self.steps.iter().filter_map(|step| match step {
            Step::Test(register, Check::Is(object)) if !object.is_alive(py) => Some(*register),
            _ => None,
        });
        self.arguments_of(dead.collect())
    }

    /// Paths of classes made within functions, or of their instances, if the class has died since.
    pub fn dead_classes<'a>(&'a self, py: Python<'a>) -> impl Iterator<Item = &'a ValuePath> {
        let dead = move |at: &usize| match self.steps.get(*at) {
            Some(Step::Test(_, Check::Is(class) | Check::TypeIs(class))) => !class.is_alive(py),
            _ => false,
        };
        self.made_classes.iter().filter(move |(at, _)| dead(at)).map(|(_, path)| path)
    }

    /// Path of a class that was made within a function, or of its instance, if another class in its place is the
    /// first reason why the guards fail.
    pub fn other_class<'py>(&self, frame: &impl FrameView<'py>) -> Option<&ValuePath> {
        match self.run(frame).err()? {
            Failure::Step(at) => self.made_classes.get(&at),
            Failure::State => None,
        }
    }

    /// True if a guard fails because of something of which a program has only few: the framework's state, a tensor
    /// that differs in more than its sizes, an object of another built-in type, such as `None`, or another long-lived
    /// object in place of a living one. `lasts` tells which objects are long-lived. Sizes and numbers may differ, too:
    /// each of the few objects may meet several of them.
    pub fn fails_on_rare_difference<'py>(
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
                    let py = frame.py();
                    match check {
                        Check::Is(expected) => {
                            let expected = expected.get(py);
                            return expected.is_some_and(|expected| {
                                lasts(value) && lasts(&expected)
                                    || are_of_two_builtin_types(&value.get_type(), &expected.get_type())
                            });
                        }
                        Check::TypeIs(expected) => {
                            let expected = expected.get(py).and_then(|expected| expected.cast_into::<PyType>().ok());
                            return expected
                                .is_some_and(|expected| are_of_two_builtin_types(&value.get_type(), &expected));
                        }
                        Check::Object(test) if test.differing_sizes(value).is_empty() => return lasts(value),
                        Check::Equals(expected)
                            if are_of_two_builtin_types(&value.get_type(), &expected.bind(py).get_type()) =>
                        {
                            return true;
                        }
                        Check::Object(_) | Check::Equals(_) => {}
                        _ => return false,
                    }
                }
            }
        }
        false
    }

    /// Slots of the arguments through which another object is reached now, if a test of identity is the first that
    /// fails.
    pub fn other_arguments<'py>(&self, frame: &impl FrameView<'py>) -> FxHashSet<usize> {
        match self.run(frame).err() {
            Some(Failure::Step(at)) => match self.steps.get(at) {
                Some(Step::Test(register, Check::Is(_))) => self.arguments_of(vec![*register]),
                _ => FxHashSet::default(),
            },
            _ => FxHashSet::default(),
        }
    }

    /// Slots of the arguments that these registers are fetched from.
    fn arguments_of(&self, mut registers: Vec<Register>) -> FxHashSet<usize> {
        let mut arguments = FxHashSet::default();
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
