//! Runs the test that failed last before all others. The entries of one function usually differ in the same test, so
//! most entries that do not fit are rejected by a single test.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;

use super::memo::sources;
use super::program::FrameView;
use super::steps::{Check, Fetch, Register, Registers, Step};
use crate::cpython::Objects;

/// Maximum number of steps that a test may need to be asked first.
const MAX_STEPS: usize = 12;
/// Maximum number of tests that are tried as the first test of one program.
const MAX_TESTS: u32 = 16;
/// Maximum number of passes in a row after which a test is no longer asked first.
const MAX_PASSES: u32 = 64;

/// The test of a guard program that failed last, with the steps that it needs.
#[derive(Default)]
pub(super) struct Rejection {
    is_known: AtomicBool,
    state: Mutex<FirstTest>,
}

#[derive(Default)]
struct FirstTest {
    path: Option<Arc<TestPath>>,
    tried: u32,
    passes: u32,
}

/// The steps up to a test, as indices in the program, and the registers they fill, in that order.
struct TestPath {
    steps: Vec<usize>,
    registers: Vec<Register>,
}

/// The registers filled by the steps of a [`TestPath`].
struct PathRegisters<'a, 'py> {
    registers: &'a [Register],
    values: Objects<'py>,
}

impl<'py> Registers<'py> for PathRegisters<'_, 'py> {
    #[inline]
    fn at(&self, register: Register) -> &Bound<'py, PyAny> {
        let at = self.registers.iter().position(|known| *known == register);
        &self.values[at.unwrap_or_default()]
    }
}

impl Rejection {
    fn lock(&self) -> MutexGuard<'_, FirstTest> {
        self.state.lock()
    }

    /// True if the test that failed last fails again.
    #[inline]
    pub(super) fn holds<'py>(&self, steps: &[Step], frame: &impl FrameView<'py>) -> bool {
        self.is_known.load(Ordering::Relaxed) && self.ask(steps, frame)
    }

    fn ask<'py>(&self, steps: &[Step], frame: &impl FrameView<'py>) -> bool {
        let Some(path) = self.lock().path.clone() else { return false };
        let fails = path.fails(steps, frame);
        let mut state = self.lock();
        state.passes = if fails { 0 } else { state.passes + 1 };
        if state.passes > MAX_PASSES {
            state.path = None;
            self.is_known.store(false, Ordering::Relaxed);
        }
        fails
    }

    /// Notes that the step at this index has failed.
    pub(super) fn note(&self, steps: &[Step], at: usize) {
        let mut state = self.lock();
        if state.tried == MAX_TESTS || state.path.as_ref().is_some_and(|path| path.steps.last() == Some(&at)) {
            return;
        }
        state.tried += 1;
        state.passes = 0;
        state.path = TestPath::to(steps, at).map(Arc::new);
        self.is_known.store(state.path.is_some(), Ordering::Relaxed);
    }
}

impl TestPath {
    /// Returns the steps needed for the step at an index. Returns `None` if they are many, or if one may run the
    /// program's code.
    fn to(steps: &[Step], at: usize) -> Option<TestPath> {
        // The needed registers are found backwards. Earlier tests of these registers are included, because later
        // steps rely on them.
        let fetched: Vec<usize> = (0..=at).filter(|at| matches!(steps[*at], Step::Fetch(_))).collect();
        let (mut needed, mut todo) = (Vec::new(), of_step(&steps[at], fetched.len()));
        while let Some(register) = todo.pop() {
            let Step::Fetch(fetch) = &steps[*fetched.get(register as usize)?] else { return None };
            if !needed.contains(&register) {
                needed.push(register);
                todo.extend(sources(fetch));
            }
            if needed.len() > MAX_STEPS {
                return None;
            }
        }
        needed.sort_unstable();
        let is_on_it = |position: &usize| match &steps[*position] {
            _ if *position == at => true,
            Step::Fetch(_) => needed.iter().any(|register| fetched[*register as usize] == *position),
            Step::Test(register, check) => needed.contains(register) && check.compared().is_empty(),
        };
        let positions: Vec<usize> = (0..=at).filter(is_on_it).collect();
        let is_short = positions.len() <= MAX_STEPS && positions.iter().all(|at| steps[*at].runs_no_code());
        is_short.then_some(TestPath { steps: positions, registers: needed })
    }

