//! The native form of guards: a straight line of fetches and tests over registers. It runs no Python code: dicts are
//! read by text or constant keys, attributes from dicts and descriptor slots. `memo` spares most of it for guards that
//! hold repeatedly.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pyo3::prelude::*;

use super::compile::Compiler;
use super::memo::{sources, GuardMemory, Seen};
use super::rejection::Rejection;
use super::steps::{Check, Fetch, Register, Registers, Step};
use super::{Guard, StateTest};
use crate::stats;
use crate::tracker::{TrackerId, Trackers};
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

/// Why guards do not hold.
enum Failure {
    /// Something in the framework's global state.
    State,
    /// The step at this position.
    Step(usize),
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
    rejection: Rejection,
}

/// The values that the guards of a program are about, as long as the trace is there that has found them.
pub struct GuardSubjects(Vec<TrackerId>);

impl GuardSubjects {
    /// What the guard at a step is about.
    pub(crate) fn at(&self, step: usize) -> Option<TrackerId> {
        self.0.get(step).copied()
    }
}

impl GuardProgram {
    pub(super) fn new(
        py: Python<'_>,
        state: Vec<Box<dyn StateTest>>,
        guards: Vec<Guard>,
        required: &[TrackerId],
        trackers: &Trackers,
    ) -> PyResult<(GuardProgram, GuardSubjects)> {
        let mut compiler = Compiler::new(py, trackers);
        let mut subjects = Vec::new();
        let (mut texts, mut numbers, mut made_classes) = (Vec::new(), HashMap::new(), HashMap::new());
        for guard in guards {
            let text = guard.text(py, trackers);
            let number = guard.asks_for_contents().then(|| Numbers {
                asked: trackers.path(guard.subject),
                leaves: trackers.leaves(guard.subject).into_iter().map(|leaf| trackers.path(leaf)).collect(),
            });
            let made_class = guard.asks_for_made_class(py).then(|| trackers.path(guard.subject));
            let (steps, subject) = (compiler.len(), guard.subject);
            compiler.add(guard)?;
            if compiler.len() > steps {
                made_classes.extend(made_class.map(|path| (compiler.len() - 1, path)));
            }
            numbers.extend(number.map(|number| (compiler.len() - 1, number)));
            texts.resize(compiler.len(), text.into());
            subjects.resize(compiler.len(), subject);
        }
        for &tracker in required {
            compiler.fetch(tracker)?;
            texts.resize(compiler.len(), format!("{} is there", trackers.text(py, tracker)).into());
            subjects.resize(compiler.len(), tracker);
        }
        let (steps, registers) = compiler.finish();
        stats::work(steps.len());
        let program = GuardProgram {
            state,
            registers,
            steps,
            numbers,
            made_classes,
            texts,
            memory: GuardMemory::unless_switched_off(),
            rejection: Rejection::default(),
        };
        Ok((program, GuardSubjects(subjects)))
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
        if self.rejection.holds(&self.steps, frame) || !self.state_holds(frame.py()) {
            return false;
        }
        let Some(memory) = &self.memory else { return self.walk(frame).is_some() };
        match memory.ask(&self.steps, frame) {
            Seen::Same => true,
            Seen::Fails(at) => {
                self.rejection.note(&self.steps, at);
                false
            }
            Seen::Changed(change) => match self.walk(frame) {
                Some(registers) => {
                    memory.learn(&self.steps, &registers, change);
                    true
                }
                None => false,
            },
        }
    }

    /// What all fetches gave; if a step fails, it is the one to ask first from now on.
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