    fn fails<'py>(&self, steps: &[Step], frame: &impl FrameView<'py>) -> bool {
        let mut filled = PathRegisters { registers: &self.registers, values: Objects::new() };
        for at in &self.steps {
            let passes = match &steps[*at] {
                Step::Fetch(fetch) => fetch.run(frame, &filled).map(|value| filled.values.push(value)).is_some(),
                Step::Test(register, check) => check.run(filled.at(*register), &filled),
            };
            if !passes {
                return true;
            }
        }
        false
    }
}

/// The registers that a step needs. For a fetch this is the register it fills, the last of `fetched` ones.
fn of_step(step: &Step, fetched: usize) -> Vec<Register> {
    match step {
        Step::Fetch(_) => vec![fetched as Register - 1],
        Step::Test(register, check) => std::iter::once(*register).chain(check.compared().iter().copied()).collect(),
    }
}

impl Step {
    /// True if the step cannot run the program's code and uses nothing up (such as an item of an iterator).
    fn runs_no_code(&self) -> bool {
        match self {
            Step::Fetch(
                Fetch::Argument(_)
                | Fetch::FreeCell(_)
                | Fetch::Globals
                | Fetch::Builtins
                | Fetch::Constant(_)
                | Fetch::GuardedKey(_)
                | Fetch::InstanceDict(_)
                | Fetch::Lookup(..)
                | Fetch::Type(_)
                | Fetch::Index(..)
                | Fetch::Last(..)
                | Fetch::DictItem(..)
                | Fetch::CellContents(_)
                | Fetch::Part(..)
                | Fetch::Length(_),
            ) => true,
            Step::Fetch(_) | Step::Test(_, Check::Objects(..) | Check::Apart(..)) => false,
            Step::Test(..) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(steps: &[Step]) -> Option<(Vec<usize>, Vec<Register>)> {
        TestPath::to(steps, steps.len() - 1).map(|path| (path.steps, path.registers))
    }

    #[test]
    fn a_path_has_what_the_test_needs_and_no_more() {
        let steps = [
            Step::Fetch(Fetch::Argument(0)),
            Step::Fetch(Fetch::Argument(1)),
            Step::Test(0, Check::Length(3)),
            Step::Test(1, Check::Length(2)),
            Step::Fetch(Fetch::Index(0, 0)),
            Step::Fetch(Fetch::Index(1, 1)),
            Step::Test(3, Check::SameAs(2)),
            Step::Test(3, Check::Length(5)),
        ];
        assert_eq!(path(&steps), Some((vec![1, 3, 5, 7], vec![1, 3])));
        assert_eq!(path(&steps[..7]), Some((vec![0, 1, 2, 3, 4, 5, 6], vec![0, 1, 2, 3])));
        assert_eq!(path(&steps[..6]), Some((vec![1, 3, 5], vec![1, 3])), "a fetch may fail, too");
    }

    #[test]
    fn what_may_run_code_is_not_asked_first() {
        let steps =
            [Step::Fetch(Fetch::Argument(0)), Step::Fetch(Fetch::Upcoming(0, 0)), Step::Test(1, Check::Length(3))];
        assert_eq!(path(&steps), None);
    }

    #[test]
    fn long_paths_are_not_taken() {
        let mut steps = vec![Step::Fetch(Fetch::Argument(0))];
        steps.extend((0..MAX_STEPS).map(|at| Step::Fetch(Fetch::Index(at as Register, 0))));
        steps.push(Step::Test(MAX_STEPS as Register, Check::Length(1)));
        assert_eq!(path(&steps), None);
    }
}
